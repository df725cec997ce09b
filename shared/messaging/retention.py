"""Days come and go: partitions are made ahead of time and dropped when nobody can need them any more.

does    creates a partition per UTC day, counts how far ahead they reach, drops expired ones, watches the dedupe window
reads   the partitions of `outbox` and `inbox`; a topic's configuration
writes  partitions; inbox_floor, in the transaction that drops a partition of the inbox
next    services/housekeeping
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from confluent_kafka.admin import AdminClient
from psycopg import Connection
from psycopg.sql import SQL, Identifier, Literal
from sqlalchemy import Engine

from shared.messaging import kafka, metrics
from shared.messaging.database_errors import translated
from shared.messaging.errors import Transient
from shared.messaging.event import time_of
from shared.runtime import failpoints, logs
from shared.runtime.ops import Check

AHEAD_DAYS = 14
READY_DAYS = 2
"""With fewer days than this ahead a process is not ready: somebody has to look at housekeeping now."""


@dataclass(frozen=True)
class Partition:
    name: str
    first: UUID
    """The smallest id that belongs into it."""
    end: UUID
    """The smallest id that no longer does."""

    @property
    def day(self) -> date:
        return time_of(self.first).date()


def first_id(day: date) -> UUID:
    """The smallest UUID of a UTC day: its first millisecond, then zeros. Every UUIDv7 of that day is greater."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return UUID(int=int(midnight.timestamp() * 1000) << 80)


def create_partitions(connection: Connection, table: str, *, back_days: int = 1, ahead_days: int = AHEAD_DAYS) -> int:
    """One per day from `back_days` ago to `ahead_days` ahead; answers how many were missing.

    Running it twice, or two at once, is safe. The inbox needs as many days back as it remembers: a new consumer may
    start with the oldest event of a topic.
    """
    with translated(), connection.transaction():
        _take_turns(connection, table, 2000)
        today, existing = _today(connection), {partition.first for partition in partitions(connection, table)}
        days = [today + timedelta(days=offset) for offset in range(-back_days, ahead_days + 1)]
        missing = [day for day in days if first_id(day) not in existing]
        for day in missing:
            _create(connection, table, day)
        if table == "inbox":
            _raise_floor_to_oldest(connection)
    return len(missing)


def _raise_floor_to_oldest(connection: Connection) -> None:
    """What is older than the oldest partition has no place, and never will: it is too late, not too early. Without this
    a new database, where nothing was dropped yet, would wait for such an event's partition for ever."""
    oldest = partitions(connection, "inbox")[0].first
    connection.execute("UPDATE inbox_floor SET floor = %s WHERE floor < %s", (oldest, oldest))


def drop_expired(connection: Connection, table: str, *, keep_days: int, lock_timeout_ms: int = 500) -> list[str]:
    """Drops the partitions whose youngest id is at least `keep_days` old; answers their names.

    A partition that still holds an unpublished event is kept, loudly.
    """
    with translated():
        limit = first_id(_today(connection) - timedelta(days=keep_days))
        expired = [partition for partition in partitions(connection, table) if partition.end <= limit]
        return [partition.name for partition in expired if _drop(connection, table, partition, lock_timeout_ms)]


def days_ahead(connection: Connection, table: str) -> int:
    """For how many days from today, without a gap, there are partitions. 0: not even for today."""
    days = {partition.day for partition in partitions(connection, table)}
    today = _today(connection)
    return next(count for count in range(len(days) + 1) if today + timedelta(days=count) not in days)


def ahead(engine: Engine, table: str) -> Check:
    """A readiness check: there are partitions for the next days."""

    def check() -> str | None:
        try:
            with translated(), engine.connect() as connection:
                days = days_ahead(connection.connection.dbapi_connection, table)  # type: ignore[arg-type]
        except Transient as error:
            return f"partitions of {table}: {error}"
        return None if days >= READY_DAYS else f"{table} has partitions for {days} day(s): is housekeeping running?"

    return check


def window_problem(
    admin: AdminClient,
    topic: str,
    *,
    inbox_retention: timedelta,
    max_outbox_age: timedelta,
    margin: timedelta = timedelta(days=1),
) -> str | None:
    """Why the inbox could forget an event that Kafka can still deliver; None if it cannot.

    Kafka drops whole segments: a record lives for retention.ms after the *last* record of its segment was written,
    which may be segment.ms later; and it was written up to `max_outbox_age` after its id was made.
    """
    config = kafka.topic_config(admin, topic)
    if "compact" in config["cleanup.policy"] or int(config["retention.ms"]) < 0:
        return f"topic {topic} keeps records for ever (cleanup.policy, retention.ms); the inbox forgets"
    topic_keeps = timedelta(milliseconds=int(config["retention.ms"]) + int(config["segment.ms"]))
    needed = topic_keeps + max_outbox_age + margin
    if inbox_retention > needed:
        return None
    return (
        f"the inbox remembers {inbox_retention}, but must remember more than {needed}: topic {topic} keeps records for "
        f"{topic_keeps} (retention.ms + segment.ms), the outbox may delay them by {max_outbox_age}, margin {margin}"
    )


def partitions(connection: Connection, table: str) -> list[Partition]:
    rows = connection.execute(
        """
        SELECT child.relname, pg_get_expr(child.relpartbound, child.oid)
        FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid
        WHERE inhparent = %s::regclass
          AND pg_get_expr(child.relpartbound, child.oid) IS NOT NULL -- NULL: another session has just dropped it
        """,
        (table,),
    ).fetchall()
    found = [
        Partition(name, *(UUID(bound) for bound in re.findall(r"'([0-9a-f-]{36})'", bounds))) for name, bounds in rows
    ]
    return sorted(found, key=lambda partition: partition.first)


def _create(connection: Connection, table: str, day: date) -> None:
    """LIKE + ATTACH, because CREATE … PARTITION OF would stop every reader and writer of the table."""
    name = f"{table}_{day:%Y%m%d}"
    names = {"name": Identifier(name), "parent": Identifier(table)}
    bounds = {"first": Literal(str(first_id(day))), "end": Literal(str(first_id(day + timedelta(days=1))))}
    connection.execute(
        SQL("CREATE TABLE {name} (LIKE {parent} INCLUDING ALL EXCLUDING IDENTITY EXCLUDING INDEXES)").format(**names)
    )
    if table == "outbox":
        # Every row is updated once, by its mark: leave it room on its own page, which halves what is logged. It costs
        # no space, because the second version has to be somewhere.
        connection.execute(SQL("ALTER TABLE {name} SET (fillfactor = 50)").format(**names))
    connection.execute(
        SQL("ALTER TABLE {parent} ATTACH PARTITION {name} FOR VALUES FROM ({first}) TO ({end})").format(
            **names, **bounds
        )
    )


def _drop(connection: Connection, table: str, partition: Partition, lock_timeout_ms: int) -> bool:
    """One transaction. READ COMMITTED: the check sees what was committed before the lock was granted."""
    names = {"parent": Identifier(table), "name": Identifier(partition.name)}
    with connection.transaction():
        # While we wait for a lock, everybody waits behind us: better to give up and come again.
        _take_turns(connection, table, lock_timeout_ms)
        if partition not in partitions(connection, table):
            return False  # another run was quicker
        # In the order of a claim, which holds the table when it asks for the floor: the other way round they deadlock.
        connection.execute(SQL("LOCK TABLE ONLY {parent}, {name} IN ACCESS EXCLUSIVE MODE").format(**names))
        if table == "inbox":
            connection.execute("UPDATE inbox_floor SET floor = greatest(floor, %s)", (partition.end,))
        if table == "outbox" and _holds_unpublished(connection, partition):
            metrics.PARTITIONS_KEPT.inc()
            logs.get().error("an expired partition holds unpublished events: not dropped", partition=partition.name)
            return False
        connection.execute(SQL("DROP TABLE {name}").format(**names))
        failpoints.hit("housekeeping.before_commit")
    logs.get().info("partition dropped", partition=partition.name)
    return True


def _take_turns(connection: Connection, table: str, lock_timeout_ms: int) -> None:
    """Two runs at once follow each other. Until the transaction ends."""
    connection.execute(SQL("SET LOCAL lock_timeout = {}").format(Literal(lock_timeout_ms)))
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('partitions'), hashtext(%s))", (table,))


def _holds_unpublished(connection: Connection, partition: Partition) -> bool:
    query = SQL("SELECT FROM {} WHERE published_at IS NULL LIMIT 1").format(Identifier(partition.name))
    return connection.execute(query).fetchone() is not None


def _today(connection: Connection) -> date:
    """By the database's clock, the only one that everybody shares."""
    row = connection.execute("SELECT (now() AT TIME ZONE 'UTC')::date").fetchone()
    assert row is not None
    today: date = row[0]
    return today
