"""The consumer: what a topic delivers at least once is applied once.

does    takes a batch; in one transaction claims it, applies what is fresh and stores the offsets; then tells Kafka
reads   Kafka (intake.py), consumer_offsets
writes  inbox, dead_letters, consumer_offsets and whatever the handlers write, together or not at all
next    intake.py (what Kafka hands to it), parking.py (what cannot be applied), services/*/handlers.py (the effects)
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from shared.messaging import database_errors, handlers, inbox, meanwhile, metrics, parking, positions
from shared.messaging.errors import Permanent, Stop, TooSlow, Transient, WindowTooShort
from shared.messaging.event import Contracts
from shared.messaging.handlers import Handlers
from shared.messaging.intake import Intake
from shared.messaging.positions import Place
from shared.messaging.records import Delivered, Received, Record, Unreadable
from shared.messaging.replica_slot import ReplicaSlot
from shared.runtime import failpoints, logs
from shared.runtime.loop import Backoff

SESSION = "-c plan_cache_mode=force_generic_plan"
"""For the engine's connections (`options=`). The statements are the same for every batch, whatever its size; by default
PostgreSQL plans the claim anew each time, which takes nearly as long as running it for a handful of events."""


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
        self._database, self._handlers = database, handlers
        self._window = _Window(settings, window_problem)
        self._slot = ReplicaSlot(database, settings.name, settings.slots)
        self._intake = Intake(settings, self._slot.number, contracts)
        self._held_by: str | None = None
        """What the batch in hand waits for."""
        self._backoff = Backoff(0.05, settings.retry_limit_s)
        self._retry_at: float | None = None
        self._observed = 0.0
        self._alone = 0
        """The next so many records are taken one by one, because together they failed."""
        self._counted: tuple[Delivered, int] | None = None
        """The record whose present attempt is counted already: a database that is away costs no attempts."""
        self._last_error = ""
        """How the last attempt at the record in hand failed, if it was ours and left us alive."""

    def step(self) -> int:
        """One batch, or one attempt at it. Returns how many records were settled."""
        try:
            if self._is_waiting():
                return 0
            self._slot.check()
            self._window.check()
            if self._intake.is_assigned_anew():
                self._start_assigned()
            self._intake.receive(ahead=not self._alone)
            self._observe()
            if self._intake.buffer:
                return self._settle(self._take_batch())
            self._held_by = None
            return 0
        except Transient as error:
            return self._hold(error)

    def ready(self) -> str | None:
        """A readiness check: None, or in one sentence what keeps this consumer from working."""
        problem = self._window.problem or self._held_by or self._intake.problem
        return problem and f"consumer {self._name} {problem}"

    # --- a batch and its transaction ---

    def _take_batch(self) -> "_Batch":
        alone = self._alone > 0 or self._intake.is_suspect(self._intake.buffer[0])
        taken = self._intake.take(1 if alone else self._settings.batch_size)
        return _Batch(taken, alone, self._intake.believed())

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
            self._intake.put_back(batch.records)
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
            meanwhile.waiting(connection, self._intake.decode),
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
        positions.store(session, self._name, self._intake.topics, batch.next_offsets, batch.believed)
        if batch.alone:
            parking.forget_attempts(session, self._name)

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
        batch.applied = batch.duplicates = batch.skipped = 0
        failpoints.hit(f"{self._name}.consumer.before_park")
        with database_errors.translated(), Session(self._database) as session, session.begin():
            parking.park(session, self._name, [(batch.records[0], problem)], attempts=max(1, batch.attempts))
            self._store_offsets(session, batch)

    # --- after the transaction ---

    def _settled(self, batch: "_Batch") -> int:
        self._backoff.reset()
        self._held_by, self._counted, self._last_error = None, None, ""
        self._alone = max(0, self._alone - len(batch.records))
        self._intake.settled(batch.records, batch.next_offsets)
        failpoints.hit(f"{self._name}.consumer.after_offset")
        batch.count(self._name)
        return len(batch.records)

    def _failed(self, batch: "_Batch", error: Exception) -> int:
        """For good, as far as one can know. Together: find out which. Alone: park it, or try a bug a few times."""
        log = logs.get().bind(error=repr(error), records=len(batch.records))
        if len(batch.records) > 1:
            log.warning("batch failed, taking it apart")
            self._alone = len(batch.records)
            self._intake.put_back(batch.records)
            return 0
        if isinstance(error, Permanent):
            try:
                self._park_alone(batch, error)
            except Transient:
                self._intake.put_back(batch.records)
                raise
            return self._settled(batch)
        log.warning("handler failed", attempt=batch.attempts, exc_info=error)
        self._last_error = f": {error!r}"
        self._alone, self._counted = max(self._alone, 1), None
        self._intake.put_back(batch.records)
        return self._hold(Transient(f"handler failed: {error!r}"))

    # --- waiting with the batch in hand ---

    def _hold(self, error: Transient) -> int:
        """Never the next poll, which would skip the batch: it stays, and the partitions are paused meanwhile."""
        pause_s = self._backoff.next_s()
        self._retry_at = time.monotonic() + pause_s
        self._held_by = f"is waiting: {error}"
        self._observed = 0.0  # ask the database as soon as we try again
        metrics.RETRIES.labels(self._name).inc()
        logs.get().warning("same batch again", error=str(error), retry_in_s=round(pause_s, 2))
        self._intake.pause()
        return 0

    def _is_waiting(self) -> bool:
        if self._retry_at is None:
            return False
        remaining = self._retry_at - time.monotonic()
        if remaining > 0:
            self._intake.keep_membership(min(remaining, 0.5))
            return True
        self._retry_at = None
        self._intake.resume()
        return False

    # --- beginning, watching, and the end ---

    def _start_assigned(self) -> None:
        found = self._intake.ask()
        with database_errors.translated(), Session(self._database) as session, session.begin():
            stored = positions.begin(session, self._name, self._intake.topics, found)
            parking.forget_attempts(session, self._name)
        # An event may have killed the last holder of our slot: the first batch is taken one by one.
        self._intake.start(found, stored, careful=self._settings.batch_size if self._slot.after_crash else 0)
        self._slot.after_crash = False

    def _observe(self) -> None:
        if time.monotonic() < self._observed + self._settings.observe_s:
            return
        self._intake.observe()
        with database_errors.translated(), Session(self._database) as session:
            metrics.OPEN_LETTERS.labels(self._name).set(parking.open_letters(session, self._name))
            positions.refuse_set_back(positions.stored(session, self._name), self._intake.believed())
        self._observed = time.monotonic()

    def close(self, *, clean: bool = True) -> None:
        """SIGTERM: the last step has settled its batch; the offsets are handed over and the slot is freed."""
        self._intake.close()
        self._slot.release(clean=clean)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """A process that ends by an error did not end cleanly: perhaps an event was the reason."""
        self.close(clean=kind is None)


class _Window:
    """Would Kafka deliver what the inbox has forgotten? Then the consumer does not start, and later is not ready."""

    problem: str | None
    _ask_at: float

    def __init__(self, settings: ConsumerSettings, question: Callable[[], str | None]) -> None:
        self._settings, self._question = settings, question
        self._ask()
        if self.problem:
            raise WindowTooShort(self.problem)

    def check(self) -> None:
        """While nobody can say, what was said last still stands, and the work goes on."""
        if time.monotonic() < self._ask_at:
            return
        self._ask_at = time.monotonic() + min(60, self._settings.window_check_s)
        with suppress(Transient):
            self._ask()

    def _ask(self) -> None:
        problem = self._question()
        self._ask_at = time.monotonic() + self._settings.window_check_s
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
