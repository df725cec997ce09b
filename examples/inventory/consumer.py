"""inventory-consumer: reserves the products of every confirmed order. --prepare makes its tables, and ends."""

import sys
from pathlib import Path

import psycopg

from examples.inventory.reserve import HANDLERS
from shared import consumer_process
from shared.messaging import retention, schema
from shared.runtime.settings import load


def prepare(url: str, keep_days: int) -> None:
    with psycopg.connect(url) as connection:
        schema.install(connection, "inbox")
        connection.execute(Path(__file__).with_name("tables.sql").read_bytes())
        retention.create_partitions(connection, "inbox", back_days=keep_days)


if __name__ == "__main__":
    settings = load(consumer_process.ConsumerProcessSettings)
    if "--prepare" in sys.argv:
        prepare(settings.database_url, settings.inbox_retention_days)
    else:
        consumer_process.run("inventory", settings, HANDLERS)
