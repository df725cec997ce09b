"""Every crash window once, and each server killed once, while orders pour in; then one audit of them all.

does    places orders at a steady rate; meanwhile opens one window after the other by SIGKILL, then kills the servers
reads   the control room; everything the audit reads
writes  orders, and whatever else provokes the failpoints
next    sweep.py (one window)
"""

import threading
from dataclasses import dataclass, field

from infra.control import Control
from loadtest.chaos.load import Load
from loadtest.chaos.shops import Shop
from loadtest.crash.sweep import Say, Sweep
from services.control_room.audit.verdicts import Verdicts

SERVERS = ("postgres", "kafka", "mail")


@dataclass
class Busy:
    orders: int
    bought: int = 0
    asked_again: int = 0
    given_up: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """Windows that did not open, and servers after whose death no order came through."""
    settled: bool = False
    verdicts: Verdicts | None = None

    @property
    def good(self) -> bool:
        whole = self.settled and self.verdicts is not None and self.verdicts.hold
        return whole and self.bought == self.orders and not self.missed


def run(sweep: Sweep, shop: Shop, control: Control, orders: int, rate: float, say: Say) -> Busy:
    load = Load(shop.url, rate, orders / rate, shop.buy, shop.ledger, threading.Event())
    found = Busy(load.wanted)
    load.start()
    try:
        _break_everything_once(sweep, control, load, found, say)
    except BaseException:  # Ctrl-C too: the customers must not go on ordering for minutes
        load.over.set()
        raise
    load.join()
    found.bought, found.asked_again, found.given_up = len(load.bought), load.retries, load.failed
    found.settled = shop.settle(900, lambda _now: None)
    found.verdicts = shop.audit()
    return found


def _break_everything_once(sweep: Sweep, control: Control, load: Load, found: Busy, say: Say) -> None:
    for number, failpoint in enumerate(sweep.failpoints, 1):
        fired, away_s = sweep.open(failpoint, "kill")
        found.missed += [] if fired else [failpoint]
        said = f"back after {away_s:.1f} s" if fired else "did not fire"
        say(f"{number:>3}/{len(sweep.failpoints)}  {failpoint:<36} {said}; {len(load.bought):,} orders")
    for server in SERVERS:
        control.kill(server)
        try:
            say(f"kill -9 {server:<36} an order came through after {sweep.order_comes_through():.1f} s")
        except TimeoutError:
            found.missed.append(server)
