"""housekeeping: keeps partitions ahead of the clock and drops expired ones, on a cron schedule or by hand.

does    nothing yet but come round on its schedule
reads   all three databases
writes  nothing yet
next    settings.py
"""

import argparse

from services.housekeeping.settings import HousekeepingSettings
from shared.runtime import cron, database, logs, process
from shared.runtime.settings import load


def keep_house() -> int:
    logs.get().info("house kept")
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.housekeeping.cron", description=__doc__)
    parser.add_argument("--once", action="store_true", help="run now and exit, instead of on the schedule")
    arguments = parser.parse_args()
    settings = load(HousekeepingSettings)
    if arguments.once:
        logs.configure(settings.process, settings.log_level)
        keep_house()
        return
    engines = [database.engine(url, settings.process, pool_size=1) for url in settings.database_urls()]
    running = process.begin(settings, ready=[database.answers(engine) for engine in engines])
    cron.run_on_schedule(running, settings.crontab, keep_house)


if __name__ == "__main__":
    main()
