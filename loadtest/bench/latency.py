"""How long an event is on its way, from the commit of its order: until it can be read, and until it is applied.

Every part is a process of its own, as in the shop; all read the clock of one machine (CLOCK_MONOTONIC).
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg

from loadtest.bench import invoicing, parts
from loadtest.bench.figures import Figure, Series
from loadtest.bench.servers import Bench
from loadtest.bench.together import Times, Together
from shared.messaging import retention, schema

PARTITIONS = 3
WARM_UP_S = 3
PATIENCE_S = 60


@dataclass(frozen=True)
class Case:
    name: str
    rate: int
    receiver: Callable[..., None]
    p50_ms: float
    p99_ms: float


# One producer commits 900 a second here. Three of them would share the rate, and take half of a two-core machine from
# what is measured.
CASES = (
    Case("commit → readable, 100/s", 100, parts.read, 3, 8),
    Case("commit → applied, 600/s", 600, parts.apply, 10, 40),
)


def measure(bench: Bench) -> list[Figure]:
    return [figure for case in CASES for figure in _figures(bench, case)]


def _figures(bench: Bench, case: Case) -> Iterator[Figure]:
    seconds = 4 if bench.quick else 12
    bench.say(f"latency: {case.name}, {bench.rounds} × {seconds} s")
    waits = way_of_events(bench, case, WARM_UP_S + bench.rounds * seconds)[WARM_UP_S * case.rate :]
    size = len(waits) // bench.rounds
    rounds = [sorted(waits[size * n : size * (n + 1)]) for n in range(bench.rounds)]
    for label, share, bar in (("p50", 0.50, case.p50_ms), ("p99", 0.99, case.p99_ms)):
        runs = tuple(ordered[int(share * len(ordered))] for ordered in rounds)
        bench.say(f"  {label} {statistics.median(runs):.2f} ms  {[round(run, 2) for run in runs]}")
        yield Figure("latency", f"{case.name}, {label}", Series(label, "ms", runs), at_most=bar)


def way_of_events(bench: Bench, case: Case, seconds: float) -> list[float]:
    """Milliseconds, in the order of the commits."""
    count = int(case.rate * seconds)
    with bench.topic(PARTITIONS) as topic, bench.database(parts.ORDERS, invoicing.TABLES) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            schema.install(connection, "outbox", "inbox", "tasks")
            for table in ("outbox", "inbox"):
                retention.create_partitions(connection, table, back_days=14)
        with Together() as together:
            together.start(parts.relay, url, bench.kafka)
            together.start(case.receiver, url, bench.kafka, topic, count, together.answers)
            together.answer(PATIENCE_S)  # it has joined its group
            together.start(parts.produce, url, topic, case.rate, count, together.answers)
            times: dict[str, Times] = dict(together.answer(PATIENCE_S + seconds) for _ in ("committed", "arrived"))
    committed, arrived = times["committed"], times["arrived"]
    in_order = sorted(committed, key=lambda event_id: committed[event_id])
    return [(arrived[event_id] - committed[event_id]) / 1e6 for event_id in in_order]
