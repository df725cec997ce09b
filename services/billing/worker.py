"""billing-worker: PDF and e-mail for every invoice.

does    nothing yet but stand, be healthy and stop when told
reads   the database of Billing
writes  nothing yet
next    settings.py
"""

from services.billing.settings import WorkerSettings
from shared.runtime import database, process
from shared.runtime.settings import load


def main() -> None:
    settings = load(WorkerSettings)
    engine = database.engine(settings.database_url, settings.process)
    process.begin(settings, ready=[database.answers(engine)]).run_forever(lambda: 0)


if __name__ == "__main__":
    main()
