"""The work that is measured: an invoice with a gapless number and a task for it, as Billing does it.

Written three ways, all with the same tables and the same rows at the end:
    invoice     set-based, for the real consumer: a handful of statements for a batch
    invoice_one one event, one transaction: what most people write
    Bare        set-based, from rows that are ready in memory: what the database could do at the most
"""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection
from pydantic import TypeAdapter
from sqlalchemy import text
from sqlalchemy.orm import Session

from shared.contracts.orders_confirmed import Line, OrderConfirmed
from shared.messaging import inbox, tasks
from shared.messaging.records import Received

TABLES = """
CREATE TABLE series (series integer PRIMARY KEY, next_number bigint NOT NULL);
CREATE TABLE invoices (
    series integer NOT NULL, number bigint NOT NULL, order_id uuid NOT NULL UNIQUE, event_id uuid NOT NULL UNIQUE,
    currency text NOT NULL, customer jsonb NOT NULL, lines jsonb NOT NULL, net bigint NOT NULL,
    issued_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (series, number));
"""
TASK = "invoice.render"
LINES = TypeAdapter(list[Line])

# As in services/billing/handlers.py.
INVOICES = """
WITH wanted AS MATERIALIZED (
    SELECT *, count(*) OVER (PARTITION BY series) AS block,
              row_number() OVER (PARTITION BY series ORDER BY place) AS nth
      FROM unnest(%(series)b::int[], %(orders)b::uuid[], %(events)b::uuid[], %(currencies)b::text[],
                  %(customers)b::text[]::jsonb[], %(lines)b::text[]::jsonb[], %(nets)b::bigint[]) WITH ORDINALITY
           AS w (series, order_id, event_id, currency, customer, lines, net, place)
),
taken AS (
    INSERT INTO series AS s (series, next_number)
    SELECT series, 1 + count(*) FROM wanted GROUP BY series ORDER BY series
    ON CONFLICT (series) DO UPDATE SET next_number = s.next_number + excluded.next_number - 1
    RETURNING series, next_number
)
INSERT INTO invoices (series, number, order_id, event_id, currency, customer, lines, net)
SELECT series, next_number - block + nth - 1, order_id, event_id, currency, customer, lines, net
  FROM wanted JOIN taken USING (series)
"""


def invoice(session: Session, received: Sequence[Received]) -> None:
    session.connection().exec_driver_sql(INVOICES, columns(received))
    tasks.add(session, TASK, {r.event.subject: {} for r in received})


def columns(received: Sequence[Received]) -> dict[str, list[object]]:
    orders: list[OrderConfirmed] = [r.event.data for r in received]
    return {
        "series": [r.partition for r in received],
        "orders": [order.order_id for order in orders],
        "events": [r.event.id for r in received],
        "currencies": [order.currency for order in orders],
        "customers": [order.customer.model_dump_json() for order in orders],
        "lines": [lines(order) for order in orders],
        "nets": [order.total for order in orders],
    }


def lines(order: OrderConfirmed) -> str:
    return LINES.dump_json(order.lines).decode()


CLAIM_ONE = text(
    "INSERT INTO inbox (consumer, event_id, payload_hash, deliveries, from_topic, from_partition, from_offset)"
    " VALUES (:consumer, :event_id, :hash, 1, :topic, :partition, :offset) ON CONFLICT DO NOTHING"
)
INVOICE_ONE = text(
    "WITH taken AS (INSERT INTO series AS s (series, next_number) VALUES (:series, 2)"
    " ON CONFLICT (series) DO UPDATE SET next_number = s.next_number + 1 RETURNING next_number - 1 AS number)"
    " INSERT INTO invoices (series, number, order_id, event_id, currency, customer, lines, net)"
    " SELECT :series, number, :order_id, :event_id, :currency, CAST(:customer AS jsonb), CAST(:lines AS jsonb), :net"
    " FROM taken"
)
TASK_ONE = text("INSERT INTO tasks (kind, key) VALUES (:kind, :key) ON CONFLICT DO NOTHING")


def invoice_one(session: Session, consumer: str, r: Received) -> None:
    """Three statements and the commit. Nothing is made slow on purpose: no ORM objects, no look before the insert."""
    claim = {
        "consumer": consumer, "event_id": r.event.id, "hash": r.payload_hash, "topic": r.topic,
        "partition": r.partition, "offset": r.offset,
    }  # fmt: skip
    if session.connection().execute(CLAIM_ONE, claim).rowcount == 0:
        return
    order: OrderConfirmed = r.event.data
    session.execute(
        INVOICE_ONE,
        {
            "series": r.partition, "order_id": order.order_id, "event_id": r.event.id, "currency": order.currency,
            "customer": order.customer.model_dump_json(), "lines": lines(order), "net": order.total,
        },
    )  # fmt: skip
    session.execute(TASK_ONE, {"kind": TASK, "key": r.event.subject})


@dataclass(frozen=True)
class Bare:
    """The rows of one batch, ready to be written. Building them is not measured; writing them is."""

    claim: dict[str, object]
    columns: dict[str, list[object]]
    tasks: tuple[str, list[str], list[str]]

    @classmethod
    def of(cls, consumer: str, received: Sequence[Received]) -> "Bare":
        subjects = [r.event.subject for r in received]
        tasks = (TASK, subjects, ["{}"] * len(subjects))
        return cls(inbox.columns(consumer, received), columns(received), tasks)

    def write(self, connection: Connection) -> None:
        with connection.transaction():
            connection.execute(inbox.CLAIM, {**self.claim, "letters_read": False})
            connection.execute(INVOICES, self.columns)
            connection.execute(tasks.ADD, self.tasks)
