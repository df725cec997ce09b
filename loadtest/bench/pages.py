"""docs/reference/benchmarks.md from the figures of the last run: `make bench-page`. Plots are SVG, written by hand."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from infra.native.stack import PROJECT
from loadtest.bench.report import REPORT, number

PAGE = PROJECT / "docs" / "reference" / "benchmarks.md"
PLOTS = {
    "batch size": "Events per second by batch size of the consumer",
    "relays": "Rows per second by number of relays",
    "workers": "Invoices rendered per second by number of workers",
    "inbox size": "Claims per second by rows in the inbox",
}
WIDTH, BAR, GAP, LABEL = 720, 22, 8, 90


def page(run: Mapping[str, Any]) -> str:
    return "\n".join(_lines(run)) + "\n"


def _lines(run: Mapping[str, Any]) -> Iterator[str]:
    figures: Sequence[Mapping[str, Any]] = run["figures"]
    yield "# Benchmarks\n"
    yield "Written by `make bench-page` from the last `make bench`; do not edit. What is compared was measured in turn"
    yield "on the same servers. Take the ratios: the absolute figures are this machine's.\n"
    if run["quick"]:
        yield "**A quick run with small amounts: the direction, not the figure.**\n"
    yield "| machine | |\n|---|---|"
    yield from (f"| {name.replace('_', ' ')} | {value} |" for name, value in run["machine"].items())
    yield f"| taken at | {run['taken_at']} |\n"
    yield "| figure | bar | measured | lowest – highest | |\n|---|---|---|---|---|"
    yield from (_row(figure) for figure in figures if figure["holds"] is not None)
    yield "\n| beside it | median | lowest – highest |\n|---|---|---|"
    yield from (_beside(figure, series) for figure in figures for series in _absolute(figure))
    for group, title in PLOTS.items():
        if any(figure["group"] == group for figure in figures):
            yield f"\n![{title}](benchmarks-{group.replace(' ', '-')}.svg)"


def _row(figure: Mapping[str, Any]) -> str:
    bar = f"≥ {figure['at_least']:g}" if figure["at_least"] is not None else f"≤ {figure['at_most']:g}"
    measured = figure["measured"]
    verdict = "holds" if figure["holds"] else "**missed**"
    shown = f"{number(figure['median'])} {measured['unit']}"
    return f"| {figure['group']}: {figure['name']} | {bar} | {shown} | {_span(measured)} | {verdict} |"


def _absolute(figure: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Without a bar, the figure itself is one of them."""
    return [*([figure["measured"]] if figure["holds"] is None else []), *figure["beside"]]


def _beside(figure: Mapping[str, Any], series: Mapping[str, Any]) -> str:
    label = (
        f"{figure['group']}: {series['name']}"
        if figure["holds"] is not None
        else (f"{figure['group']}, {figure['name']}: {series['name']}")
    )
    return f"| {label} | {number(_median(series))} {series['unit']} | {_span(series)} |"


def _median(series: Mapping[str, Any]) -> float:
    runs = sorted(series["runs"])
    return float(runs[len(runs) // 2])


def _span(series: Mapping[str, Any]) -> str:
    return f"{number(min(series['runs']))} – {number(max(series['runs']))}"


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
    for group, title in PLOTS.items():
        if bars := [(figure["name"], figure["median"]) for figure in run["figures"] if figure["group"] == group]:
            page_file.with_name(f"benchmarks-{group.replace(' ', '-')}.svg").write_text(plot(title, bars))


if __name__ == "__main__":
    if not REPORT.exists():
        sys.exit("there are no figures yet: make bench")
    write(REPORT, PAGE)
    print(f"written: {PAGE.relative_to(PROJECT)}")
