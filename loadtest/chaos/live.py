"""What the terminal shows while it runs; where there is none, a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from loadtest.chaos.campaign import Campaign, Fallen
from loadtest.chaos.shops import Progress

SHOWN_FAULTS = 12
LINE_EVERY_S = 10.0
NOTHING = Progress(0, 0, 0, 0, 0)


class View:
    def __init__(self, campaign: Campaign, console: Console) -> None:
        self._campaign, self._console = campaign, console
        self._live = Live(console=console, refresh_per_second=4, transient=False) if console.is_terminal else None
        self._told, self._line_at = 0, time.monotonic()

    def look(self) -> None:
        if self._live:
            self._live.update(Group(self._figures(), Text(), self._faults()))
            return
        for fallen in self._campaign.fallen[self._told :]:
            self._console.print(f"{fallen.began_s:6.1f} s  {fallen.fault}")
            self._told += 1
        if time.monotonic() > self._line_at:
            self._console.print(f"{self._campaign.now_s:6.1f} s  {self._sentence()}")
            self._line_at = time.monotonic() + LINE_EVERY_S

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, _k: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def _figures(self) -> Table:
        now, campaign = self._since_start(), self._campaign
        table = Table(box=None, pad_edge=False, title_justify="left")
        table.title = f"seed {campaign.seed} · {campaign.now_s:.0f} of {campaign.duration_s:.0f} s · Ctrl-C undoes all"
        for title in ("orders", "retried", "invoices", "mailed", "counted", "in flight", "faults", "kinds"):
            table.add_column(title, justify="right", min_width=7, no_wrap=True)
        told = (len(campaign.load.bought), campaign.load.retries, now.invoiced, now.mailed, now.counted, now.in_flight)
        table.add_row(*(f"{figure:,}" for figure in (*told, campaign.kinds.total(), len(campaign.kinds))))
        return table

    def _faults(self) -> Table:
        table = Table(box=None, pad_edge=False, show_header=False)
        for fallen in self._campaign.fallen[-SHOWN_FAULTS:]:
            table.add_row(f"{fallen.began_s:6.1f} s", str(fallen.fault), Text(fallen.said, style=_style(fallen)))
        return table

    def _sentence(self) -> str:
        now, load = self._since_start(), self._campaign.load
        return (
            f"{len(load.bought)} orders, {load.retries} asked again, {now.invoiced} invoices, {now.mailed} mailed,"
            f" {now.counted} counted, {now.in_flight} in flight, {self._campaign.kinds.total()} faults"
        )

    def _since_start(self) -> Progress:
        known = [sample.progress for sample in self._campaign.samples if sample.progress]
        if not known:
            return NOTHING
        first, last = known[0], known[-1]
        return Progress(
            last.ordered - first.ordered, last.invoiced - first.invoiced, last.mailed - first.mailed,
            last.counted - first.counted, last.in_flight,
        )  # fmt: skip


@contextmanager
def settling(console: Console) -> Iterator[Callable[[str], None]]:
    """A line that changes; where there is no terminal, one now and then."""
    shown_at = time.monotonic()
    with console.status("settling") as status:

        def say(sentence: str) -> None:
            nonlocal shown_at
            status.update(f"settling: {sentence}")
            if not console.is_terminal and time.monotonic() > shown_at:
                console.print(f"settling: {sentence}")
                shown_at = time.monotonic() + LINE_EVERY_S

        yield say


def _style(fallen: Fallen) -> str:
    return "yellow" if fallen.missed else "dim" if fallen.ended_s else "red"
