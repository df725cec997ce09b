"""The consumer: what a topic delivers at least once is applied once.

does    takes a batch; in one transaction claims it, applies what is fresh and stores the offsets; then tells Kafka
reads   Kafka, consumer_offsets
writes  inbox, dead_letters, consumer_offsets and whatever the handlers write, together or not at all
next    inbox.py (the claim), parking.py (what cannot be applied), services/*/handlers.py (the effects)
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from shared.messaging import database_errors, handlers, inbox, kafka, meanwhile, metrics, parking, positions, records
from shared.messaging.errors import (
    Fenced,
    Permanent,
    RecordsExpired,
    RecordUnreadable,
    Stop,
    TooSlow,
    Transient,
    WindowTooShort,
)
from shared.messaging.event import Contracts
from shared.messaging.handlers import Handlers
from shared.messaging.kafka import KafkaSettings
from shared.messaging.positions import Place
from shared.messaging.records import Received, Record, Unreadable
from shared.messaging.replica_slot import ReplicaSlot
from shared.runtime import failpoints, logs
from shared.runtime.loop import Backoff

Delivered = Received | Unreadable

SESSION = "-c plan_cache_mode=force_generic_plan"
"""For the engine's connections (`options=`). The statements are the same for every batch, whatever its size; by default
PostgreSQL plans the claim anew each time, which takes nearly as long as running it for a handful of events."""

UNREADABLE = (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED)
"""Kafka's client would go on behind what it could not read. Nobody has seen that record: this process stops there."""


@dataclass(frozen=True)
class ConsumerSettings:
    name: str
    """Of the service: the group, the inbox rows and the failpoints carry it."""
    topics: tuple[str, ...]
    bootstrap_servers: str
    batch_size: int = 500
    linger_ms: int = 0
    """How long a first record waits for company. Under load batches fill by themselves during the transaction."""
    poll_ms: int = 500
    """How long an idle step waits for a first record."""
    max_attempts: int = 5
    """How often an event is tried alone before it is parked as handler-failed."""
    slots: int = 32
    session_timeout_ms: int = 6_000
    retry_limit_s: float = 2.0
    window_check_s: float = 3600.0
    observe_s: float = 5.0
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Whatever else the cluster asks for: security.protocol, sasl.*, …"""


class InboxConsumer:
    """`with InboxConsumer(…) as consumer: process.run_forever(consumer.step, idle_s=0)`; its poll is the wait."""

    def __init__(
        self,
        settings: ConsumerSettings,
        database: Engine,
        handlers: Handlers,
        contracts: Contracts,
        window_problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._settings, self._name = settings, settings.name
        self._database, self._handlers, self._contracts = database, handlers, contracts
        self._window = _Window(settings, window_problem)
        self._slot = ReplicaSlot(database, settings.name, settings.slots)
        self._problem: str | None = "has not joined its group yet"
        self._held_by: str | None = None
        """What the batch in hand waits for."""
        self._trouble: str | None = None
        """What Kafka's client has complained of, until something comes from Kafka again."""
        self._backoff = Backoff(0.05, settings.retry_limit_s)
        self._retry_at: float | None = None
        self._observed = 0.0

        self._arrived: deque[Message] = deque()
        """From Kafka, not decoded yet."""
        self._buffer: list[Delivered] = []
        self._alone = 0
        """The next so many records are taken one by one, because together they failed."""
        self._counted: tuple[Delivered, int] | None = None
        """The record whose present attempt is counted already: a database that is away costs no attempts."""
        self._last_error = ""
        """How the last attempt at the record in hand failed, if it was ours and left us alive."""

        self._topic_ids: dict[str, str] = {}
        self._topics: dict[str, str] = {}
        """By id."""
        self._awaiting: list[TopicPartition] = []
        """Assigned by the group, but not started: where to start is in the database."""
        self._stored: dict[Place, int] = {}
        """Assigned and started → what this process believes the database has stored."""
        self._done: dict[Place, int] = {}
        """… → how far it has come itself: what Kafka may know."""
        self._careful: dict[Place, int] = {}
        """… → how many records from `stored` on may hide the one that killed our predecessor."""
        self._kafka = Consumer(kafka_config(settings, self._slot.number) | {"error_cb": self._note_trouble})
        self._kafka.subscribe(
            list(settings.topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def step(self) -> int:
        """One batch, or one attempt at it. Returns how many records were settled."""
        try:
            if self._is_waiting():
                return 0
            self._slot.check()
            self._window.check()
            if self._awaiting:
                self._start_assigned()
            self._receive()
            self._observe()
            if self._buffer:
                return self._settle(self._take_batch())
            self._held_by = None
            return 0
        except Transient as error:
            return self._hold(error)

    def ready(self) -> str | None:
        """A readiness check: None, or in one sentence what keeps this consumer from working."""
        problem = self._window.problem or self._held_by or self._problem or self._trouble
        return problem and f"consumer {self._name} {problem}"

    # --- a batch and its transaction ---

    def _take_batch(self) -> "_Batch":
        """As many as there are; one, when the first is under suspicion; never a suspect among others."""
        alone = self._alone > 0 or self._is_suspect(self._buffer[0])
        size = 1 if alone else min(len(self._buffer), self._settings.batch_size)
        if self._careful and not alone:
            size = next((n for n in range(size) if self._is_suspect(self._buffer[n])), size)
        batch = _Batch(self._buffer[:size], alone, dict(self._stored))
        del self._buffer[:size]
        return batch

    def _is_suspect(self, record: Delivered) -> bool:
        place = record.topic_id, record.partition
        return self._careful.get(place, 0) > 0 and record.offset >= self._stored[place]

    def _settle(self, batch: "_Batch") -> int:
        failpoints.hit(f"{self._name}.consumer.after_receive")
        try:
            self._transaction(batch)
        except (Stop, failpoints.InjectedFault):
            raise
        except Transient as error:
            if isinstance(error, TooSlow):  # together again would be as slow; alone it counts as an attempt
                self._alone, self._counted = max(self._alone, len(batch.records)), None
                self._last_error = f": {error}"
            self._put_back(batch)
            raise
        except Exception as error:  # noqa: BLE001  a handler may fail in any way; none of them may skip an event
            return self._failed(batch, error)
        return self._settled(batch)

    def _transaction(self, batch: "_Batch") -> None:
        """Everything in here is committed together, or rolled back together."""
        with database_errors.translated():
            if batch.alone and self._gave_up(batch):
                return
            with self._session() as session, session.begin():
                fresh, bad = self._claim(session, batch)
                handlers.run(session, fresh, self._handlers)
                if bad:
                    failpoints.hit(f"{self._name}.consumer.before_park")
                    parking.park(session, self._name, bad)
                self._store_offsets(session, batch)
                failpoints.hit(f"{self._name}.consumer.before_commit")
        failpoints.hit(f"{self._name}.consumer.after_commit")

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """While the database works on this one, the next batch is decoded."""
        with (
            self._database.connect() as connection,
            meanwhile.waiting(connection, self._decode),
            Session(connection) as session,
        ):
            yield session

    def _claim(self, session: Session, batch: "_Batch") -> tuple[list[Received], list[tuple[Record, Permanent]]]:
        bad: list[tuple[Record, Permanent]] = [(r, r.problem) for r in batch.records if isinstance(r, Unreadable)]
        readable = [r for r in batch.records if isinstance(r, Received)]
        handled = [r for r in readable if r.event.type in self._handlers]
        claim = inbox.claim(session, self._name, handled)
        failpoints.hit(f"{self._name}.consumer.after_claim")
        batch.applied, batch.duplicates = len(claim.fresh), claim.duplicates
        batch.skipped = len(readable) - len(handled)
        return claim.fresh, bad + claim.refused

    def _store_offsets(self, session: Session, batch: "_Batch") -> None:
        positions.store(session, self._name, self._topics, batch.next_offsets, batch.believed)
        if batch.alone:
            parking.forget_attempts(session, self._name, batch.records[0])

    def _gave_up(self, batch: "_Batch") -> bool:
        """Counts the attempt before it is made. One too many: parked instead."""
        record = batch.records[0]
        if self._counted is None or self._counted[0] is not record:
            with Session(self._database) as session, session.begin():
                self._counted = record, parking.count_attempt(session, self._name, record)
        batch.attempts = self._counted[1]
        if batch.attempts <= self._settings.max_attempts:
            return False
        batch.attempts -= 1
        self._park_alone(batch, Permanent(f"every attempt failed or ended the process{self._last_error}"))
        return True

    def _park_alone(self, batch: "_Batch", problem: Permanent) -> None:
        failpoints.hit(f"{self._name}.consumer.before_park")
        with database_errors.translated(), Session(self._database) as session, session.begin():
            parking.park(session, self._name, [(batch.records[0], problem)], attempts=max(1, batch.attempts))
            self._store_offsets(session, batch)

    # --- after the transaction ---

    def _settled(self, batch: "_Batch") -> int:
        """Only now may Kafka know: an offset that ran ahead of the commit would lose the batch."""
        self._backoff.reset()
        self._held_by, self._counted, self._last_error = None, None, ""
        self._alone = max(0, self._alone - len(batch.records))
        for record in batch.records:
            if self._is_suspect(record):
                self._careful[record.topic_id, record.partition] -= 1
        done = {place: offset for place, offset in batch.next_offsets.items() if place in self._stored}
        self._stored |= {place: max(offset, self._stored[place]) for place, offset in done.items()}
        self._done |= done
        self._tell_kafka(done, wait_for_answer=False)
        failpoints.hit(f"{self._name}.consumer.after_offset")
        batch.count(self._name)
        return len(batch.records)

    def _failed(self, batch: "_Batch", error: Exception) -> int:
        """For good, as far as one can know. Together: find out which. Alone: park it, or try a bug a few times."""
        log = logs.get().bind(error=repr(error), records=len(batch.records))
        if len(batch.records) > 1:
            log.warning("batch failed, taking it apart")
            self._alone = len(batch.records)
            self._put_back(batch)
            return 0
        if isinstance(error, Permanent):
            try:
                self._park_alone(batch, error)
            except Transient:
                self._put_back(batch)
                raise
            return self._settled(batch)
        log.warning("handler failed", attempt=batch.attempts, exc_info=error)
        self._last_error = f": {error!r}"
        self._alone, self._counted = max(self._alone, 1), None
        self._put_back(batch)
        return self._hold(Transient(f"handler failed: {error!r}"))

    def _put_back(self, batch: "_Batch") -> None:
        """What was revoked meanwhile belongs to somebody else now."""
        self._buffer[:0] = [r for r in batch.records if (r.topic_id, r.partition) in self._stored]

    # --- waiting with the batch in hand ---

    def _hold(self, error: Transient) -> int:
        """Never the next poll, which would skip the batch: it stays, and the partitions are paused meanwhile."""
        pause_s = self._backoff.next_s()
        self._retry_at = time.monotonic() + pause_s
        self._held_by = f"is waiting: {error}"
        self._observed = 0.0  # ask the database as soon as we try again
        metrics.RETRIES.labels(self._name).inc()
        logs.get().warning("same batch again", error=str(error), retry_in_s=round(pause_s, 2))
        self._kafka.pause(self._kafka.assignment())
        return 0

    def _is_waiting(self) -> bool:
        """Polls meanwhile, which keeps the membership: a group that hears nothing gives our partitions away."""
        if self._retry_at is None:
            return False
        remaining = self._retry_at - time.monotonic()
        if remaining > 0:
            self._fetch(1, min(remaining, 0.5))
            return True
        self._retry_at = None
        self._kafka.resume(self._kafka.assignment())
        return False

    # --- Kafka ---

    def _receive(self) -> None:
        """What a batch needs now; and what else has come, to be decoded while the database works."""
        self._decode(len(self._arrived))
        if not self._buffer:
            self._fetch(1, self._settings.poll_ms / 1000)
            if self._arrived:
                self._fetch(self._settings.batch_size - 1, self._settings.linger_ms / 1000)
            self._decode(len(self._arrived))
        if not self._alone and len(self._buffer) <= self._settings.batch_size:
            self._fetch(self._settings.batch_size, 0)

    def _fetch(self, most: int, timeout_s: float) -> None:
        """Whatever comes while paused is kept too: it would not be delivered again."""
        for message in self._consume(most, timeout_s) if most else ():
            if error := message.error():
                self._raise_for(error, f"{message.topic()}/{message.partition()}")
            elif self._place_of(message) in self._stored:
                self._arrived.append(message)
                self._trouble = None
            # else it was taken away in this very call: it is another's now, and here it would overtake what was dropped

    def _decode(self, most: int = 5) -> bool:
        """The default takes a fraction of a millisecond. Answers whether there are more."""
        for _ in range(min(most, len(self._arrived))):
            message = self._arrived.popleft()
            self._buffer.append(records.read(message, self._place_of(message)[0], self._contracts))
        return bool(self._arrived)

    def _place_of(self, message: Message) -> Place:
        return self._topic_ids.get(message.topic() or "", ""), message.partition() or 0

    def _consume(self, most: int, timeout_s: float) -> list[Message]:
        try:
            return self._kafka.consume(most, timeout_s)
        except KafkaException as error:
            self._raise_for(error.args[0], "consume")
            return []

    def _raise_for(self, error: KafkaError, where: str) -> None:
        if error.fatal() or error.code() in (KafkaError._FATAL, KafkaError._FENCED, KafkaError.FENCED_INSTANCE_ID):
            raise Fenced(f"{where}: {error.str()}")
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            metrics.RECORDS_EXPIRED.labels(self._name).set(1)
            logs.get().error("records-expired", where=where, error=error.str())
            raise RecordsExpired(f"records-expired: {where}: {error.str()}")
        if error.code() in UNREADABLE:
            raise RecordUnreadable(f"{where}: {error.str()}")
        self._note_trouble(error)

    def _note_trouble(self, error: KafkaError) -> None:
        """It passes, or it does not: until then this consumer is not ready, and whoever watches it knows why."""
        self._trouble = f"gets nothing from Kafka: {error.str()}"
        logs.get().warning("kafka has trouble", error=error.str())

    def _tell_kafka(self, places: dict[Place, int], *, wait_for_answer: bool) -> None:
        offsets = [TopicPartition(self._topics[by_id], number, offset) for (by_id, number), offset in places.items()]
        if not offsets:
            return
        try:
            self._kafka.commit(offsets=offsets, asynchronous=not wait_for_answer)  # type: ignore[call-overload]
        except KafkaException as error:
            # Not lost: the database has them. The next owner re-reads a batch and its inbox recognises it.
            logs.get().info("offsets not taken by Kafka", error=str(error))

    def _on_assign(self, kafka: Consumer, partitions: list[TopicPartition]) -> None:
        """Nothing is fetched until the database has said where to start; that may take until it is back."""
        self._awaiting = partitions
        if not partitions:  # more consumers than partitions: a reserve is ready too
            self._problem = None
        kafka.assign([])

    def _on_revoke(self, kafka: Consumer, partitions: list[TopicPartition]) -> None:
        """Never within a transaction: what is done is handed over, and the next owner starts behind it."""
        self._tell_kafka(self._done, wait_for_answer=True)
        self._on_lost(kafka, partitions)

    def _on_lost(self, _kafka: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            place = self._topic_ids.get(partition.topic, ""), partition.partition
            for known in (self._stored, self._done, self._careful):
                known.pop(place, None)
        self._buffer = [r for r in self._buffer if (r.topic_id, r.partition) in self._stored]
        self._arrived = deque(message for message in self._arrived if self._place_of(message) in self._stored)
        self._awaiting = []

    def _start_assigned(self) -> None:
        """At the lower of Kafka's and the database's offset, so that a database set back reads again what it lost."""
        try:
            self._topic_ids = topic_ids(self._settings)
            self._topics = {topic_id: topic for topic, topic_id in self._topic_ids.items()}
            committed = {(p.topic, p.partition): p.offset for p in self._kafka.committed(self._awaiting, 10)}
            ends = {(p.topic, p.partition): self._kafka.get_watermark_offsets(p, 10)[1] for p in self._awaiting}
        except KafkaException as error:
            raise Transient(str(error)) from error
        with database_errors.translated(), Session(self._database) as session, session.begin():
            logs_end = {(self._topic_ids[topic], number): end for (topic, number), end in ends.items()}
            stored = positions.stored(session, self._name, not_beyond=logs_end)
            parking.forget_old_attempts(session, self._name)
        for partition in self._awaiting:
            place = self._topic_ids[partition.topic], partition.partition
            in_kafka = committed[partition.topic, partition.partition]
            start = positions.start(stored.get(place), in_kafka if in_kafka >= 0 else None)
            partition.offset = OFFSET_BEGINNING if start is None else start
            self._stored[place] = stored.get(place, 0)
            self._careful[place] = self._settings.batch_size if self._slot.after_crash else 0
        self._kafka.assign(self._awaiting)
        # The client remembers a pause beyond the assignment it was made in: nothing would ever come.
        self._kafka.resume(self._awaiting)
        logs.get().info("assigned", partitions=[f"{p.topic}/{p.partition}@{p.offset}" for p in self._awaiting])
        self._awaiting, self._problem, self._slot.after_crash = [], None, False

    # --- watching, and the end ---

    def _observe(self) -> None:
        if time.monotonic() < self._observed + self._settings.observe_s:
            return
        held = {(by_id, number): TopicPartition(self._topics[by_id], number) for by_id, number in self._stored}
        ends = {place: self._kafka.get_watermark_offsets(held[place], cached=True) for place in held}
        if self._trouble:
            self._ask_whether_it_is_over(list(held.values()))
        lag = sum(max(0, ends[place][1] - offset) for place, offset in self._stored.items() if ends[place])
        metrics.LAG.labels(self._name).set(lag)
        if lag == 0:
            metrics.LAG_SECONDS.labels(self._name).set(0)
        elif self._buffer:  # a batch that waits grows older
            metrics.LAG_SECONDS.labels(self._name).set(max(0.0, time.time() - self._buffer[0].timestamp_ms / 1000))
        with database_errors.translated(), Session(self._database) as session:
            metrics.OPEN_LETTERS.labels(self._name).set(parking.open_letters(session, self._name))
            positions.refuse_set_back(positions.stored(session, self._name), self._stored)
        self._observed = time.monotonic()

    def _ask_whether_it_is_over(self, held: Sequence[TopicPartition]) -> None:
        """Where nothing happens no record would tell."""
        with suppress(KafkaException):
            answers = [self._kafka.get_watermark_offsets(partition, 1) for partition in held]
            if all(answers or [self._kafka.list_topics(timeout=1)]):
                self._trouble = None

    def close(self, *, clean: bool = True) -> None:
        """SIGTERM: the last step has settled its batch; the offsets are handed over and the slot is freed."""
        self._kafka.close()
        self._slot.release(clean=clean)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """A process that ends by an error did not end cleanly: perhaps an event was the reason."""
        self.close(clean=kind is None)


class _Window:
    """Would Kafka deliver what the inbox has forgotten? Then the consumer does not start, and later is not ready."""

    def __init__(self, settings: ConsumerSettings, ask: Callable[[], str | None]) -> None:
        self._settings, self._ask, self._asked = settings, ask, float("-inf")
        self.problem: str | None = None
        self.check()
        if self.problem:
            raise WindowTooShort(self.problem)

    def check(self) -> None:
        if time.monotonic() < self._asked + self._settings.window_check_s:
            return
        problem = self._ask()
        self._asked = time.monotonic()
        self.problem = problem and f"has too short a dedupe window: {problem}"
        metrics.WINDOW_TOO_SHORT.labels(self._settings.name).set(1 if problem else 0)
        if problem:
            logs.get().error("dedupe window too short", problem=problem)


class _Batch:
    def __init__(self, records: Sequence[Delivered], alone: bool, believed: dict[Place, int]) -> None:
        self.records, self.alone, self.believed = records, alone, believed
        self.next_offsets: dict[Place, int] = {(r.topic_id, r.partition): r.offset + 1 for r in records}
        self.applied = self.duplicates = self.skipped = self.attempts = 0

    def count(self, consumer: str) -> None:
        metrics.CONSUMED.labels(consumer).inc(len(self.records))
        metrics.APPLIED.labels(consumer).inc(self.applied)
        metrics.DUPLICATES.labels(consumer).inc(self.duplicates)
        metrics.SKIPPED.labels(consumer).inc(self.skipped)
        metrics.BATCH_SIZE.labels(consumer).observe(len(self.records))
        metrics.LAG_SECONDS.labels(consumer).set(max(0.0, time.time() - self.records[-1].timestamp_ms / 1000))
        if self.duplicates:
            logs.get().info("duplicates suppressed", consumer=consumer, duplicates=self.duplicates)


def kafka_config(settings: ConsumerSettings, slot: int) -> dict[str, Any]:
    return {
        **KafkaSettings(settings.bootstrap_servers, f"{settings.name}-{slot}", settings.kafka).common(),
        "group.id": settings.name,
        # Static membership: a killed consumer that comes back under the same id goes on at once, with no rebalance.
        # It needs the classic protocol; the new one refuses an id whose last holder it has not given up yet.
        "group.protocol": "classic",
        "group.instance.id": f"{settings.name}-{slot}",
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": settings.session_timeout_ms // 4,
        "partition.assignment.strategy": "range",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",  # a position that is gone is an alarm, never a skip
        "allow.auto.create.topics": False,
    }


def topic_ids(settings: ConsumerSettings) -> dict[str, str]:
    admin = kafka.admin(KafkaSettings(settings.bootstrap_servers, f"{settings.name}-admin", settings.kafka))
    asked = admin.describe_topics(TopicCollection(list(settings.topics)), request_timeout=10)
    return {topic: str(future.result().topic_id) for topic, future in asked.items()}
