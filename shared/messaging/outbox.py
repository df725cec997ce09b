"""The outbox: an event is a row, written by the transaction that causes it.

does    adds events to the caller's transaction; hints to the relay after its commit; sends old events again
reads   nothing
writes  outbox
next    relay.py
"""

import threading
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
import psycopg
from psycopg import Connection
from sqlalchemy import event as alchemy_events
from sqlalchemy.orm import Session, sessionmaker

from shared.messaging import event as events
from shared.messaging.database_errors import translated
from shared.messaging.errors import FutureId, Misuse
from shared.messaging.event import Contracts, Event
from shared.runtime import logs

CHANNEL = "outbox"
HEADERS = orjson.dumps({"content-type": "application/cloudevents+json; charset=UTF-8"}).decode()
_ADDED = "outbox rows were added"

# By the database's clock, as the inboxes judge it: a host whose clock is ahead is told at once.
INSERT = """
INSERT INTO outbox (event_id, topic, key, value, headers)
SELECT %(event_id)s::uuid, %(topic)s, %(key)s, %(value)s::bytea, %(headers)s::jsonb
 WHERE uuid_extract_timestamp(%(event_id)s::uuid) <= now() + interval '1 hour'
"""


def add(session: Session, event: Event, *, topic: str, key: str, contracts: Contracts) -> None:
    """The only way to emit. Takes the caller's transaction and never commits it.

    Lock (update) the aggregate's row before: then rows of one key get their `seq` in the order of their commits.
    """
    _refuse_misuse(session, event, key)
    value = events.encode(event, contracts)
    row = {"event_id": event.id, "topic": topic, "key": key, "value": value, "headers": HEADERS}
    with translated():
        # The aggregate's UPDATE may still be pending in the session: it must hold its lock before seq is drawn.
        session.flush()
        added = session.connection().exec_driver_sql(INSERT, row).rowcount
    if not added:
        raise FutureId(f"the id of {event.type} lies at {events.time_of(event.id)}")
    session.info[_ADDED] = True


def _refuse_misuse(session: Session, event: Event, key: str) -> None:
    if not session.in_transaction():
        raise Misuse("outbox.add needs the transaction that causes the event; this session has none open")
    if autocommits(session):
        raise Misuse("outbox.add on an autocommit connection: the event would not share the fate of its cause")
    if not key:
        raise Misuse("outbox.add needs a key: events of one aggregate are kept in order by it")
    events.parse_id(str(event.id))


def autocommits(session: Session) -> bool:
    return bool(getattr(session.connection().connection.dbapi_connection, "autocommit", False))


class Hinter:
    """Wakes the relay soon after a commit: one NOTIFY for all commits of a few milliseconds.

    Outside the business transaction, because a NOTIFY inside it takes a lock that every committing transaction of the
    server shares. Only a hint: without it, or when it is lost, the relay finds the rows at its next look.
    """

    def __init__(self, database_url: str, *, at_most_every_ms: float = 2.0, retry_after_s: float = 1.0) -> None:
        self._url, self._pause_s, self._retry_after_s = database_url, at_most_every_ms / 1000, retry_after_s
        self._wanted, self._closed, self._start = threading.Event(), threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, sessions: sessionmaker[Session]) -> "Hinter":
        """Every commit of these sessions that added to the outbox gives a hint."""
        alchemy_events.listen(sessions, "after_commit", self._after_commit)
        return self

    def hint(self) -> None:
        """Never blocks and never fails: the caller's work is already committed."""
        self._wanted.set()
        if self._thread is None:
            with self._start:
                if self._thread is None:  # started late, so that it belongs to the worker and not to its parent
                    self._thread = threading.Thread(target=self._run, name="outbox-hinter", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _after_commit(self, session: Session) -> None:
        # A released savepoint fires this event too, when nothing is committed yet.
        if not session.in_nested_transaction() and session.info.pop(_ADDED, False):
            self.hint()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._notify_until_closed()
            except psycopg.Error as error:
                logs.get().warning("no hints to the relay for now; it polls", error=str(error).splitlines()[0])
                self._closed.wait(self._retry_after_s)

    def _notify_until_closed(self) -> None:
        # Nothing is lost with a lost NOTIFY, so its commit need not wait for the disk.
        options = "-c synchronous_commit=off"
        with psycopg.connect(
            self._url, autocommit=True, options=options, connect_timeout=5, application_name="outbox-hinter"
        ) as connection:
            while self._wanted.wait() and not self._closed.is_set():
                self._wanted.clear()
                connection.execute(f"NOTIFY {CHANNEL}")
                self._closed.wait(self._pause_s)


def oldest_unpublished_age_s(connection: Connection[Any]) -> float:
    """How far behind the relay is: seconds since the oldest unpublished event was made; 0 if there is none."""
    # One look into the partial index per shard, however long the backlog is.
    row = connection.execute(
        """
        SELECT extract(epoch FROM clock_timestamp() - min(uuid_extract_timestamp(oldest.event_id)))
        FROM generate_series(0, outbox_shards() - 1) AS shards (shard)
        CROSS JOIN LATERAL (
            SELECT event_id FROM outbox
            WHERE outbox.shard = shards.shard AND published_at IS NULL ORDER BY seq LIMIT 1
        ) AS oldest
        """
    ).fetchone()
    return max(0.0, float(row[0])) if row and row[0] is not None else 0.0


def republish(connection: Connection[Any], since: datetime, *, chunk: int = 10_000) -> int:
    """Every event made since then goes to Kafka once more; the inboxes drop what they know. Answers how many.

    `connection` is in autocommit: each chunk is its own short transaction, and a broken run is simply started again.
    """
    if not connection.autocommit:
        raise Misuse("republish commits chunk by chunk: give it a connection in autocommit")
    count, position = 0, UUID(int=int(since.timestamp() * 1000) << 80)
    while True:
        # READ COMMITTED. Forward by id, so rows that the relay marks again meanwhile are not cleared twice.
        rows = connection.execute(
            """
            UPDATE outbox SET published_at = NULL
            WHERE published_at IS NOT NULL AND event_id IN (
                SELECT event_id FROM outbox
                WHERE event_id >= %s AND published_at IS NOT NULL ORDER BY event_id LIMIT %s)
            RETURNING event_id
            """,
            (position, chunk),
        ).fetchall()
        if not rows:
            connection.execute(f"NOTIFY {CHANNEL}")
            return count
        count += len(rows)
        position = UUID(int=max(row[0].int for row in rows) + 1)
