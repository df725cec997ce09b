"""The figures for a person (a table) and for a program (JSON), with the machine they were taken on."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from infra.native import kafka_jars
from infra.native.stack import PROJECT
from loadtest.bench.figures import Figure, Series
from loadtest.bench.servers import Bench

REPORT = PROJECT / ".run" / "reports" / "bench.json"


def table(figures: Sequence[Figure]) -> Table:
    """Rows with a bar first say whether it holds; the absolute figures stand beside them."""
    made = Table("figure", "bar", "measured", "spread", "", "median of the runs, lowest to highest")
    for figure in figures:
        verdict = "" if not figure.has_bar else "[green]holds[/]" if figure.holds else "[bold red]MISSED[/]"
        unit = figure.measured.unit
        made.add_row(
            f"{figure.group}: {figure.name}",
            _bar(figure),
            f"{number(figure.measured.median)} {unit}",
            _span(figure.measured),
            verdict,
            "\n".join(f"{s.name}: {number(s.median)} {s.unit} ({_span(s)})" for s in figure.beside),
        )
    return made


def show(figures: Sequence[Figure]) -> None:
    console = Console()
    console.print(table(figures)) if console.is_terminal else Console(width=190).print(table(figures))


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bar(figure: Figure) -> str:
    if figure.at_least is not None:
        return f"≥ {figure.at_least:g} {figure.measured.unit}"
    return "" if figure.at_most is None else f"≤ {figure.at_most:g} {figure.measured.unit}"


def _span(series: Series) -> str:
    return "–".join(number(value) for value in series.spread)


def as_json(figures: Sequence[Figure], machine: dict[str, Any], *, quick: bool) -> dict[str, Any]:
    taken = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [
        {**asdict(figure), "median": figure.measured.median, "holds": figure.holds if figure.has_bar else None}
        for figure in figures
    ]
    return {"taken_at": taken, "quick": quick, "machine": machine, "figures": rows}


def write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def machine(bench: Bench) -> dict[str, Any]:
    """What a reader needs to judge the absolute figures; nothing that says whose machine it was."""
    with psycopg.connect(bench.postgres) as connection:
        (postgres,) = connection.execute("SHOW server_version").fetchone() or ("",)
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "postgresql": str(postgres),
        "kafka": kafka_jars.VERSION,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
