"""Placing an order: a draft at the catalogue's prices, once per Idempotency-Key.

does    writes the order, its lines and the answer to the client in one transaction
reads   products, product_prices, idempotency_keys
writes  orders, order_lines, idempotency_keys
next    confirm_order.py
"""

from uuid import UUID, uuid4

from sqlalchemy.orm import Session, sessionmaker

from services.orders import idempotency, pricing, read_orders
from services.orders.idempotency import Answer, Request
from services.orders.schemas import Order, WantedOrder
from shared.runtime import failpoints

SCOPE = "POST /v1/orders"
"""A key belongs to one door: who knows a key of the API cannot ask for its order through the storefront."""

# One statement for the order and all its lines; prices, names and the total are the database's.
PLACE = f"""
WITH priced AS ({pricing.PRICED}),
placed AS (
    INSERT INTO orders (id, currency, customer_name, customer_email, customer_address, total)
    SELECT %(id)s, %(currency)s, %(name)s, %(email)s, %(address)s::text[], coalesce(sum(quantity * unit_price), 0)
    FROM priced
    RETURNING *
),
lines AS ({pricing.INSERT_LINES})
SELECT placed.*, (SELECT {read_orders.LINES} FROM priced) AS lines FROM placed
"""  # noqa: S608  put together from constants


def place(sessions: sessionmaker[Session], key: str, wanted: WantedOrder, *, scope: str = SCOPE) -> Answer:
    request = Request(scope, key, wanted.model_dump_json().encode())
    with sessions.begin() as session:
        answer = idempotency.once(session, request, lambda: _created(_insert(session, uuid4(), wanted)))
        failpoints.hit("orders.api.before_commit")
    failpoints.hit("orders.api.after_commit")
    return answer


def _created(order: Order) -> Answer:
    return Answer(201, order.model_dump_json())


def _insert(session: Session, order_id: UUID, wanted: WantedOrder) -> Order:
    values = pricing.parameters(order_id, wanted.currency, wanted.lines) | {
        "name": wanted.customer.name,
        "email": wanted.customer.email,
        "address": wanted.customer.address,
    }
    with pricing.refused_in_words(wanted.lines):
        order = read_orders.from_row(session.connection().exec_driver_sql(PLACE, values).mappings().one())
    pricing.refuse_unpriced(wanted.lines, order)
    return order
