"""Reading orders: one by its id, or a page of them, newest first.

does    turns rows into the representation that clients see
reads   orders, order_lines
writes  nothing
next    routes.py
"""

from uuid import UUID

from sqlalchemy import RowMapping
from sqlalchemy.orm import Session, sessionmaker

from services.orders.schemas import Customer, Order, OrderPage
from shared.runtime.problems import Problem

LINES = """jsonb_agg(jsonb_build_object('sku', sku, 'name', name, 'quantity', quantity, 'unit_price', unit_price,
           'tax_basis_points', tax_basis_points) ORDER BY position)"""
ORDER = f"SELECT *, (SELECT {LINES} FROM order_lines WHERE order_id = id) AS lines FROM orders"  # noqa: S608
ONE = f"{ORDER} WHERE id = %(id)s"
PAGE = f"{ORDER} WHERE seq < %(before)s ORDER BY seq DESC LIMIT %(count)s"


class NoSuchOrder(Problem):
    """There is no order with this id."""

    def __init__(self) -> None:
        super().__init__(404, "no-such-order", "There is no order with this id.")


def one(session: Session, order_id: UUID) -> Order:
    row = session.connection().exec_driver_sql(ONE, {"id": order_id}).mappings().first()
    if row is None:
        raise NoSuchOrder
    return from_row(row)


def page(sessions: sessionmaker[Session], *, cursor: int | None, limit: int) -> OrderPage:
    values = {"before": cursor or 2**63 - 1, "count": limit + 1}
    with sessions() as session:
        rows = session.connection().exec_driver_sql(PAGE, values).mappings().all()
    shown = rows[:limit]
    return OrderPage(
        items=[from_row(row) for row in shown], next_cursor=shown[-1]["seq"] if len(rows) > limit else None
    )


def from_row(row: RowMapping) -> Order:
    # The database has checked all of this when it was written.
    customer = Customer.model_construct(
        name=row["customer_name"], email=row["customer_email"], address=row["customer_address"]
    )
    return Order(customer=customer, **{name: row[name] for name in _COLUMNS}, lines=row["lines"] or [])


_COLUMNS = ("id", "status", "version", "currency", "total", "created_at", "confirmed_at")
