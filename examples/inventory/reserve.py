"""What Inventory does with an event: it reserves an order's products, once per order."""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy.orm import Session

from shared.messaging.errors import Permanent
from shared.messaging.handlers import Handlers
from shared.messaging.records import Received

# Sorted, both of them: two batches that meet in the same rows must take them in the same order.
REMEMBER = """
INSERT INTO reservations (order_id) SELECT * FROM unnest(%s::uuid[]) AS o (order_id) ORDER BY order_id
ON CONFLICT (order_id) DO NOTHING
"""
RESERVE = """
INSERT INTO stock AS s (sku, reserved) SELECT * FROM unnest(%s::text[], %s::bigint[])
ON CONFLICT (sku) DO UPDATE SET reserved = s.reserved + excluded.reserved
"""


class AlreadyReserved(Permanent):
    """Another event has reserved for this order."""

    reason = "already-reserved"


def reserve(session: Session, received: Sequence[Received]) -> None:
    orders = [r.event.data for r in received]
    connection = session.connection()
    if connection.exec_driver_sql(REMEMBER, ([order.order_id for order in orders],)).rowcount < len(orders):
        raise AlreadyReserved
    units = Counter[str]()
    for order in orders:
        for line in order.lines:
            units[line.sku] += line.quantity
    skus = sorted(units)
    connection.exec_driver_sql(RESERVE, (skus, [units[sku] for sku in skus]))


HANDLERS: Handlers = {"orders.confirmed": reserve}
