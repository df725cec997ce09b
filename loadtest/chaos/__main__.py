"""make chaos: steady orders while things break at random, then settle and audit.

Exit status 0: every promise holds. 1: one is broken. 2: it cannot be told, because something did not come back, or
because not one order came through.
"""

import argparse
import os
import random
import signal
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from infra import control
from infra.native.stack import PROJECT
from loadtest.chaos import noise, report
from loadtest.chaos.campaign import Campaign
from loadtest.chaos.live import View, settling
from loadtest.chaos.shops import Shop, the_naive_shop, the_shop
from loadtest.customer import GaveUp
from services.control_room.audit import audit, table
from services.control_room.settings import PlacesSettings
from shared.runtime.settings import load

console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)


def main() -> int:
    given = parser().parse_args()
    try:
        shop = _shop(given)
    except (GaveUp, KeyError):
        console.print(f"The shop does not answer: {'make naive' if given.naive else 'make up'}")
        return 2
    return run(shop, control.of_running_stack(), given)


def run(shop: Shop, hands: control.Control, given: argparse.Namespace) -> int:
    campaign = Campaign(shop, hands, given.seed, given.minutes * 60, given.rate)
    _break_things(campaign)
    try:
        return _judge(campaign, given.settle)
    except audit.AWAY as error:
        console.print(f"The audit needs everything that it reads, and something is away: {error}")
        return 2


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m loadtest.chaos", description=__doc__)
    seed = random.randrange(10_000)  # noqa: S311
    made.add_argument("--seed", type=int, default=seed, help="the same seed, the same faults (default: any)")
    made.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    made.add_argument("--rate", type=float, default=12.0, help="orders per second (default: 12)")
    made.add_argument("--settle", type=float, default=900.0, metavar="SECONDS", help="at the most (default: 900)")
    made.add_argument("--naive", action="store_true", help="break the naive shop (make naive) instead")
    return made


def _shop(given: argparse.Namespace) -> Shop:
    if given.naive:
        return the_naive_shop(os.environ["NAIVE_ORDERS_URL"], load(PlacesSettings))
    return the_shop(os.environ["ORDERS_URL"], load(PlacesSettings))


def _break_things(campaign: Campaign) -> None:
    """Ctrl-C and SIGTERM end the run early, and everything is undone; what happened is then settled and audited."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: campaign.over.set())
    console.print(f"seed {campaign.seed}: {campaign.duration_s:.0f} s at {campaign.rate:g} orders per second")
    with noise.into(PROJECT / ".run" / "logs" / "chaos.log"), View(campaign, console) as view:
        campaign.run(view.look)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _judge(campaign: Campaign, settle_s: float) -> int:
    with settling(console) as say:

        def look(sentence: str) -> None:
            say(sentence)
            campaign.watch_once()

        settled = campaign.shop.settle(settle_s, look)
    took_s, verdicts = campaign.now_s - campaign.ended_s, campaign.shop.audit()
    table.show(console, verdicts, settled=settled)
    load = campaign.load
    console.print(
        f"seed {campaign.seed}: {len(load.bought):,} orders, {load.retries:,} requests asked again, {len(load.failed)}"
        f" given up; {campaign.kinds.total()} faults of {len(campaign.kinds)} kinds; settled after {took_s:.0f} s"
    )
    for sentence in sorted(set(load.failed))[:5]:
        console.print(f"[red]{escape(sentence)}[/]")
    page = report.write(_page(campaign), campaign, verdicts, settled)
    console.print(f"The report: {page.relative_to(PROJECT)}")
    if not settled or not load.bought:
        return 2
    return 0 if verdicts.hold else 1


def _page(campaign: Campaign) -> Path:
    name = f"{campaign.shop.name.removesuffix('shop')}chaos-{campaign.seed}.html".replace(" ", "-")
    return PROJECT / ".run" / "reports" / name


if __name__ == "__main__":
    sys.exit(main())
