"""make crash AT=billing.consumer.after_commit [ACTION=kill|pause|error]: one crash window, opened on purpose.
make crash-all: every window, killed and put to sleep, and a table of what came of it.
make crash-all ORDERS=5000: every window killed once, and each server too, while so many orders are placed."""

import argparse
import os
import sys
import time

from rich.console import Console
from rich.table import Table

from infra import control
from loadtest.chaos.shops import the_shop
from loadtest.control_room import Away, ControlRoom, Refused
from loadtest.crash import busy
from loadtest.crash.sweep import Outcome, Sweep
from loadtest.crash.windows import Scene
from loadtest.customer import Customer, GaveUp
from loadtest.ledger import Ledger
from services.control_room.audit import audit, table
from services.control_room.settings import PlacesSettings
from shared.runtime.settings import load

screen = Console(width=None if sys.stdout.isatty() else 120, highlight=False)


def main() -> int:
    parser = _parser()
    given = parser.parse_args()
    if given.orders is not None and (not given.all or given.orders < 1 or given.rate <= 0):
        parser.error("--orders goes with --all, and takes a number above 0, as --rate does")
    try:
        sweep = _sweep(quiet=given.all)
        if not given.all and given.at not in sweep.failpoints:
            names = "\n  ".join(sweep.failpoints)
            print(f"no failpoint is called {given.at!r}; there are:\n  {names}", file=sys.stderr)
            return 2
        if given.orders:
            return _run_busy(sweep, given.orders, given.rate)
        wanted = [given.at] if not given.all else list(sweep.failpoints)
        actions = [given.action] if given.action else ["kill", "pause"] if given.all else ["kill"]
        return _run(sweep, [(failpoint, action) for action in actions for failpoint in wanted])
    except (Away, GaveUp, *audit.AWAY) as error:
        print(f"{error}", file=sys.stderr)
        return 2
    except Refused as error:
        print(f"the control room refuses: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make crash", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--at", metavar="FAILPOINT")
    what.add_argument("--all", action="store_true", help="every failpoint")
    parser.add_argument("--action", choices=("kill", "pause", "error"), help="default: kill; with --all kill and pause")
    parser.add_argument("--orders", type=int, metavar="N", help="with --all: while N orders are placed; one audit")
    parser.add_argument("--rate", type=float, default=20.0, help="of these orders per second (default: 20)")
    return parser


def _sweep(*, quiet: bool) -> Sweep:
    customer = Customer(os.environ["ORDERS_URL"], Ledger(), patience_s=120)
    scene = Scene(ControlRoom.of_environment(), customer, customer.products())
    say = (lambda _sentence: None) if quiet else (lambda sentence: screen.print(f"  {sentence}"))
    return Sweep(scene, control.of_running_stack(), load(PlacesSettings), say)


def _run(sweep: Sweep, wanted: list[tuple[str, str]]) -> int:
    outcomes: list[Outcome] = []
    began = time.monotonic()
    for number, (failpoint, action) in enumerate(wanted, 1):
        outcome = sweep.crash(failpoint, action)
        outcomes.append(outcome)
        if len(wanted) > 1:
            said = "ok" if outcome.good else "NOT OK"
            screen.print(f"{number:>3}/{len(wanted)}  {failpoint:<36} {outcome.action:<9} {said}")
    _print(outcomes, time.monotonic() - began)
    return 0 if all(outcome.good for outcome in outcomes) else 1


def _run_busy(sweep: Sweep, orders: int, rate: float) -> int:
    began, shop = time.monotonic(), the_shop(os.environ["ORDERS_URL"], load(PlacesSettings))
    found = busy.run(sweep, shop, control.of_running_stack(), orders, rate, screen.print)
    if found.verdicts:
        table.show(screen, found.verdicts, settled=found.settled)
    screen.print(
        f"{found.bought:,} of {found.orders:,} orders, {found.asked_again:,} requests asked again,"
        f" {len(found.given_up)} given up; {len(sweep.failpoints)} windows and {len(busy.SERVERS)} servers,"
        f" missed: {', '.join(found.missed) or 'none'} ({time.monotonic() - began:.0f} s)"
    )
    return 0 if found.good else 1


def _print(outcomes: list[Outcome], seconds: float) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("failpoint", "action", "process", "fired", "away", "audit"):
        table.add_column(title)
    for o in outcomes:
        broken = [v.promise for v in o.verdicts if not v.holds]
        verdict = (
            "[red]not settled[/]" if not o.settled else f"[red]{'; '.join(broken)}[/]" if broken else "[green]holds[/]"
        )
        fired = "yes" if o.fired else "[red]no[/]"
        table.add_row(o.failpoint, o.action, o.process, fired, f"{o.away_s:.1f} s", verdict)
    screen.print(table)
    last = outcomes[-1].verdicts
    found = "; ".join(f"{v.broken:,} × broken: {v.promise}" for v in last if not v.holds) or "0 lost, 0 doubled"
    screen.print(f"{len(outcomes)} crash(es), {last.one_event.checked:,} orders: {found} ({seconds:.0f} s).")
    for promise in last:
        for line in [] if promise.holds else promise.told():
            screen.print(f"  {promise.promise}: {line}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
