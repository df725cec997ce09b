"""make audit: was any order lost, doubled or changed? Exit status 1 if a promise is broken, 2 if it cannot be told."""

import argparse
import json
import sys
import time
from datetime import UTC
from uuid import UUID

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TimeElapsedColumn

from services.control_room.audit import audit, naive, settling, table, timeline
from services.control_room.audit.settling import InFlight
from services.control_room.settings import PlacesSettings
from shared.runtime.settings import load

screen = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
aside = Console(stderr=True, highlight=False)


def main() -> int:
    given = _parser().parse_args()
    places = load(PlacesSettings)
    try:
        if given.order:
            return _tell_life(places, given.order)
        settled = _settle(places, given) if given.wait else True
        return _audit(places, given, settled=settled)
    except audit.AWAY as error:
        print(f"The audit needs everything that it reads, and something is away: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make audit", description=__doc__)
    parser.add_argument("--wait", type=float, metavar="SECONDS", default=0, help="first let the system settle")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--naive", action="store_true", help="judge the naive shop (make naive) instead")
    parser.add_argument("--order", type=UUID, metavar="ID", help="the life of one order instead")
    return parser


def _settle(places: PlacesSettings, given: argparse.Namespace) -> bool:
    if given.naive:  # it keeps no record of what is still to be done
        with aside.status("settling") as status:
            return naive.settle(places, given.wait, status.update)
    limit = f"of {given.wait:.0f} s at the most"
    columns = ("settling", BarColumn(), "in flight: {task.description}", TimeElapsedColumn(), limit)
    with Progress(*columns, console=aside, transient=True, disable=not aside.is_terminal) as bar:
        shown, most = bar.add_task("", total=None), 0

        def look(now: InFlight) -> None:
            nonlocal most
            most = max(most, now.total)
            bar.update(shown, total=most, completed=most - now.total, description=str(now))

        return settling.settle(places, given.wait, look)


def _audit(places: PlacesSettings, given: argparse.Namespace, *, settled: bool) -> int:
    began = time.monotonic()
    with aside.status("reading") as status:

        def progress(what: str, count: int) -> None:
            status.update(f"reading {what}: {count:,}")

        verdicts = naive.run(places) if given.naive else audit.run(places, progress)
    seconds = time.monotonic() - began
    if given.json:
        promises = {name: vars(verdict) for name, verdict in verdicts.named.items()}
        print(json.dumps({"holds": verdicts.hold, "settled": settled, "seconds": seconds, "promises": promises}))
    else:
        table.show(screen, verdicts, settled=settled)
        screen.print(f"Read in {seconds:.1f} s.")
    return 0 if verdicts.hold else 1


def _tell_life(places: PlacesSettings, order_id: UUID) -> int:
    moments = timeline.of(places, order_id)
    for moment in moments:
        at = moment.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] if moment.at else "-" * 23
        screen.print(f"{at}  {moment.where:<16} {escape(moment.what)}")
    if not moments:
        print(f"nobody has heard of order {order_id}", file=sys.stderr)
    return 0 if moments else 1


if __name__ == "__main__":
    sys.exit(main())
