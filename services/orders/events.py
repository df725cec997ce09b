"""What Orders tells the other services: an order was confirmed, with all they need to know about it."""

from services.orders.schemas import Order
from shared.contracts.orders_confirmed import OrderConfirmed
from shared.messaging import event
from shared.messaging.event import Event

CONFIRMED = "orders.confirmed"
"""The event's type, and the topic's name."""


def confirmed(order: Order) -> Event:
    fields = order.model_dump(include={"currency", "customer", "lines", "total", "confirmed_at"})
    data = OrderConfirmed(order_id=order.id, **fields)
    return event.new(CONFIRMED, source="/orders", subject=str(order.id), data=data)
