"""The relay: takes unpublished rows to Kafka, in order per key, and marks what Kafka has acknowledged.

does    one step: select → produce → acknowledgements → mark. Crash anywhere: the rows are published again
reads   outbox (unpublished rows of the shards this relay holds)
writes  Kafka, then outbox.published_at
next    inbox.py (which drops what comes twice)
"""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import psycopg
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from psycopg import Connection

from shared.messaging import kafka, metrics, outbox
from shared.messaging.database_errors import classify
from shared.messaging.errors import Misuse, Transient
from shared.messaging.kafka import KafkaSettings
from shared.messaging.refusals import Refusals
from shared.messaging.shards import Shards
from shared.runtime import failpoints
from shared.runtime.ops import Check


@dataclass(frozen=True)
class RelaySettings:
    shards: int = 8
    """What the schema says (outbox_shards()); a relay that was told otherwise does not start."""
    max_batch_rows: int = 2000
    max_batch_bytes: int = 16 * 1024 * 1024
    patience_s: float = 5.0
    """How long one step waits for acknowledgements before it says so. It never gives up on them."""
    lease_s: float = 15.0
    """A relay whose database session is silent for so long is taken for dead and loses its shards. Longer than
    patience_s plus the pause between two failed steps."""
    rebalance_every_s: float = 0.5
    recheck_refused_every_s: float = 60.0
    first_look_s: float = 0.02
    """After work, the first wait without a hint is this short; it doubles up to what `wait` is asked for."""


class Row(NamedTuple):
    event_id: UUID
    topic: str
    key: str
    value: bytes
    headers: str


# READ COMMITTED. Unpublished rows, never "rows after the last one": a lower seq may commit after a higher one.
# One index range per shard, already in order; `shard = ANY(…) ORDER BY seq` would sort the whole backlog every time.
SELECT = """
    SELECT row.*
    FROM unnest(%(shards)s::smallint[]) AS held (shard)
    CROSS JOIN LATERAL (
        SELECT event_id, topic, key, value, headers::text
        FROM outbox
        WHERE outbox.shard = held.shard AND published_at IS NULL
          AND key <> ALL (%(held_back)s::text[]) AND topic <> ALL (%(topics_away)s::text[])
        ORDER BY seq LIMIT %(per_shard)s
    ) AS row
    LIMIT %(limit)s
"""

# READ COMMITTED; a row that somebody else has marked meanwhile stays as it is. BETWEEN lets PostgreSQL leave out the
# other days' partitions. num_nulls() says IS NULL in a way that keeps the planner off the partial index: with old
# statistics it would choose that one and read the whole backlog for every batch.
MARK = """
    UPDATE outbox SET published_at = clock_timestamp()
    WHERE event_id = ANY (%(ids)s) AND event_id BETWEEN %(least)s AND %(greatest)s AND num_nulls(published_at) = 1
"""

# For this connection only. The order of the index is the only plan that does not depend on the size of the backlog. A
# mark lost in a crash of the server means "published twice", so it need not wait for the disk.
SESSION = {
    "enable_sort": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "synchronous_commit": "off",
}


@dataclass
class Batch:
    rows: Sequence[Row]
    waiting: int = 0
    failed: KafkaError | None = None

    def delivered(self, error: KafkaError | None, _message: Message) -> None:
        self.waiting -= 1
        self.failed = self.failed or error


class BatchSize:
    """How many rows to take from each shard: ever more while there is a backlog, within limits for the whole batch."""

    FIRST = 20
    """Of the largest events that the outbox takes, on all shards: 80 MB."""

    def __init__(self, settings: RelaySettings) -> None:
        self.per_shard, self._settings = self.FIRST, settings

    def adapt(self, rows: Sequence[Row]) -> None:
        size = sum(len(row.value) for row in rows) + 1
        room = min(self._settings.max_batch_rows / len(rows), self._settings.max_batch_bytes / size)
        wanted = self.per_shard * 2 if len(rows) >= self.per_shard else self.FIRST
        self.per_shard = max(1, min(wanted, int(self.per_shard * room)))


class Relay:
    """Everything hangs on one database connection: the locks on the shards, the reading and the marking.

    If it breaks, the shards may already be another relay's: the batch and the producer are dropped and all starts
    again. What was already on its way to Kafka arrives twice, each time in order from the first unmarked row on, so the
    first occurrences of a key's events are in order whatever happens.
    """

    def __init__(
        self, service: str, database_url: str, kafka: KafkaSettings, settings: RelaySettings = RelaySettings()
    ) -> None:
        self.service, self.settings = service, settings
        self._database_url, self._kafka = database_url, kafka
        self._connection: Connection[Any] | None = None
        self._producer: Producer | None = None
        self._batch: Batch | None = None
        self._size = BatchSize(settings)
        self._refusals = Refusals(kafka, settings.recheck_refused_every_s)
        self._next_rebalance, self._look_s, self._oldest_age_s = 0.0, settings.first_look_s, 0.0

    def step(self) -> int:
        """Publishes one batch and answers its size. Transient: something is away, call again; nothing was lost."""
        try:
            return self._step(self._connected())
        except psycopg.Error as error:
            self._start_again()
            if (transient := classify(error)) is None:
                raise
            raise transient from error
        except (KafkaException, BufferError) as error:
            self._refusals.forget()  # the topic's limits may have changed
            self._start_again()
            raise Transient(f"Kafka: {error}") from error

    def _step(self, connection: Connection[Any]) -> int:
        if self._batch is None:
            self._rebalance(connection)
            rows = self._select(connection)
            if not rows:
                return 0
            failpoints.hit(f"{self.service}.relay.after_claim")
            self._batch = self._produce(rows)
            failpoints.hit(f"{self.service}.relay.after_produce")
        batch = self._batch
        self._await_acknowledgements(connection, batch)
        failpoints.hit(f"{self.service}.relay.after_ack")
        self._mark(connection, batch.rows)
        self._batch, self._look_s = None, self.settings.first_look_s
        return len(batch.rows)

    def wait(self, seconds: float) -> None:
        """Until a hint comes. Hints can be lost, so the first look after work comes soon, then ever more rarely."""
        self._look_s = min(self._look_s, seconds, self.settings.lease_s / 3)
        try:
            if _hints(self._connected(), self._look_s):
                return
        except psycopg.Error as error:
            self._start_again()
            if classify(error) is None:
                raise
        self._look_s *= 2

    def close(self) -> None:
        """Gives the shards back at once. What is not acknowledged yet will be published again by the next relay."""
        self._start_again()

    def lateness(self, max_age_s: float) -> Check:
        """A readiness check. The inboxes' memory is reckoned with events that reach the topic in time."""

        def check() -> str | None:
            late = self._oldest_age_s > max_age_s
            return f"an event has waited for {self._oldest_age_s:.0f} s to be published" if late else None

        return check

    @property
    def shards(self) -> Sequence[int]:
        return self._shards.held if self._connection is not None else ()

    def _rebalance(self, connection: Connection[Any]) -> None:
        """Only between batches: a shard must not change hands while its rows are published but not marked."""
        if time.monotonic() < self._next_rebalance:
            return
        self._next_rebalance = time.monotonic() + self.settings.rebalance_every_s
        self._shards.rebalance()
        metrics.RELAY_SHARDS.set(len(self._shards.held))
        self._watch_age(connection)

    def _watch_age(self, connection: Connection[Any]) -> None:
        self._oldest_age_s = outbox.oldest_unpublished_age_s(connection)
        metrics.OUTBOX_AGE.set(self._oldest_age_s)

    def _select(self, connection: Connection[Any]) -> list[Row]:
        if not self._shards.held:
            return []
        _hints(connection, 0)  # whatever they are about, the SELECT sees it
        parameters = {
            "shards": self._shards.held,
            "per_shard": self._size.per_shard,
            "limit": 2 * self.settings.max_batch_rows,
            **self._refusals.standing(),
        }
        rows = connection.execute(SELECT, parameters, prepare=True, binary=True).fetchall()
        return [Row._make(row) for row in rows]

    def _produce(self, rows: Sequence[Row]) -> Batch:
        if self._producer is None:
            self._producer = kafka.producer(self._kafka)
        accepted = [row for row in rows if not self._refusals.refuses(row)]
        batch = Batch(accepted, waiting=len(accepted))
        for row in accepted:
            self._producer.produce(
                row.topic, row.value, row.key.encode(), headers=_headers(row.headers), on_delivery=batch.delivered
            )
        self._size.adapt(rows)
        return batch

    def _await_acknowledgements(self, connection: Connection[Any], batch: Batch) -> None:
        """However long Kafka is away: retries are the producer's work, and in order. Rows stay with their batch."""
        deadline = time.monotonic() + self.settings.patience_s
        assert self._producer is not None
        while batch.waiting and time.monotonic() < deadline:
            self._producer.poll(deadline - time.monotonic())
        if batch.failed is not None:
            raise KafkaException(batch.failed)
        if batch.waiting:
            self._watch_age(connection)  # and a sign of life, so that we keep our shards
            raise Transient(f"{batch.waiting} of {len(batch.rows)} rows are not acknowledged by Kafka yet")

    def _mark(self, connection: Connection[Any], rows: Sequence[Row]) -> None:
        ids = [row.event_id for row in rows]
        if ids:
            parameters = {"ids": ids, "least": min(ids), "greatest": max(ids)}
            connection.execute(MARK, parameters, prepare=True, binary=True)
        metrics.RELAY_BATCH.observe(len(rows))
        for topic, count in Counter(row.topic for row in rows).items():
            metrics.PUBLISHED.labels(topic).inc(count)

    def _connected(self) -> Connection[Any]:
        if self._connection is None:
            # Silent is also a relay that was stopped while it reads: the server is not idle then, but cannot send.
            lease_ms = f"{self.settings.lease_s * 1000:.0f}"
            session = {**SESSION, "idle_session_timeout": lease_ms, "tcp_user_timeout": lease_ms}
            self._connection = psycopg.connect(
                self._database_url,
                autocommit=True,
                application_name=f"{self.service}-relay",
                options=" ".join(f"-c {name}={value}" for name, value in session.items()),
                connect_timeout=5,
                keepalives_idle=5,
                keepalives_interval=2,
                keepalives_count=3,
                tcp_user_timeout=10_000,
            )
            self._refuse_other_shards(self._connection)
            self._shards = Shards(self._connection, self.settings.shards)
            self._connection.execute(f"LISTEN {outbox.CHANNEL}")
            self._next_rebalance = 0.0
        return self._connection

    def _refuse_other_shards(self, connection: Connection[Any]) -> None:
        (count,) = connection.execute("SELECT outbox_shards()").fetchone() or (None,)
        if count != self.settings.shards:
            raise Misuse(f"the outbox has {count} shards, this relay was configured for {self.settings.shards}")

    def _start_again(self) -> None:
        """Drop the batch *and* the producer: it may still hold rows that are another relay's by now."""
        connection, producer = self._connection, self._producer
        self._connection = self._producer = self._batch = None
        if connection is not None:
            connection.close()
        if producer is not None:
            producer.purge()
            with suppress(KafkaException):  # the gap that this makes is fatal for the producer, and only for it
                producer.flush(0)


def _hints(connection: Connection[Any], timeout_s: float) -> int:
    """All that have come, also while statements ran: left where they are they would pile up, and each wake us later."""
    return sum(1 for _hint in connection.notifies(timeout=timeout_s, stop_after=1))


@lru_cache(maxsize=256)
def _headers(stored: str) -> list[tuple[str, str | bytes | None]]:
    """Nearly all rows have the same ones."""
    return [(name, str(value).encode()) for name, value in orjson.loads(stored).items()]
