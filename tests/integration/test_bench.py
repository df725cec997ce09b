"""The bench runs, measures what it says and judges by its bars. Small amounts: the figures mean nothing here."""

from pathlib import Path

import orjson
import pytest

from loadtest.bench import consumer, pages, report
from loadtest.bench.figures import Figure, Series, in_turn, ratio
from loadtest.bench.relay import Outbox
from loadtest.bench.servers import Bench
from shared.messaging.consumer import InboxConsumer


@pytest.fixture
def bench(postgres: str, kafka: str) -> Bench:
    return Bench(postgres, kafka, quick=True, say=lambda _line: None)


def test_every_way_of_consuming_does_the_same_work(bench: Bench) -> None:
    with consumer.Place.prepared(bench, 1200) as place:
        ways = {
            "with inbox": lambda: place.drained(InboxConsumer, 1200),
            "without": lambda: place.drained(consumer.WithoutInbox, 1200),
            "one by one": lambda: consumer.one_by_one(place, 50),
        }
        rates = in_turn(ways, rounds=1, unit="/s", say=bench.say)
    assert all(series.median > 0 for series in rates.values())


def test_relay_and_bare_loop_take_the_same_rows(bench: Bench) -> None:
    with Outbox.installed(bench) as place:
        assert place.drained(2000) > 0
        assert place.looped(2000) > 0


def test_a_ratio_is_taken_round_by_round_and_judged_by_its_median() -> None:
    fast, slow = Series("fast", "/s", (100.0, 10.0, 60.0)), Series("slow", "/s", (50.0, 5.0, 10.0))
    assert ratio("group", "name", fast, slow, at_least=2).holds
    assert ratio("group", "name", fast, slow, at_least=2).measured.runs == (2.0, 2.0, 6.0)
    assert not ratio("group", "name", fast, slow, at_least=2.1).holds


def test_the_ways_are_measured_in_turn() -> None:
    order: list[str] = []

    def noted(name: str) -> float:
        order.append(name)
        return float(len(order))

    in_turn({"A": lambda: noted("A"), "B": lambda: noted("B")}, rounds=3, unit="", say=lambda _line: None)
    assert order == ["A", "B", "B", "A", "A", "B"]


def test_the_report_is_written_and_names_what_was_missed(tmp_path: Path) -> None:
    slow = Figure("latency", "p99", Series("p99", "ms", (7.0, 9.0, 50.0)), at_most=8)
    content = report.as_json([slow], {"cpu": "a model", "cores": 2}, quick=True)
    report.write(tmp_path / "bench.json", content)
    read = orjson.loads((tmp_path / "bench.json").read_bytes())
    assert (read["figures"][0]["median"], read["figures"][0]["holds"]) == (9.0, False)
    assert "missed" in pages.page(read)
