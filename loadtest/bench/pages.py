"""docs/reference/benchmarks.md from the figures of the last run: `make bench-page`. Plots are SVG, written by hand.

First what has a bar, then the sweeps, each as a plot and a table, then the absolute figures behind the ratios.
"""

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from infra.docs.markdown import table
from infra.native.stack import PROJECT
from loadtest.bench.report import REPORT, number

PAGE = PROJECT / "docs" / "reference" / "benchmarks.md"
PLOTS = {
    "batch size": "Events per second by batch size of the consumer",
    "relays": "Rows per second by number of relays",
    "workers": "Invoices rendered per second by number of workers",
    "inbox size": "Claims per second by rows in the inbox",
}
"""The sweeps: figures without a bar, whose names are numbers."""
MACHINE = {
    "cpu": "CPU",
    "memory_gib": "memory, GiB",
    "python": "Python",
    "postgresql": "PostgreSQL",
    "kafka": "Kafka",
    "load_before": "load when it began",
}
SPAN = "lowest – highest"
WIDTH, BAR, GAP, LABEL = 720, 22, 8, 90

Measured = Mapping[str, Any]


def page(run: Measured) -> str:
    return "\n\n".join(_parts(run)) + "\n"


def _parts(run: Measured) -> Iterator[str]:
    machine, barred = run["machine"], [figure for figure in run["figures"] if figure["holds"] is not None]
    swept = sweeps(run)
    yield "# Benchmarks"
    yield (
        "Written by `make bench-page` from the last `make bench`; do not edit. What is compared was measured in turn\n"
        "on the same servers. Take the ratios: the absolute figures are this machine's."
    )
    if run["quick"]:
        yield "**A quick run with small amounts: the direction, not the figure.**"
    if (load := machine.get("load_before", 0)) > (cores := machine["cores"]):
        yield f"**The machine was busy when it began, load {load:g} on {cores} cores: the direction, not the figure.**"
    told = [[MACHINE.get(name, name), value] for name, value in machine.items()]
    yield table(["machine", ""], [*told, ["taken at", run["taken_at"]]])
    if barred:
        yield "## Against the bars"
        yield table(["figure", "bar", "measured", SPAN, ""], map(_judged, barred))
    if swept:
        yield "## How the figures move"
    for group, figures in swept.items():
        yield f"![{PLOTS[group]}]({_plot_file(group)})"
        yield _sweep(group, figures)
    if made_of := list(_made_of(barred, swept)):
        yield "## What the ratios are made of"
        yield table(["", "median", SPAN], made_of)


def sweeps(run: Measured) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {}
    for figure in run["figures"]:
        if figure["holds"] is None:
            found.setdefault(figure["group"], []).append(figure)
    return {group: sorted(found[group], key=_size) for group in sorted(found, key=list(PLOTS).index)}


def _size(figure: Measured) -> int:
    return int(figure["name"].replace(",", ""))


def _judged(figure: Measured) -> list[str]:
    unit = figure["measured"]["unit"]
    bar = f"≥ {figure['at_least']:g}" if figure["at_least"] is not None else f"≤ {figure['at_most']:g}"
    verdict = "holds" if figure["holds"] else "**missed**"
    shown = f"{number(figure['median'])} {unit}"
    return [f"{figure['group']}: {figure['name']}", f"{bar} {unit}", shown, _span(figure["measured"]), verdict]


def _sweep(group: str, figures: Sequence[Measured]) -> str:
    titles = [_title(figures[0]["measured"]), SPAN, *(_title(series) for series in figures[0]["beside"])]
    rows = (
        [
            f"{_size(figure):,}",
            number(figure["median"]),
            _span(figure["measured"]),
            *(number(_median(series)) for series in figure["beside"]),
        ]
        for figure in figures
    )
    return table([group, *titles], rows)


def _title(series: Measured) -> str:
    return f"{series['name']} {series['unit']}"


def _made_of(barred: Sequence[Measured], swept: Mapping[str, Sequence[Measured]]) -> Iterator[list[str]]:
    """Each series once: several ratios may share one, and a sweep has shown it already."""
    shown = {_same(figure["measured"]) for figures in swept.values() for figure in figures}
    for figure in barred:
        for series in figure["beside"]:
            if _same(series) not in shown:
                shown.add(_same(series))
                label = f"{figure['group']}: {series['name']}"
                yield [label, f"{number(_median(series))} {series['unit']}", _span(series)]


def _same(series: Measured) -> tuple[object, ...]:
    return series["unit"], *series["runs"]


def _median(series: Measured) -> float:
    return float(statistics.median(series["runs"]))


def _span(series: Measured) -> str:
    return f"{number(min(series['runs']))} – {number(max(series['runs']))}"


def _plot_file(group: str) -> str:
    return f"benchmarks-{group.replace(' ', '-')}.svg"


def plot(title: str, bars: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars, in colours that can be read on light and dark pages."""
    height, longest = 40 + len(bars) * (BAR + GAP), max(value for _, value in bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif"'
        f' font-size="13" fill="#6b7280"><title>{title}</title><text x="0" y="16" font-weight="bold">{title}</text>'
    ]
    for index, (label, value) in enumerate(bars):
        y, length = 32 + index * (BAR + GAP), (WIDTH - LABEL - 90) * value / longest
        parts.append(
            f'<text x="{LABEL - 10}" y="{y + 16}" text-anchor="end">{label}</text>'
            f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" rx="3" fill="#2f81f7"/>'
            f'<text x="{LABEL + length + 8:.1f}" y="{y + 16}">{value:,.0f}</text>'
        )
    return "".join(parts) + "</svg>\n"


def write(report: Path, page_file: Path) -> None:
    run = orjson.loads(report.read_bytes())
    page_file.parent.mkdir(parents=True, exist_ok=True)
    page_file.write_text(page(run))
    for group, figures in sweeps(run).items():
        bars = [(f"{_size(figure):,}", figure["median"]) for figure in figures]
        page_file.with_name(_plot_file(group)).write_text(plot(PLOTS[group], bars))


if __name__ == "__main__":
    if not REPORT.exists():
        sys.exit("there are no figures yet: make bench")
    write(REPORT, PAGE)
    print(f"written: {PAGE.relative_to(PROJECT)}")
