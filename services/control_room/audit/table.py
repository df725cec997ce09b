"""The verdicts as a person reads them: one row per promise, then whoever broke it."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.control_room.audit.verdicts import Verdicts


def show(screen: Console, verdicts: Verdicts, *, settled: bool) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("promise")
    table.add_column("checked", justify="right")
    table.add_column("broken", justify="right")
    table.add_column("verdict")
    for verdict in verdicts:
        said = "[green]holds[/]" if verdict.holds else "[red]BROKEN[/]"
        table.add_row(verdict.promise, f"{verdict.checked:,}", f"{verdict.broken:,}", said)
    screen.print(table)
    for verdict in verdicts:
        for line in verdict.told():
            screen.print(f"  {verdict.promise}: {escape(line)}")
    if not settled:
        screen.print("Not everything had settled: what is still in flight may be reported as missing.")
    broken = sum(not verdict.holds for verdict in verdicts)
    said = f"{broken} promise(s) broken" if broken else "Every promise holds"
    screen.print(f"{said} ({verdicts.one_invoice.checked:,} orders).")
