"""analytics-consumer: counts every confirmed order.

does    nothing yet but stand, be healthy and stop when told
reads   the database of Analytics
writes  nothing yet
next    settings.py
"""

from services.analytics.settings import ConsumerSettings
from shared.runtime import database, process
from shared.runtime.settings import load


def main() -> None:
    settings = load(ConsumerSettings)
    engine = database.engine(settings.database_url, settings.process)
    process.begin(settings, ready=[database.answers(engine)]).run_forever(lambda: 0)


if __name__ == "__main__":
    main()
