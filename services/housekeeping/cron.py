"""housekeeping: keeps partitions ahead of the clock and drops expired ones, on a cron schedule or by hand.

does    creates the coming days' partitions, drops the expired ones, and says what it did
reads   the partitions of all three databases
writes  partitions, inbox_floor
next    shared/messaging/retention.py
"""

import argparse

import psycopg

from services.housekeeping.settings import HousekeepingSettings
from shared.messaging import retention
from shared.messaging.database_errors import translated
from shared.messaging.errors import Transient
from shared.runtime import cron, database, failpoints, logs, process
from shared.runtime.settings import load


def keep_house(settings: HousekeepingSettings) -> int:
    changes = 0
    for url, table, keep_days in settings.tables():
        with translated(), psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            created = retention.create_partitions(connection, table, back_days=keep_days)
            dropped = retention.drop_expired(connection, table, keep_days=keep_days)
            name = connection.info.dbname
        logs.get().info("house kept", database=name, table=table, created=created, dropped=dropped)
        changes += created + len(dropped)
    return changes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.housekeeping.cron", description=__doc__)
    parser.add_argument("--once", action="store_true", help="run now and exit, instead of on the schedule")
    arguments = parser.parse_args()
    settings = load(HousekeepingSettings)
    if arguments.once:
        logs.configure(settings.process, settings.log_level)
        failpoints.configure(settings.failpoints, settings.failpoints_dir)
        keep_house(settings)
        return
    engines = [database.engine(url, settings.process, pool_size=1) for url in settings.database_urls()]
    running = process.begin(settings, ready=[database.answers(engine) for engine in engines])
    cron.run_on_schedule(running, settings.crontab, lambda: keep_house(settings), retry_on=(Transient,))


if __name__ == "__main__":
    main()
