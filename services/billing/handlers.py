"""What Billing does with an event: an invoice, and a task for everything that happens outside the database.

does    invoices all fresh orders of a batch with a handful of statements
reads   invoices (is this order invoiced?)
writes  invoice_series, invoices, tasks
next    worker.py
"""

from collections.abc import Sequence

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from services.billing import amounts
from shared.contracts.orders_confirmed import Line, OrderConfirmed
from shared.messaging import tasks
from shared.messaging.errors import Invalid, Permanent
from shared.messaging.handlers import Handlers
from shared.messaging.records import Received

LINES = TypeAdapter(list[Line])

# Numbers without gaps: the block of each series is taken from its counter's row, which stays locked until the
# transaction ends. A rollback gives the numbers back, and nobody can have taken the next ones meanwhile. A series per
# partition of the topic keeps several consumers from waiting for each other; in the order of the series, or two takers
# may deadlock. READ COMMITTED: the second of two takers sees what the first has committed.
# %b: arrays of texts in the binary format. In the other one psycopg has to quote every element, eight times the work.
INVOICE = """
WITH wanted AS MATERIALIZED (
    SELECT *, count(*) OVER (PARTITION BY series) AS block,
              row_number() OVER (PARTITION BY series ORDER BY place) AS nth
      FROM unnest(%b::integer[], %b::uuid[], %b::uuid[], %b::text[], %b::text[]::jsonb[], %b::text[]::jsonb[],
                  %b::bigint[], %b::bigint[], %b::bigint[]) WITH ORDINALITY
           AS w (series, order_id, event_id, currency, customer, lines, net, tax, gross, place)
),
taken AS (
    INSERT INTO invoice_series AS s (series, next_number)
    SELECT series, 1 + count(*) FROM wanted GROUP BY series ORDER BY series
    ON CONFLICT (series) DO UPDATE SET next_number = s.next_number + excluded.next_number - 1
    RETURNING series, next_number
)
INSERT INTO invoices (series, number, order_id, event_id, currency, customer, lines, net, tax, gross)
SELECT series, next_number - block + nth - 1, order_id, event_id, currency, customer, lines, net, tax, gross
  FROM wanted JOIN taken USING (series)
"""


class AlreadyInvoiced(Permanent):
    """Another event has invoiced this order."""

    reason = "already-invoiced"


class WrongTotal(Invalid):
    """The lines do not add up to the order's total: no invoice can be right."""


def invoice(session: Session, received: Sequence[Received]) -> None:
    _refuse_invoiced(session, received)
    _insert(session, received)
    tasks.add(session, "invoice.render", {str(r.event.data.order_id): {} for r in received})


def _refuse_invoiced(session: Session, received: Sequence[Received]) -> None:
    """Before a number is taken: a duplicate burns none. Taken apart one by one, the batch shows which order it was."""
    orders = [r.event.data.order_id for r in received]
    known = session.connection().exec_driver_sql("SELECT order_id FROM invoices WHERE order_id = ANY (%s)", (orders,))
    if (row := known.first()) is not None:
        raise AlreadyInvoiced(f"order {row[0]} has an invoice")
    if len(set(orders)) < len(orders):
        raise AlreadyInvoiced("an order was confirmed by two events")


def _insert(session: Session, received: Sequence[Received]) -> None:
    orders = [r.event.data for r in received]
    taxes = [_tax(order) for order in orders]
    columns = (
        [r.partition for r in received],
        [order.order_id for order in orders],
        [r.event.id for r in received],
        [order.currency for order in orders],
        [order.customer.model_dump_json() for order in orders],
        [LINES.dump_json(order.lines).decode() for order in orders],
        [order.total for order in orders],
        taxes,
        [order.total + tax for order, tax in zip(orders, taxes, strict=True)],
    )
    session.connection().exec_driver_sql(INVOICE, columns)


def _tax(order: OrderConfirmed) -> int:
    nets = [line.quantity * line.unit_price for line in order.lines]
    if sum(nets) != order.total:
        raise WrongTotal(f"order {order.order_id}: the lines come to {sum(nets)}, the total says {order.total}")
    return sum(amounts.tax(net, line.tax_basis_points) for net, line in zip(nets, order.lines, strict=True))


HANDLERS: Handlers = {"orders.confirmed": invoice}
