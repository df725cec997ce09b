"""make chaos: steady orders while things break at random, then settle and audit.

Exit status 0: every promise holds. 1: one is broken. 2: it cannot be told, because something did not come back.
"""

import argparse
import os
import random
import signal
import sys

from rich.console import Console

from infra import control
from infra.native.stack import PROJECT
from loadtest.chaos import noise, report
from loadtest.chaos.campaign import Campaign
from loadtest.chaos.live import View
from loadtest.chaos.shops import Shop, the_shop
from loadtest.customer import GaveUp
from loadtest.ledger import PATH
from services.control_room.audit import audit, table
from services.control_room.settings import PlacesSettings
from shared.runtime.settings import load

console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)


def main() -> int:
    given = _parser().parse_args()
    try:
        shop = the_shop(os.environ["ORDERS_URL"], load(PlacesSettings))
    except GaveUp:
        console.print("The shop does not answer: make up")
        return 2
    campaign = Campaign(shop, control.of_running_stack(), given.seed, given.minutes * 60, given.rate, PATH)
    _run(campaign)
    try:
        return _judge(campaign, shop, given.settle)
    except audit.AWAY as error:
        console.print(f"The audit needs everything that it reads, and something is away: {error}")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.chaos", description=__doc__)
    seed = random.randrange(10_000)  # noqa: S311
    parser.add_argument("--seed", type=int, default=seed, help="the same seed, the same faults (default: any)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--rate", type=float, default=12.0, help="orders per second (default: 12)")
    parser.add_argument("--settle", type=float, default=900.0, metavar="SECONDS", help="at the most (default: 900)")
    return parser


def _run(campaign: Campaign) -> None:
    """Ctrl-C and SIGTERM end the run early, and everything is undone; what happened is then settled and audited."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: campaign.over.set())
    console.print(f"seed {campaign.seed}: {campaign.duration_s:.0f} s at {campaign.rate:g} orders per second")
    with noise.into(PROJECT / ".run" / "logs" / "chaos.log"), View(campaign, console) as view:
        campaign.run(view.look)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _judge(campaign: Campaign, shop: Shop, settle_s: float) -> int:
    with console.status("settling") as status:

        def say(sentence: str) -> None:
            status.update(f"settling: {sentence}")
            campaign.watch_once()

        settled = shop.settle(settle_s, say)
    took_s = campaign.now_s - campaign.duration_s
    verdicts = shop.audit()
    table.show(console, verdicts, settled=settled)
    load = campaign.load
    console.print(
        f"seed {campaign.seed}: {len(load.bought):,} orders, {load.retries:,} requests asked again, {len(load.failed)}"
        f" given up; {campaign.kinds.total()} faults of {len(campaign.kinds)} kinds; settled after {took_s:.0f} s"
    )
    page = report.write(PROJECT / ".run" / "reports" / f"chaos-{campaign.seed}.html", campaign, verdicts, settled)
    console.print(f"The report: {page.relative_to(PROJECT)}")
    return 0 if verdicts.hold else 1


if __name__ == "__main__":
    sys.exit(main())
