"""What Analytics does with an event: it counts.

does    adds all fresh orders of a batch to the sales figures, an upsert per table
reads   nothing
writes  counted_orders, daily_sales, product_sales: in this order, each sorted, so that two batches cannot deadlock
next    api.py
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC

from sqlalchemy.orm import Session

from shared.messaging.errors import Permanent
from shared.messaging.handlers import Handlers
from shared.messaging.records import Received

COUNT_ORDERS = """
INSERT INTO counted_orders (order_id, event_id)
SELECT * FROM unnest(%s::uuid[], %s::uuid[]) AS o (order_id, event_id) ORDER BY order_id
ON CONFLICT (order_id) DO NOTHING
"""
ADD_DAYS = """
INSERT INTO daily_sales AS s (day, currency, orders, revenue)
SELECT * FROM unnest(%s::date[], %s::text[], %s::bigint[], %s::bigint[])
ON CONFLICT (day, currency) DO UPDATE SET orders = s.orders + excluded.orders, revenue = s.revenue + excluded.revenue
"""
ADD_PRODUCTS = """
INSERT INTO product_sales AS s (sku, currency, units, revenue)
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[])
ON CONFLICT (sku, currency) DO UPDATE SET units = s.units + excluded.units, revenue = s.revenue + excluded.revenue
"""


class AlreadyCounted(Permanent):
    """Another event has counted this order."""

    reason = "already-counted"


def count(session: Session, received: Sequence[Received]) -> None:
    connection = session.connection()
    orders = [r.event.data.order_id for r in received]
    new = connection.exec_driver_sql(COUNT_ORDERS, (orders, [r.event.id for r in received])).rowcount
    if new < len(orders):
        raise AlreadyCounted
    orders_of, revenue_of, units_of, earned_by = _sums(received)
    days = sorted(orders_of)
    figures = [orders_of[day] for day in days], [revenue_of[day] for day in days]
    connection.exec_driver_sql(ADD_DAYS, ([day for day, _ in days], [currency for _, currency in days], *figures))
    products = sorted(units_of)
    figures = [units_of[product] for product in products], [earned_by[product] for product in products]
    connection.exec_driver_sql(ADD_PRODUCTS, ([sku for sku, _ in products], [c for _, c in products], *figures))


def _sums(received: Sequence[Received]) -> tuple[Counter[tuple[str, str]], ...]:
    orders_of, revenue_of, units_of, earned_by = (Counter[tuple[str, str]]() for _ in range(4))
    for order in (r.event.data for r in received):
        day = order.confirmed_at.astimezone(UTC).date().isoformat(), order.currency
        orders_of[day] += 1
        revenue_of[day] += order.total
        for line in order.lines:
            product = line.sku, order.currency
            units_of[product] += line.quantity
            earned_by[product] += line.quantity * line.unit_price
    return orders_of, revenue_of, units_of, earned_by


HANDLERS: Handlers = {"orders.confirmed": count}
