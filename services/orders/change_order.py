"""Changing a draft: other lines, if nobody else has changed it since the client looked.

does    replaces the lines of a draft, at the catalogue's prices of now
reads   products, product_prices, orders
writes  orders, order_lines
next    confirm_order.py
"""

from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from services.orders import etags, pricing, read_orders
from services.orders.etags import Versions
from services.orders.schemas import Lines, Order
from shared.runtime.problems import Problem

# READ COMMITTED; the row stays locked, so that of two changes of one version the second finds another version.
LOCK = "SELECT status, version, currency FROM orders WHERE id = %(id)s FOR UPDATE"
CLEAR = "DELETE FROM order_lines WHERE order_id = %(id)s"
CHANGE = f"""
WITH priced AS ({pricing.PRICED}),
changed AS (
    UPDATE orders SET version = version + 1,
                      total = (SELECT coalesce(sum(quantity * unit_price), 0) FROM priced)
    WHERE id = %(id)s RETURNING *
),
lines AS ({pricing.INSERT_LINES})
SELECT changed.*, (SELECT {read_orders.LINES} FROM priced) AS lines FROM changed
"""  # noqa: S608  put together from constants


def change(sessions: sessionmaker[Session], order_id: UUID, wanted: Lines, *, seen: Versions) -> Order:
    with sessions.begin() as session:
        connection = session.connection()
        found = connection.exec_driver_sql(LOCK, {"id": order_id}).first()
        if found is None:
            raise read_orders.NoSuchOrder
        if found.status == "confirmed":
            raise Problem(409, "already-confirmed", "A confirmed order cannot be changed.")
        if seen is not None and found.version not in seen:
            raise etags.OrderChanged(found.version)
        connection.exec_driver_sql(CLEAR, {"id": order_id})
        values = pricing.parameters(order_id, found.currency, wanted.lines)
        with pricing.refused_in_words(wanted.lines):
            order = read_orders.from_row(connection.exec_driver_sql(CHANGE, values).mappings().one())
        pricing.refuse_unpriced(wanted.lines, order)
    return order
