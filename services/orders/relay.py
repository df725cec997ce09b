"""orders-relay: publishes the outbox to Kafka.

does    takes unpublished rows to Kafka, in order per key, and marks what was acknowledged
reads   outbox of Orders
writes  Kafka orders.confirmed, then outbox.published_at
next    shared/messaging/relay.py
"""

from services.orders.settings import RelaySettings
from shared.messaging import retention
from shared.messaging.errors import Transient
from shared.messaging.kafka import KafkaSettings
from shared.messaging.relay import Relay
from shared.runtime import database, process
from shared.runtime.settings import load


def main() -> None:
    settings = load(RelaySettings)
    engine = database.engine(settings.database_url, settings.process, pool_size=1)
    relay = Relay("orders", settings.database_url, KafkaSettings(settings.kafka_bootstrap, client_id=settings.process))
    ready = [database.answers(engine), retention.ahead(engine, "outbox"), relay.lateness(settings.outbox_max_age_s)]
    try:
        process.begin(settings, ready=ready).run_forever(relay.step, wait=relay.wait, retry_on=(Transient,))
    finally:
        relay.close()


if __name__ == "__main__":
    main()
