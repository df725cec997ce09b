"""Sales for tests, counted as the consumer of Analytics counts them."""

from datetime import UTC, datetime
from uuid import uuid4

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from services.analytics.projections import HANDLERS
from shared.contracts.orders_confirmed import Customer, Line, OrderConfirmed
from shared.messaging import event, handlers
from shared.messaging.records import Received
from tests.support import streams

NOW = datetime.now(UTC)


def sell(
    engine: Engine,
    *,
    at: datetime = NOW,
    currency: str = "EUR",
    sku: str = "tea",
    name: str = "Tea",
    cents: int = 1250,
    orders: int = 1,
) -> None:
    """So many orders of one piece each."""
    with Session(engine) as session, session.begin():
        handlers.run(session, [sold(at, currency, sku, name, cents) for _ in range(orders)], HANDLERS)


def sold(at: datetime, currency: str = "EUR", sku: str = "tea", name: str = "Tea", cents: int = 1250) -> Received:
    data = OrderConfirmed(
        order_id=uuid4(),
        currency=currency,
        customer=Customer(name="Ada", email="ada@example.org", address=["1 Street"]),
        lines=[Line(sku=sku, name=name, quantity=1, unit_price=cents, tax_basis_points=1900)],
        total=cents,
        confirmed_at=at,
    )
    made = event.new("orders.confirmed", source="orders", subject=str(data.order_id), data=data)
    return streams.received(made)
