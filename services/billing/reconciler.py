"""billing-reconciler: gets the e-mail out of every invoice that was forgotten, on a cron schedule or by hand.

does    nothing yet but come round on its schedule
reads   the database of Billing
writes  nothing yet
next    settings.py
"""

import argparse

from services.billing.settings import ReconcilerSettings
from shared.runtime import cron, database, logs, process
from shared.runtime.settings import load


def reconcile() -> int:
    logs.get().info("reconciled", requeued=0)
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.billing.reconciler", description=__doc__)
    parser.add_argument("--once", action="store_true", help="run now and exit, instead of on the schedule")
    arguments = parser.parse_args()
    settings = load(ReconcilerSettings)
    if arguments.once:
        logs.configure(settings.process, settings.log_level)
        reconcile()
        return
    engine = database.engine(settings.database_url, settings.process)
    running = process.begin(settings, ready=[database.answers(engine)])
    cron.run_on_schedule(running, settings.crontab, reconcile)


if __name__ == "__main__":
    main()
