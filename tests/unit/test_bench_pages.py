"""docs/reference/benchmarks.md, as it is written from a run's figures."""

from pathlib import Path

from loadtest.bench import pages, report
from loadtest.bench.figures import Figure, Series, ratio

BATCHED = Series("batched", "/s", (100.0, 120.0, 110.0))
SINGLE = Series("one by one", "/s", (10.0, 12.0, 11.0))
WITHOUT = Series("without inbox", "/s", (200.0, 240.0, 220.0))
TWO = Series("2 worker(s)", "/s", (52.0, 54.0, 53.0))
ONE = Series("1 worker(s)", "/s", (26.0, 27.0, 28.0))
FIGURES = [
    ratio("consumer", "batched against one by one", BATCHED, SINGLE, at_least=15),
    ratio("consumer", "batched against no inbox", BATCHED, WITHOUT, at_least=0.4),
    Figure("inbox size", "1,000,000", Series("rate", "/s", (64_000.0, 65_000.0, 66_000.0))),
    Figure("inbox size", "0", Series("rate", "/s", (67_000.0, 68_000.0, 69_000.0))),
    ratio("pdf", "two workers against one", TWO, ONE, at_least=1.7),
    Figure("workers", "1", Series("rate", "/s", ONE.runs)),
    Figure("workers", "2", Series("rate", "/s", TWO.runs)),
    Figure(
        "batch size", "10", Series("rate", "/s", (2000.0, 2200.0)), beside=(Series("statements", "per event", (0.6,)),)
    ),
]


def written(figures: list[Figure] = FIGURES, load: float = 0.5) -> str:
    return pages.page(report.as_json(figures, {"cpu": "a model", "cores": 2, "load_before": load}, quick=False))


def rows(page: str, start: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith(f"| {start}")]


def test_a_figure_with_a_bar_is_told_with_its_unit_and_its_verdict() -> None:
    page = written()
    assert rows(page, "consumer: batched against one") == [
        "| consumer: batched against one by one | ≥ 15 × | 10 × | 10 – 10 | **missed** |"
    ]
    assert rows(page, "pdf: two workers")[0].endswith("| holds |")


def test_what_several_ratios_share_is_told_once_and_what_a_sweep_shows_not_again() -> None:
    page = written()
    assert rows(page, "consumer: batched |") == ["| consumer: batched | 110 /s | 100 – 120 |"]
    assert rows(page, "pdf: 1 worker(s)") == []
    assert rows(page, "1 |") == ["| 1 | 27 | 26 – 28 |"]


def test_a_sweep_is_a_plot_and_one_table_by_size() -> None:
    page = written()
    assert "| batch size | rate /s | lowest – highest | statements per event |" in page
    assert rows(page, "10 |") == ["| 10 | 2,100 | 2,000 – 2,200 | 0.6 |"]
    assert page.index("| 0 | 68,000 ") < page.index("| 1,000,000 | 65,000 ")
    assert page.index("## Against the bars") < page.index("(benchmarks-workers.svg)") < page.index("## What the ratios")


def test_a_busy_machine_is_named() -> None:
    assert "busy" in written(load=2.24)
    assert "busy" not in written(load=2.0)


def test_part_of_a_bench_makes_a_page_without_empty_tables() -> None:
    assert "## " not in written([])
    assert "bars" not in written(FIGURES[2:4])


def test_every_plot_that_the_page_shows_is_written(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    report.write(file, report.as_json(FIGURES, {"cores": 2}, quick=True))
    pages.write(file, tmp_path / "page.md")
    shown = {f"benchmarks-{name}.svg" for name in ("batch-size", "workers", "inbox-size")}
    assert {plot.name for plot in tmp_path.glob("*.svg")} == shown
    assert all(f"({name})" in (tmp_path / "page.md").read_text() for name in shown)
