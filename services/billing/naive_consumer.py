"""naive-billing: how an event is often consumed: poll, do everything, log what fails, poll on. Not to be copied.

does    writes the invoice, renders its PDF and sends its e-mail, all inside the handler
reads   Kafka orders.naive
writes  invoices, in a database of its own; talks SMTP
next    the right way is consumer.py (inbox and effect in one transaction) and worker.py (what happens outside)

It looks right, it passes its tests, and it works until something dies:

- offsets are committed every five seconds, whatever has become of the messages: after a crash, what was done since the
  last time is done again. Nothing remembers it, so there are two invoices and two e-mails;
- a message that fails while the database or the mail server is away gets a log line, and the next one is polled: lost;
- an e-mail cannot be rolled back: when the commit fails after it, the customer has a mail and the shop has no invoice.
"""

from datetime import UTC, datetime
from uuid import uuid4

from confluent_kafka import Consumer
from psycopg.types.json import Jsonb
from sqlalchemy import Engine

from services.billing import amounts, mail
from services.billing.invoice import Customer, Invoice, Line
from services.billing.pdf import Renderer
from services.billing.settings import NaiveSettings
from shared.contracts.orders_confirmed import OrderConfirmed
from shared.runtime import database, logs, process
from shared.runtime.settings import load

TABLE = """
CREATE TABLE IF NOT EXISTS invoices (
    id uuid PRIMARY KEY, number bigint NOT NULL, order_id uuid NOT NULL, currency text NOT NULL, lines jsonb NOT NULL,
    net bigint NOT NULL, tax bigint NOT NULL, gross bigint NOT NULL, pdf bytea NOT NULL
)
"""
NUMBER = "SELECT coalesce(max(number), 0) + 1 FROM invoices"  # two at once take the same one
INSERT = "INSERT INTO invoices VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"


class Billing:
    def __init__(self, engine: Engine, smtp_address: str) -> None:
        self._engine, self._smtp_address = engine, smtp_address
        self._renderer, self._letters = Renderer(), mail.Letters()

    def handle(self, order: OrderConfirmed) -> None:
        """All in one transaction, "so that nothing is half done"."""
        with self._engine.begin() as connection:
            invoice = _invoice(order, connection.exec_driver_sql(NUMBER).scalar_one())
            pdf = self._renderer.pdf(invoice)
            lines = Jsonb([line.model_dump() for line in order.lines])
            amounts = (invoice.net, invoice.tax, invoice.gross)
            values = (invoice.id, invoice.number, invoice.order_id, invoice.currency, lines, *amounts, pdf)
            connection.exec_driver_sql(INSERT, values)
            mail.deliver(self._smtp_address, self._letters.write(invoice, pdf), timeout_s=10)


def _invoice(order: OrderConfirmed, number: int) -> Invoice:
    tax = sum(amounts.tax(line.quantity * line.unit_price, line.tax_basis_points) for line in order.lines)
    return Invoice(
        uuid4(), 0, number, order.order_id, f"order-{order.order_id}.{uuid4().hex[:8]}@naive.invalid", order.currency,
        Customer(**order.customer.model_dump()), [Line(**line.model_dump()) for line in order.lines],
        order.total, tax, order.total + tax, datetime.now(UTC),
    )  # fmt: skip


def main() -> None:
    settings = load(NaiveSettings)
    engine = database.engine(settings.database_url, settings.process, pool_size=1)
    running = process.begin(settings, ready=[database.answers(engine)])
    with engine.begin() as connection:
        connection.exec_driver_sql(TABLE)
    billing = Billing(engine, settings.smtp_address)
    consumer = Consumer(
        {"bootstrap.servers": settings.kafka_bootstrap, "group.id": "naive-billing", "auto.offset.reset": "earliest",
         "session.timeout.ms": 6000, "log_level": 3}
    )  # fmt: skip
    consumer.subscribe([settings.topic])

    def step() -> int:
        message = consumer.poll(1.0)
        if message is None or message.error():
            return 0
        try:
            billing.handle(OrderConfirmed.model_validate_json(message.value() or b""))
        except Exception as error:  # noqa: BLE001  this is the mistake: a log line instead of a decision
            logs.get().error("could not invoice", error=str(error))
        return 1

    running.run_forever(step, idle_s=0)
    consumer.close()


if __name__ == "__main__":
    main()
