"""housekeeping: keeps the three databases tidy, on a cron schedule or by hand.

does    visits every database when its time has come
reads   its settings
writes  nothing itself
next    rounds.py
"""

import argparse
import sys

from services.housekeeping import purges
from services.housekeeping.house import House, visit
from services.housekeeping.rounds import Rounds
from services.housekeeping.settings import HousekeepingSettings
from shared.runtime import database, failpoints, logs, process
from shared.runtime.settings import load


def houses(settings: HousekeepingSettings) -> list[House]:
    def house(name: str, url: str, table: str, keep_days: int, *old: purges.Purge) -> House:
        return House(name, url, database.engine(url, settings.process, pool_size=1), table, keep_days, old)

    s = settings
    keys, tasks = purges.idempotency_keys(s.idempotency_keys_hours), purges.done_tasks(s.done_tasks_days)
    minutes = purges.minute_sales(s.minute_sales_hours)
    return [
        house("orders", s.orders_database_url, "outbox", s.outbox_retention_days, keys),
        house("billing", s.billing_database_url, "inbox", s.inbox_retention_days, tasks),
        house("analytics", s.analytics_database_url, "inbox", s.inbox_retention_days, minutes),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.housekeeping.cron", description=__doc__)
    parser.add_argument("--once", action="store_true", help="visit all now and exit: 0 if all went well, 1 otherwise")
    arguments = parser.parse_args()
    settings = load(HousekeepingSettings)
    all_houses = houses(settings)
    if arguments.once:
        logs.configure(settings.process, settings.log_level)
        failpoints.configure(settings.failpoints, settings.failpoints_dir)
        sys.exit(1 if None in [visit(house) for house in all_houses] else 0)
    running = process.begin(settings, ready=[database.answers(house.engine) for house in all_houses])

    def carry_on() -> bool:
        """A long purge is a healthy one, and stops between two batches."""
        running.pulse.beat()
        return not running.stop.requested

    running.run_forever(Rounds(all_houses, settings.crontab, carry_on).step)


if __name__ == "__main__":
    main()
