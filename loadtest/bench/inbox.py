"""An inbox of ten million rows: claims are as fast as in an empty one, and a day goes away in a moment."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
    rows = 1_000_000 if bench.quick else 10_000_000
    with ExitStack() as stack:
        empty = stack.enter_context(_inbox(bench, 0))
        full = stack.enter_context(_inbox(bench, rows // DAYS))
        return [_claims(bench, empty, full, rows), *_days(bench, full, rows // DAYS)]


def _claims(bench: Bench, empty: str, full: str, rows: int) -> Figure:
    batches = 20 if bench.quick else 60
    with ExitStack() as stack:
        ways: dict[str, Callable[[], float]] = {}
        for name, url in ((f"claims, {rows:,} rows", full), ("claims, empty inbox", empty)):
            engine = database.engine(url, "bench")
            stack.callback(engine.dispose)
            claimed(engine, 5)  # the connection, its statements and the pages it needs
            ways[name] = lambda engine=engine: claimed(engine, batches)  # type: ignore[misc]
        rates = in_turn(ways, rounds=2 * bench.rounds, unit="/s", say=bench.say)
    return ratio("inbox", f"claims with {rows:,} rows against an empty inbox", *rates.values(), at_least=0.8)


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
    gone, dropped, deleted = [], [], []
    with psycopg.connect(url, autocommit=True) as connection:
        for age in range(DAYS - 1, 1, -2):
            oldest, following, *_ = retention.partitions(connection, "inbox")
            with ThreadPoolExecutor(1) as watcher, psycopg.connect(url, autocommit=True) as eyes:
                watching = watcher.submit(_until_gone, eyes, oldest.name)
                dropped.append(_timed(lambda age=age: drop(connection, keep_days=age - 1)))  # type: ignore[misc]
                gone.append(watching.result())
            deleted.append(_timed(lambda day=following: delete(connection, day, rows)))  # type: ignore[misc]
            drop(connection, keep_days=age - 2)  # what the deletion left behind
            bench.say(
                f"  gone in {gone[-1]:.1f} ms ({dropped[-1]:.1f} with its files), deleted in {deleted[-1]:,.0f} ms"
            )
    series = [
        Series(name, "ms", tuple(runs))
        for name, runs in (("drop: gone", gone), ("drop: files removed too", dropped), ("delete", deleted))
    ]
    seen, whole, deletion = series
    # A drop takes as long for any number of rows, a deletion does not: the bar is 100 × for a million.
    name = f"dropping a day of {rows:,} rows against deleting it"
    yield Figure(
        "inbox", f"{name}, until nobody sees or waits for it", Series("ratio", "×", deletion.over(seen)),
        at_least=100 * rows / 1_000_000, beside=(seen, deletion),
    )  # fmt: skip
    yield Figure(
        "inbox", f"{name}, until its files are removed", Series("ratio", "×", deletion.over(whole)), beside=(whole,)
    )


def _until_gone(connection: Connection, name: str) -> float:
    """What another session notices. The first query waits behind the drop's lock, as a claim would.

    PostgreSQL removes the files after the commit, when the locks are released: only the caller waits for that.
    """
    started = time.perf_counter()
    while True:
        connection.execute("SELECT FROM inbox LIMIT 0")
        if connection.execute("SELECT FROM pg_class WHERE relname = %s", (name,)).fetchone() is None:
            return (time.perf_counter() - started) * 1000


def drop(connection: Connection, *, keep_days: int) -> None:
    names = retention.drop_expired(connection, "inbox", keep_days=keep_days)
    if len(names) != 1:
        raise RuntimeError(f"one day should have been dropped, it was {names}")


def delete(connection: Connection, day: Partition, rows: int) -> None:
    count = connection.execute(DELETE, (day.first, day.end)).rowcount
    if count != rows:
        raise RuntimeError(f"{count} of {rows} rows deleted")


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


@contextmanager
def _inbox(bench: Bench, rows_per_day: int) -> Iterator[str]:
    """Days before yesterday, yesterday and what there is of today, so that new claims meet a day that is full too."""
    with bench.database() as url, psycopg.connect(url, autocommit=True) as connection:
        schema.install(connection, "inbox")
        retention.create_partitions(connection, "inbox", back_days=DAYS - 1)
        now = datetime.now(UTC)
        for age in range(DAYS - 1 if rows_per_day else -1, -1, -1):
            midnight = datetime.combine(now.date() - timedelta(days=age), datetime.min.time(), UTC)
            end = min(now, midnight + timedelta(days=1))
            started, length = int(midnight.timestamp() * 1000), int((end - midnight).total_seconds() * 1000)
            began = time.perf_counter()
            with connection.transaction():
                connection.execute("SET LOCAL synchronous_commit = off")
                connection.execute(
                    FILL, {"consumer": CONSUMER, "from_ms": started, "length_ms": length, "rows": rows_per_day}
                )
            bench.say(f"inbox: {midnight:%d %b} has {rows_per_day:,} rows ({time.perf_counter() - began:.1f} s)")
        connection.execute("VACUUM ANALYZE inbox")
        connection.execute("CHECKPOINT")
        yield url
