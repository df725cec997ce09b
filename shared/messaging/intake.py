"""What Kafka hands to one consumer: the partitions it holds, and the records it has received and not settled yet.

does    joins the group; starts partitions where it is told; receives, decodes and keeps records; hands partitions over
reads   Kafka
writes  the group's offsets in Kafka: what is settled, never more
next    positions.py (where to start)
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)

from shared.messaging import kafka, metrics, positions, records
from shared.messaging.errors import Fenced, RecordsExpired, RecordUnreadable, TopicSetBack, Transient
from shared.messaging.event import Contracts
from shared.messaging.kafka import KafkaSettings
from shared.messaging.positions import InKafka, Place
from shared.messaging.records import Delivered
from shared.runtime import logs

if TYPE_CHECKING:
    from shared.messaging.consumer import ConsumerSettings

CLOSED_WITHIN_S = 5.0
UNREADABLE = (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED)
"""Kafka's client would go on behind what it could not read. Nobody has seen that record: this process stops there."""


@dataclass(slots=True)
class Held:
    """A partition that is ours and has begun."""

    stored: int
    """What this process believes the database has stored."""
    careful: int
    """How many records from `stored` on may hide the one that killed our predecessor."""
    done: int | None = None
    """How far this process has come itself: what Kafka may know."""


class Intake:
    """Rebalances happen within `receive`, `keep_membership` and `close` only, so never within a transaction."""

    def __init__(self, settings: "ConsumerSettings", instance: int, contracts: Contracts) -> None:
        self._settings, self._contracts = settings, contracts
        self.held: dict[Place, Held] = {}
        self.topics: dict[str, str] = {}
        """By id."""
        self.buffer: list[Delivered] = []
        self._arrived: deque[Message] = deque()
        """From Kafka, not decoded yet."""
        self._ids: dict[str, str] = {}
        """By topic."""
        self._awaiting: list[TopicPartition] = []
        """Assigned by the group, but not started: where to start is in the database."""
        self._has_joined = False
        self._trouble: str | None = None
        """What Kafka's client has complained of, until something comes from Kafka again."""
        self._kafka = Consumer(_config(settings, instance, self._note_trouble))
        self._kafka.subscribe(
            list(settings.topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    @property
    def problem(self) -> str | None:
        return self._trouble if self._has_joined else "has not joined its group yet"

    # --- records ---

    def receive(self, *, ahead: bool) -> None:
        """What a batch needs now; and, `ahead`, what else has come, to be decoded while the database works.

        One record is asked for in any case: a group waits for members that do not poll, and then drops them.
        """
        self.decode(len(self._arrived))
        if not self.buffer:
            self._fetch(1, self._settings.poll_ms / 1000)
            if self._arrived:
                self._fetch(self._settings.batch_size - 1, self._settings.linger_ms / 1000)
            self.decode(len(self._arrived))
        wanted = ahead and len(self.buffer) <= self._settings.batch_size
        self._fetch(self._settings.batch_size if wanted else 1, 0)

    def decode(self, most: int = 5) -> bool:
        """The default takes a fraction of a millisecond. Answers whether there are more."""
        for _ in range(min(most, len(self._arrived))):
            message = self._arrived.popleft()
            self.buffer.append(records.read(message, self._place_of(message)[0], self._contracts))
        return bool(self._arrived)

    def take(self, most: int) -> list[Delivered]:
        """As many as there are, up to the next one under suspicion: that is never among others."""
        size = min(most, len(self.buffer))
        if any(held.careful for held in self.held.values()):
            size = next((n for n in range(1, size) if self.is_suspect(self.buffer[n])), size)
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def is_suspect(self, record: Delivered) -> bool:
        held = self.held[record.topic_id, record.partition]
        return held.careful > 0 and record.offset >= held.stored

    def put_back(self, taken: Sequence[Delivered]) -> None:
        self.buffer[:0] = taken

    def settled(self, taken: Sequence[Delivered], next_offsets: Mapping[Place, int]) -> None:
        """Their transaction is committed: only now may Kafka know. An offset that ran ahead of it would lose them."""
        for record in taken:
            if self.is_suspect(record):
                self.held[record.topic_id, record.partition].careful -= 1
        for place, offset in next_offsets.items():
            self.held[place].stored = max(offset, self.held[place].stored)
            self.held[place].done = offset
        self._tell_kafka(next_offsets, wait_for_answer=False)

    # --- partitions ---

    def believed(self) -> dict[Place, int]:
        """What the database has stored, as far as we know."""
        return {place: held.stored for place, held in self.held.items()}

    def is_assigned_anew(self) -> bool:
        return bool(self._awaiting)

    def ask(self) -> dict[Place, InKafka]:
        """About the partitions that are new."""
        try:
            self._ids = _topic_ids(self._settings)
            self.topics = {topic_id: topic for topic, topic_id in self._ids.items()}
            return {
                (self._ids[p.topic], p.partition): InKafka(
                    p.offset if p.offset >= 0 else None, *self._kafka.get_watermark_offsets(p, 10)
                )
                for p in self._kafka.committed(self._awaiting, 10)
            }
        except KafkaException as error:
            raise Transient(str(error)) from error

    def start(self, found: Mapping[Place, InKafka], stored: Mapping[Place, int], *, careful: int) -> None:
        for partition in self._awaiting:
            place = self._ids[partition.topic], partition.partition
            partition.offset = positions.start(stored[place], found[place])
            self.held[place] = Held(stored[place], careful)
        self._kafka.assign(self._awaiting)
        # The client remembers a pause beyond the assignment it was made in: nothing would ever come.
        self._kafka.resume(self._awaiting)
        logs.get().info("assigned", partitions=[f"{p.topic}/{p.partition}@{p.offset}" for p in self._awaiting])
        self._awaiting, self._has_joined = [], True

    def pause(self) -> None:
        self._kafka.pause(self._kafka.assignment())

    def keep_membership(self, seconds: float) -> None:
        """While paused: a group that hears nothing of us gives our partitions away."""
        self._fetch(1, seconds)

    def resume(self) -> None:
        self._kafka.resume(self._kafka.assignment())

    def observe(self) -> None:
        """How far behind we are; and whether a trouble is over where nothing happens, so that no record would tell."""
        held = {place: TopicPartition(self.topics[place[0]], place[1]) for place in self.held}
        ends = {place: self._kafka.get_watermark_offsets(partition, cached=True) for place, partition in held.items()}
        if self._trouble:
            with suppress(KafkaException):
                answers = [self._kafka.get_watermark_offsets(partition, 1) for partition in held.values()]
                if all(answers or [self._kafka.list_topics(timeout=1)]):
                    self._trouble = None
        lag = sum(max(0, end[1] - self.held[place].stored) for place, end in ends.items() if end)
        metrics.LAG.labels(self._settings.name).set(lag)
        if lag == 0:
            metrics.LAG_SECONDS.labels(self._settings.name).set(0)
        elif self.buffer:  # a batch that waits grows older
            age_s = time.time() - self.buffer[0].timestamp_ms / 1000
            metrics.LAG_SECONDS.labels(self._settings.name).set(max(0.0, age_s))

    def close(self) -> None:
        """Within a limit: a client that is given partitions in this very moment waits for itself for ever (librdkafka's
        issue 4884). What is settled is in the database; the next owner goes on from there."""
        closing = threading.Thread(target=self._kafka.close, daemon=True)
        closing.start()
        closing.join(CLOSED_WITHIN_S)
        if closing.is_alive():
            logs.get().warning("kafka's client does not close: it ends with the process")

    # --- Kafka's client ---

    def _fetch(self, most: int, timeout_s: float) -> None:
        """Whatever comes while paused is kept too: it would not be delivered again."""
        for message in self._consume(most, timeout_s) if most else ():
            place = self._place_of(message)
            if error := message.error():
                self._raise_for(error, place)
            elif place in self.held:
                self._arrived.append(message)
                self._trouble = None
            # else it was taken away in this very call: it is another's now, and here it would overtake what was dropped

    def _consume(self, most: int, timeout_s: float) -> list[Message]:
        try:
            return self._kafka.consume(most, timeout_s)
        except KafkaException as error:
            self._raise_for(error.args[0])
            return []

    def _raise_for(self, error: KafkaError, place: Place = ("", 0)) -> None:
        if error.fatal() or error.code() in (KafkaError._FATAL, KafkaError._FENCED, KafkaError.FENCED_INSTANCE_ID):
            raise Fenced(error.str())
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._raise_for_range(error, place)
        if error.code() in UNREADABLE:
            raise RecordUnreadable(f"partition {place[1]}: {error.str()}")
        self._note_trouble(error)

    def _raise_for_range(self, error: KafkaError, place: Place) -> None:
        """Our position is before the topic's first record, or beyond its last."""
        try:
            first, end = self._kafka.get_watermark_offsets(TopicPartition(self.topics[place[0]], place[1]), 5)
        except (KafkaException, KeyError) as unknown:
            raise TopicSetBack from unknown
        if self.held[place].stored >= first:
            raise TopicSetBack(f"partition {place[1]} ends at {end}: {error.str()}")
        metrics.RECORDS_EXPIRED.labels(self._settings.name).set(1)
        logs.get().error("records-expired", partition=place[1], first=first, error=error.str())
        raise RecordsExpired(f"records-expired: partition {place[1]} begins at {first}: {error.str()}")

    def _note_trouble(self, error: KafkaError) -> None:
        """It passes, or it does not: until then this consumer is not ready, and whoever watches it knows why."""
        self._trouble = f"gets nothing from Kafka: {error.str()}"
        logs.get().warning("kafka has trouble", error=error.str())

    def _place_of(self, message: Message) -> Place:
        return self._ids.get(message.topic() or "", ""), message.partition() or 0

    def _tell_kafka(self, places: Mapping[Place, int], *, wait_for_answer: bool) -> None:
        offsets = [TopicPartition(self.topics[by_id], number, offset) for (by_id, number), offset in places.items()]
        if not offsets:
            return
        try:
            self._kafka.commit(offsets=offsets, asynchronous=not wait_for_answer)  # type: ignore[call-overload]
        except KafkaException as error:
            # Not lost: the database has them. The next owner re-reads a batch and its inbox recognises it.
            logs.get().info("offsets not taken by Kafka", error=str(error))

    def _on_assign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """Nothing is fetched until the database has said where to start; that may take until it is back."""
        self._awaiting = partitions
        if not partitions:  # more consumers than partitions: a reserve is ready too
            self._has_joined = True
        client.assign([])

    def _on_revoke(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        """What is done is handed over, and the next owner starts behind it."""
        done = {place: held.done for place, held in self.held.items() if held.done is not None}
        self._tell_kafka(done, wait_for_answer=True)
        self._on_lost(client, partitions)

    def _on_lost(self, _client: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self.held.pop((self._ids.get(partition.topic, ""), partition.partition), None)
        self.buffer = [r for r in self.buffer if (r.topic_id, r.partition) in self.held]
        self._arrived = deque(message for message in self._arrived if self._place_of(message) in self.held)
        self._awaiting = []


def _config(settings: "ConsumerSettings", instance: int, error_cb: Callable[[KafkaError], None]) -> dict[str, Any]:
    return {
        **KafkaSettings(settings.bootstrap_servers, f"{settings.name}-{instance}", settings.kafka).common(),
        "error_cb": error_cb,
        "group.id": settings.name,
        # Static membership: a killed consumer that comes back under the same id goes on at once, with no rebalance.
        # It needs the classic protocol; the new one refuses an id whose last holder it has not given up yet.
        "group.protocol": "classic",
        "group.instance.id": f"{settings.name}-{instance}",
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": settings.session_timeout_ms // 4,
        "partition.assignment.strategy": "range",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",  # a position that is gone is an alarm, never a skip
        "allow.auto.create.topics": False,
    }


def _topic_ids(settings: "ConsumerSettings") -> dict[str, str]:
    admin = kafka.admin(KafkaSettings(settings.bootstrap_servers, f"{settings.name}-admin", settings.kafka))
    asked = admin.describe_topics(TopicCollection(list(settings.topics)), request_timeout=10)
    return {topic: str(future.result().topic_id) for topic, future in asked.items()}
