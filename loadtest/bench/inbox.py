"""An inbox of ten million rows: claims are as fast as in an empty one, and a day goes away in a moment."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg import Connection
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from loadtest.bench import orders
from loadtest.bench.figures import Figure, Series, in_turn, ratio
from loadtest.bench.servers import Bench
from shared.contracts import CONTRACTS
from shared.messaging import event as events
from shared.messaging import inbox, records, retention, schema
from shared.messaging.consumer import SESSION
from shared.messaging.records import Received
from shared.messaging.retention import Partition
from shared.runtime import database

DAYS = 10
BATCH = 500
CONSUMER = "bench"

# Ids as a day would have made them: milliseconds in order, then version, variant and chance.
FILL = """
    INSERT INTO inbox (consumer, event_id, payload_hash, deliveries, from_topic, from_partition, from_offset)
    SELECT %(consumer)s,
           (lpad(to_hex(%(from_ms)s + i * %(length_ms)s / %(rows)s), 12, '0') || '7' || substr(chance, 1, 3)
            || '8' || substr(chance, 4, 15))::uuid,
           sha256(int8send(i)), 1, 'orders.confirmed', mod(i, 3), i
    FROM generate_series(0, %(rows)s::bigint - 1) AS i, LATERAL (SELECT md5(i::text) AS chance) AS random
"""
DELETE = "DELETE FROM inbox WHERE event_id >= %s AND event_id < %s"


def measure(bench: Bench) -> list[Figure]:
    """A day after the other is filled; between them, claims of new events take turns with claims in an empty inbox."""
    per_day = (1_000_000 if bench.quick else 10_000_000) // DAYS
    with ExitStack() as stack:
        empty, full = (stack.enter_context(_inbox(bench)) for _ in range(2))
        figures: list[Figure] = []
        for days in range(1, DAYS + 1):
            _fill_day(bench, full, DAYS - days, per_day)
            if days in (1, 3, DAYS):
                figures.extend(_claims(bench, empty, full, days * per_day, last=days == DAYS))
        return [*figures, *_days(bench, full, per_day)]


def _claims(bench: Bench, empty: str, full: str, rows: int, *, last: bool) -> Iterator[Figure]:
    batches = 20 if bench.quick else 60
    with ExitStack() as stack:
        ways: dict[str, Callable[[], float]] = {}
        for name, url in ((f"claims, {rows:,} rows", full), ("claims, empty inbox", empty)):
            engine = database.engine(url, "bench", options=SESSION)
            stack.callback(engine.dispose)
            claimed(engine, 5)  # the connection, its statements and the pages it needs
            ways[name] = lambda engine=engine: claimed(engine, batches)  # type: ignore[misc]
        rates = in_turn(ways, rounds=2 * bench.rounds, unit="/s", say=bench.say)
    filled, emptied = rates.values()
    if last:
        yield ratio("inbox", f"claims with {rows:,} rows against an empty inbox", filled, emptied, at_least=0.8)
        yield Figure("inbox size", "0", Series("rate", "/s", emptied.runs))
    yield Figure("inbox size", f"{rows:,}", Series("rate", "/s", filled.runs))


def claimed(engine: Engine, batches: int) -> float:
    """New events only, a transaction per batch. Making the events is not measured."""
    made = [[_received(number) for number in range(BATCH)] for _ in range(batches)]
    started = time.perf_counter()
    for batch in made:
        with Session(engine) as session, session.begin():
            fresh = inbox.claim(session, CONSUMER, batch).fresh
        if len(fresh) != BATCH:
            raise RuntimeError(f"{len(fresh)} of {BATCH} new events were new")
    return batches * BATCH / (time.perf_counter() - started)


def _received(number: int) -> Received:
    event = orders.confirmed(number)
    value = events.encode(event, CONTRACTS)
    return Received("id", "orders.confirmed", 0, number, b"", value, records.digest(value), 0, event)


def _days(bench: Bench, url: str, rows: int) -> Iterator[Figure]:
    """The oldest day is dropped, the next one deleted, and so on: all have the same number of rows."""
    bench.say(f"inbox: a day of {rows:,} rows dropped, and deleted")
    dropped, deleted, vacuumed = [], [], []
    with psycopg.connect(url, autocommit=True) as connection:
        for age in range(DAYS - 1, 1, -2):
            following = retention.partitions(connection, "inbox")[1]
            dropped.append(_timed(lambda age=age: drop(connection, keep_days=age - 1)))  # type: ignore[misc]
            deleted.append(_timed(lambda day=following: delete(connection, day, rows)))  # type: ignore[misc]
            name = following.name
            vacuumed.append(_timed(lambda name=name: connection.execute(f'VACUUM "{name}"')))  # type: ignore[misc]
            drop(connection, keep_days=age - 2)  # what the deletion left behind
            bench.say(f"  dropped {dropped[-1]:.1f} ms, deleted {deleted[-1]:,.0f} ms, VACUUM {vacuumed[-1]:,.0f} ms")
    drops, deletions, vacuums = (
        Series(name, "ms", tuple(runs))
        for name, runs in (("drop", dropped), ("delete", deleted), ("VACUUM after it", vacuumed))
    )
    # A drop takes as long for any number of rows, a deletion does not: the bar is 100 × for a million.
    yield Figure(
        "inbox", f"dropping a day of {rows:,} rows against deleting it", Series("ratio", "×", deletions.over(drops)),
        at_least=100 * rows / 1_000_000, beside=(drops, deletions, vacuums),
    )  # fmt: skip


def drop(connection: Connection, *, keep_days: int) -> None:
    names = retention.drop_expired(connection, "inbox", keep_days=keep_days)
    if len(names) != 1:
        raise RuntimeError(f"one day should have been dropped, it was {names}")


def delete(connection: Connection, day: Partition, rows: int) -> None:
    count = connection.execute(DELETE, (day.first, day.end)).rowcount
    if count != rows:
        raise RuntimeError(f"{count} of {rows} rows deleted")


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


@contextmanager
def _inbox(bench: Bench) -> Iterator[str]:
    with bench.database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            schema.install(connection, "inbox")
            retention.create_partitions(connection, "inbox", back_days=DAYS - 1)
        yield url


def _fill_day(bench: Bench, url: str, age: int, rows: int) -> None:
    """Today as far as it has come, so that new claims meet a day that is full too."""
    now = datetime.now(UTC)
    midnight = datetime.combine(now.date() - timedelta(days=age), datetime.min.time(), UTC)
    length = min(now, midnight + timedelta(days=1)) - midnight
    began = time.perf_counter()
    day = {
        "consumer": CONSUMER, "from_ms": int(midnight.timestamp() * 1000),
        "length_ms": int(length.total_seconds() * 1000), "rows": rows,
    }  # fmt: skip
    with psycopg.connect(url, autocommit=True) as connection:
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit = off")
            connection.execute(FILL, day)
        connection.execute("VACUUM ANALYZE inbox")
        connection.execute("CHECKPOINT")
    bench.say(f"inbox: {midnight:%d %b} has {rows:,} rows ({time.perf_counter() - began:.1f} s)")
