"""The topic, for faults: what was published last, and publishing the very same bytes again.

does    reads events from the outbox and records from the topic; produces
reads   outbox (its rows hold the published bytes), Kafka
writes  Kafka: at the request of a person who wants to see what happens
next    faults.py
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from services.control_room.settings import PlacesSettings
from shared.messaging import kafka
from shared.messaging.kafka import KafkaSettings
from shared.messaging.records import id_of
from shared.runtime.problems import Problem

PATIENCE_S = 10.0

LATEST = """
SELECT event_id, key, value, headers FROM outbox
 WHERE topic = %s AND published_at IS NOT NULL ORDER BY event_id DESC LIMIT 1
"""
CONFIRMED = "SELECT confirmed_at FROM orders WHERE id = %s AND confirmed_at IS NOT NULL"
# No index has the key. An event's id says when it was made: a few minutes of the primary key, in one day's partition.
OF_ORDER = """
SELECT event_id, key, value, headers FROM outbox
 WHERE event_id BETWEEN %s AND %s AND topic = %s AND published_at IS NOT NULL AND key = %s
"""
ASIDE = timedelta(minutes=10)
"""An id is made by the service's clock, confirmed_at by the database's."""


class Published(NamedTuple):
    """What the relay has produced, byte for byte."""

    event_id: UUID
    key: str
    value: bytes
    headers: dict[str, str]


class Produced(NamedTuple):
    partition: int
    offset: int


class Record(NamedTuple):
    value: bytes | None
    key: bytes | str | None
    headers: Any = None
    partition: int = -1
    """-1: the key decides, as it does for the relay."""


def published(places: PlacesSettings, order_id: UUID | None = None) -> Published:
    """The event of an order, or of the order published last."""
    with psycopg.connect(places.orders_database_url, autocommit=True, connect_timeout=5) as orders:
        row = _of_order(orders, places.topic, order_id) if order_id else _latest(orders, places.topic)
    if row is None:
        raise Problem(
            409, "nothing-published", "There is no published event (of this order) yet: place an order first."
        )
    return Published(*row)


def _latest(orders: psycopg.Connection[Any], topic: str) -> tuple[Any, ...] | None:
    return orders.execute(LATEST, (topic,)).fetchone()


def _of_order(orders: psycopg.Connection[Any], topic: str, order_id: UUID) -> tuple[Any, ...] | None:
    confirmed = orders.execute(CONFIRMED, (order_id,)).fetchone()
    return orders.execute(OF_ORDER, (*around(confirmed[0]), topic, str(order_id))).fetchone() if confirmed else None


def around(moment: datetime) -> tuple[UUID, UUID]:
    """The smallest and the greatest id that an event of this moment can have."""
    first, last = (int(each.timestamp() * 1000) for each in (moment - ASIDE, moment + ASIDE))
    return UUID(int=first << 80), UUID(int=last << 80)


def produce(places: PlacesSettings, records: Iterable[Record]) -> list[Produced]:
    """All acknowledged, or a problem. A producer of its own for every call: what failed must not come out later."""
    producer = kafka.producer(KafkaSettings(places.kafka_bootstrap, "control-room"))
    done: list[Produced] = []
    failed: list[str] = []

    def delivered(error: object, message: Message) -> None:
        if error:
            failed.append(str(error))
        else:
            done.append(Produced(message.partition() or 0, message.offset() or 0))

    for record in records:
        while True:
            try:
                producer.produce(
                    places.topic, record.value, record.key, record.partition,
                    headers=record.headers, on_delivery=delivered,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(PATIENCE_S) or failed:
        producer.purge()
        raise Problem(503, "kafka-away", f"Kafka did not take everything: {failed[:1] or 'no answer'}")
    return done


def last_records(places: PlacesSettings, most: int, *, events_only: bool = True) -> list[Record]:
    """The newest records of every partition, as they are, each to be put back into its own partition. Those that are no
    event are left out: without an id every copy of them would be a new dead letter."""
    reader = Consumer(
        {"bootstrap.servers": places.kafka_bootstrap, "group.id": "control-room", "enable.auto.commit": False,
         "log_level": 3}
    )  # fmt: skip
    try:
        return [
            Record(message.value(), message.key(), message.headers(), message.partition() or 0)
            for message in _messages(reader, places.topic, most)
            if not events_only or id_of(message.value())
        ]
    except KafkaException as error:
        raise Problem(503, "kafka-away", f"Kafka does not answer: {error}") from error
    finally:
        reader.close()


def _messages(reader: Consumer, topic: str, most: int) -> list[Message]:
    partitions = reader.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
    ends = {p: reader.get_watermark_offsets(TopicPartition(topic, p), timeout=PATIENCE_S) for p in partitions}
    share = -(-most // max(1, sum(high > low for low, high in ends.values())))
    starts = {p: max(low, high - share) for p, (low, high) in ends.items() if high > low}
    reader.assign([TopicPartition(topic, p, start) for p, start in starts.items()])
    found: dict[int, list[Message]] = defaultdict(list)
    waiting = set(starts)
    deadline = time.monotonic() + PATIENCE_S
    while waiting:
        messages = reader.consume(1000, 0.2)  # waits for all of them, or for so long
        if time.monotonic() > deadline:
            raise Problem(503, "kafka-away", "Kafka stopped in the middle of the topic.")
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            if message.error() is None and offset < ends[partition][1]:
                found[partition].append(message)
            if offset >= ends[partition][1] - 1:
                waiting.discard(partition)
    return [message for p in sorted(found) for message in found[p]]
