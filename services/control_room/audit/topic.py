"""The topic from its oldest record to its end, as it was when the audit began."""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from services.control_room.settings import PlacesSettings
from shared.messaging.records import digest, id_of


class TopicUnreadable(Exception):
    """The broker stopped answering in the middle: there is no verdict."""


def identity(places: PlacesSettings) -> str:
    """A topic that was deleted and created again under its name is another one, and begins at offset 0."""
    admin = AdminClient({"bootstrap.servers": places.kafka_bootstrap, "log_level": 3})
    asked = admin.describe_topics(TopicCollection([places.topic]), request_timeout=20)
    return str(asked[places.topic].result(20).topic_id)


class Record(NamedTuple):
    partition: int
    offset: int
    event_id: UUID | None
    payload_hash: bytes


class Topic:
    """`first` tells from which offset on each partition still has its records: what is below has expired."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "audit",
                "enable.auto.commit": False,
                # What retention removes while we read is an error: to go on behind it would call its events lost.
                "auto.offset.reset": "error",
                "log_level": 3,
            }
        )
        self._name = name
        found = self._consumer.list_topics(name, timeout=20).topics[name]
        if found.error is not None:
            raise KafkaException(found.error)
        ends = {p: self._consumer.get_watermark_offsets(TopicPartition(name, p), timeout=20) for p in found.partitions}
        self.first = {partition: low for partition, (low, _) in ends.items()}
        self.end = {partition: high for partition, (_, high) in ends.items()}

    def records(self) -> Iterator[Record]:
        waiting = {partition for partition, end in self.end.items() if end > self.first[partition]}
        self._consumer.assign([TopicPartition(self._name, p, self.first[p]) for p in waiting])
        silent = 0
        while waiting:
            messages = self._consumer.consume(2000, 0.1)  # waits for all of them, or for so long
            silent = 0 if messages else silent + 1
            if silent > 200:
                raise TopicUnreadable(f"{self._name}: nothing came for 20 s, with {len(waiting)} partition(s) open")
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                partition, offset, value = message.partition() or 0, message.offset() or 0, message.value()
                if offset < self.end[partition]:
                    yield Record(partition, offset, id_of(value), digest(value))
                if offset >= self.end[partition] - 1:
                    waiting.discard(partition)

    def close(self) -> None:
        self._consumer.close()
