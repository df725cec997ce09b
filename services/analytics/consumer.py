"""analytics-consumer: counts every confirmed order.

does    hands the fresh events of a batch to the projections, in the transaction that remembers them
reads   Kafka orders.confirmed
writes  inbox and counters of Analytics
next    projections.py
"""

from services.analytics.projections import HANDLERS
from shared import consumer_process
from shared.consumer_process import ConsumerProcessSettings
from shared.runtime.settings import load


def main() -> None:
    consumer_process.run("analytics", load(ConsumerProcessSettings), HANDLERS)


if __name__ == "__main__":
    main()
