"""billing-consumer: one invoice for every confirmed order.

does    hands the fresh events of a batch to the handlers, in the transaction that remembers them
reads   Kafka orders.confirmed
writes  inbox, invoices and tasks of Billing
next    handlers.py
"""

from services.billing.handlers import HANDLERS
from shared import consumer_process
from shared.consumer_process import ConsumerProcessSettings
from shared.runtime.settings import load


def main() -> None:
    consumer_process.run("billing", load(ConsumerProcessSettings), HANDLERS)


if __name__ == "__main__":
    main()
