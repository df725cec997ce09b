"""How the figures move: batch sizes of the consumer, number of relays. No bars; what each costs, to choose by.

Statements and write-ahead log per event do not depend on the machine's mood.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import Engine, event

from loadtest.bench import parts
from loadtest.bench.consumer import Place
from loadtest.bench.figures import Figure, Series
from loadtest.bench.relay import Outbox
from loadtest.bench.servers import Bench
from loadtest.bench.together import Together
from shared.messaging.consumer import InboxConsumer

PATIENCE_S = 120
BATCH_SIZES = (1, 10, 50, 100, 200, 500, 1000, 2000)
RELAYS = (1, 2, 3, 4)


def measure(bench: Bench) -> list[Figure]:
    return [*batch_sizes(bench), *relays(bench)]


def batch_sizes(bench: Bench) -> Iterator[Figure]:
    """The same code for every size. The smallest sizes get fewer events, or they would take minutes."""
    most = 4_000 if bench.quick else 20_000
    bench.say("sweeps: batch sizes of the consumer")
    with Place.prepared(bench, most) as place:
        for size in BATCH_SIZES:
            count = min(most, max(500, 100 * size))
            with costs(place.engine, place.url) as spent:
                runs = tuple(place.drained(InboxConsumer, count, batch_size=size) for _ in range(2))
            rate, each = Series("rate", "/s", runs), 2 * count
            statements = Series("statements", "per event", (spent.statements / each,))
            wal = Series("write-ahead log", "bytes per event", (spent.wal_bytes / each,))
            bench.say(f"  {size:>5} {rate.median:>10,.0f} /s {statements.median:8.2f} {wal.median:8,.0f} bytes of WAL")
            yield Figure("batch size", f"{size}", rate, beside=(statements, wal))


def relays(bench: Bench) -> Iterator[Figure]:
    rows = 20_000 if bench.quick else 100_000
    bench.say(f"sweeps: {rows:,} rows of the outbox, several relays")
    with Outbox.installed(bench) as place:
        for number in RELAYS:
            with Together() as together:
                for _ in range(number):
                    together.start(parts.relay, place.url, bench.kafka)
                place.add(1000)  # each relay connects, takes its share of the shards and meets the topic
                _drained(place.url)
                rate = Series("rate", "/s", tuple(_rate(place, rows) for _ in range(2)))
            bench.say(f"  {number:>5} {rate.median:>10,.0f} /s")
            yield Figure("relays", f"{number}", rate)


def _rate(place: Outbox, rows: int) -> float:
    place.add(rows)
    started = time.perf_counter()
    _drained(place.url)
    return rows / (time.perf_counter() - started)


def _drained(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute("SELECT FROM outbox WHERE published_at IS NULL LIMIT 1").fetchone() is not None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the outbox is not drained after {PATIENCE_S} s")
            time.sleep(0.02)


@dataclass
class Spent:
    statements: int = 0
    wal_bytes: int = 0


@contextmanager
def costs(engine: Engine, url: str) -> Iterator[Spent]:
    """Everything that the server logs and the engine sends meanwhile; BEGIN and COMMIT are not counted."""
    spent = Spent()

    def count(*_arguments: Any) -> None:
        spent.statements += 1

    event.listen(engine, "before_cursor_execute", count)
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            before = _position(connection)
            yield spent
            spent.wal_bytes = _position(connection) - before
    finally:
        event.remove(engine, "before_cursor_execute", count)


def _position(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
    return int(row[0]) if row else 0
