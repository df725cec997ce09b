"""What Billing does with an event: an invoice, and a task for everything that happens outside the database.

does    invoices all fresh orders of a batch with a handful of statements
reads   invoices (is this order invoiced?)
writes  invoice_series, invoices, tasks
next    worker.py
"""

from collections import defaultdict
from collections.abc import Sequence

import orjson
from sqlalchemy.orm import Session

from services.billing import numbering
from shared.messaging import tasks
from shared.messaging.errors import Permanent
from shared.messaging.handlers import Handlers
from shared.messaging.records import Received

INVOICE = """
INSERT INTO invoices (series, number, order_id, event_id, currency, customer, lines, net)
SELECT * FROM unnest(%s::integer[], %s::bigint[], %s::uuid[], %s::uuid[], %s::text[], %s::jsonb[], %s::jsonb[],
                     %s::bigint[])
"""


class AlreadyInvoiced(Permanent):
    """Another event has invoiced this order."""

    reason = "already-invoiced"


def invoice(session: Session, received: Sequence[Received]) -> None:
    _refuse_invoiced(session, received)
    by_series: dict[int, list[Received]] = defaultdict(list)
    for r in received:
        by_series[r.partition].append(r)
    for series, some in sorted(by_series.items()):
        _insert(session, series, some)
    tasks.add(session, "invoice.render", {str(r.event.data.order_id): {} for r in received})


def _refuse_invoiced(session: Session, received: Sequence[Received]) -> None:
    """Before a number is taken: a duplicate burns none. Taken apart one by one, the batch shows which order it was."""
    orders = [r.event.data.order_id for r in received]
    known = session.connection().exec_driver_sql("SELECT order_id FROM invoices WHERE order_id = ANY (%s)", (orders,))
    if (row := known.first()) is not None:
        raise AlreadyInvoiced(f"order {row[0]} has an invoice")
    if len(set(orders)) < len(orders):
        raise AlreadyInvoiced("an order was confirmed by two events")


def _insert(session: Session, series: int, received: Sequence[Received]) -> None:
    orders = [r.event.data for r in received]
    columns = (
        [series] * len(orders),
        list(numbering.take(session, series, len(orders))),
        [order.order_id for order in orders],
        [r.event.id for r in received],
        [order.currency for order in orders],
        [orjson.dumps(order.customer.model_dump()).decode() for order in orders],
        [orjson.dumps([line.model_dump() for line in order.lines]).decode() for order in orders],
        [order.total for order in orders],
    )
    session.connection().exec_driver_sql(INVOICE, columns)


HANDLERS: Handlers = {"orders.confirmed": invoice}
