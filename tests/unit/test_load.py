"""The shapes of a load run, the search for the limit, and the report that is written from a run's record."""

from collections.abc import Callable, Iterator
from http.client import IncompleteRead
from pathlib import Path
from typing import Any

import pytest

from loadtest import shapes
from loadtest.load import afterwards, report
from loadtest.load import run as runs
from loadtest.load.outcome import Outcome, figures, missed
from loadtest.load.run import Asked, Run, Sample
from loadtest.shapes import Limit, Search, Window
from services.control_room.audit.verdicts import Verdicts


def test_every_shape_ends_after_its_time_and_never_exceeds_its_rate() -> None:
    for shape in (shapes.steady(40, 100), shapes.ramp(40, 100), shapes.spike(40, 100)):
        rates = [shape(second) for second in range(100)]
        assert max(rate for rate in rates if rate is not None) == 40
        assert shape(100) is None


def test_a_ramp_climbs_and_a_spike_comes_and_goes() -> None:
    ramp, spike = shapes.ramp(100, 100), shapes.spike(100, 100)
    assert [round(ramp(at) or 0) for at in (0, 40, 80)] == [10, 55, 100]
    assert [spike(at) for at in (0, 50, 99)] == [20, 100, 20]


class Shop:
    """Holds up to so many orders per second; beyond that it is slow."""

    def __init__(self, holds: float) -> None:
        self.holds, self.rate, self.lag = holds, 0.0, 0

    def since(self, at_s: float) -> Window:
        slow = self.rate > self.holds
        return Window(20.0, int(20 * self.rate), 0, 0.9 if slow else 0.1)


def searched(shop: Shop, *, seconds: float = 3600, look: Callable[[Limit], None] = lambda _limit: None) -> Limit:
    limit = Limit(Search(20), shop, seconds)
    second = 0
    while (rate := limit(second)) is not None:
        shop.rate, second = rate or shop.rate, second + 1
        look(limit)
    return limit


def test_the_search_closes_in_on_the_highest_rate_that_holds() -> None:
    for holds in (7, 20, 77, 140, 500):
        search = searched(Shop(holds)).search
        assert search.maximum is not None
        assert search.failed is not None
        assert search.maximum <= holds < search.failed
        assert search.failed / search.maximum < 1.2


def test_a_maximum_counts_only_if_a_higher_rate_was_seen_to_fail() -> None:
    search = searched(Shop(10_000), seconds=200).search
    assert search.held is not None
    assert search.maximum is None


def test_after_the_search_a_minute_at_half_of_what_holds_is_measured() -> None:
    shop = Shop(77)
    limit = searched(shop)
    assert limit.search.maximum is not None
    assert shop.rate == limit.search.maximum / 2
    assert limit.half_since_s is not None
    assert limit(limit.half_since_s + limit.half_s - 1) == shop.rate
    assert limit(limit.half_since_s + limit.half_s) is None


def test_a_rate_fails_only_when_it_fails_twice() -> None:
    shop = Shop(1000)

    def one_bad_moment(limit: Limit) -> None:
        shop.holds = 1 if len(limit.steps) == 1 else 1000

    limit = searched(shop, seconds=110, look=one_bad_moment)
    assert [(step.rate, step.why_not is None) for step in limit.steps[:3]] == [(20, True), (30, False), (30, True)]


def test_latency_lag_failures_and_missing_orders_each_say_stop() -> None:
    assert shapes.why_not(10, Window(20, 200, 0, 0.1), 5) is None
    assert "p99" in str(shapes.why_not(10, Window(20, 200, 0, 0.3), 5))
    assert "behind" in str(shapes.why_not(10, Window(20, 200, 0, 0.1), 50))
    assert "failed" in str(shapes.why_not(10, Window(20, 200, 1, 0.1), 5))
    assert "came through" in str(shapes.why_not(10, Window(20, 150, 0, 0.1), 5))


def a_run(shape: str = "steady") -> Run:
    run = Run(shape, 20, 20, 1, 60, started=1000.0, ended=1060.0)
    run.bought = [(float(n), 0.3) for n in range(60)]
    run.failed("<place>: 503")
    run.asked = [Asked("POST place", 60, 1, 1.0, 10, 20, 300, 310)]
    run.samples = [Sample(float(n), n, n, n // 2, n, 0, 3, n // 2, 0) for n in range(60)]
    run.steps = [shapes.Step(20, 20, 0.3, 3, "p99 of place + confirm 300 ms")]
    return run


def test_the_record_of_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = a_run()
    assert runs.read(run.write(tmp_path / "run.json")) == run


def test_the_report_says_what_was_missed_and_gives_no_verdict_before_the_shop_has_settled() -> None:
    page = report.page(a_run(), Outcome(caught_up_s=40.0, queue=30))
    assert "No verdict" in page
    assert "Every promise holds" not in page
    assert "300 ms (the bar is 0.25 s: missed)" in page
    assert "40.0 s (the bar is 30 s: missed)" in page
    assert "&lt;place&gt;: 503" in page
    assert "Every promise holds" in report.page(a_run(), Outcome(verdicts=Verdicts()))


def test_without_a_rate_that_failed_the_report_names_no_maximum() -> None:
    assert figures(a_run("limit"), Outcome())["highest rate that holds"].startswith("unknown")


@pytest.mark.parametrize(
    ("shape", "half_since_s", "outcome", "names"),
    [
        ("steady", None, Outcome(caught_up_s=31.0), {"p99", "lag"}),
        ("spike", None, Outcome(caught_up_s=29.0), {"p99"}),
        ("limit", None, Outcome(), set()),
        ("limit", 30.0, Outcome(caught_up_s=1.0), {"p50", "p99"}),
        ("limit", 30.0, Outcome(caught_up_s=1.0, invoiced_at_half_s=(0.02, 0.2)), {"p99"}),
        ("limit", 30.0, Outcome(caught_up_s=1.0, invoiced_at_half_s=(0.02, 0.1)), set()),
    ],
)
def test_what_a_run_is_held_against_depends_on_its_shape(
    shape: str, half_since_s: float | None, outcome: Outcome, names: set[str]
) -> None:
    run = a_run(shape)
    run.half_since_s = half_since_s
    assert {word for name in missed(run, outcome) for word in ("p50", "p99", "lag") if word in name} == names


@pytest.mark.parametrize(("took_s", "status"), [(0.2, 0), (0.3, 1)])
def test_a_bar_that_was_missed_is_a_run_that_failed(
    took_s: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run()
    run.bought, run.failures = [(1.0, took_s)], {}

    def settle(_run: Run, _places: object, outcome: Outcome) -> bool:
        outcome.caught_up_s = 1.0
        return True

    monkeypatch.setattr(afterwards, "load", lambda _settings: None)
    monkeypatch.setattr(afterwards, "_settle", settle)
    monkeypatch.setattr(afterwards, "_measure", lambda *_: None)
    monkeypatch.setattr("services.control_room.audit.audit.run", lambda _places: Verdicts())
    monkeypatch.setattr("sys.argv", ["afterwards", str(run.write(tmp_path / "run.json"))])
    assert afterwards.main() == status


def test_a_stream_that_breaks_is_followed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gevent = pytest.importorskip("gevent", reason="make .venv/load-installed")
    from loadtest.load import watch

    run, troubles = a_run(), [IncompleteRead(b""), ValueError("half a line"), TimeoutError()]
    run.ended = 0.0

    def stream(_url: str) -> Iterator[dict[str, Any]]:
        if troubles:
            raise troubles.pop()
        run.ended = 1060.0
        yield {}

    monkeypatch.setenv("CONTROL_ROOM_URL", "")
    monkeypatch.setattr(gevent, "sleep", lambda _seconds: None)
    monkeypatch.setattr("loadtest.load.run.stream", stream)
    watch.watch(None, run)
    assert not troubles
