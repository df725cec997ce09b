"""The events that everything is measured with: confirmed orders of two lines, about 800 bytes each."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

from confluent_kafka import Producer

from shared.contracts import CONTRACTS
from shared.contracts.orders_confirmed import Customer, Line, OrderConfirmed
from shared.messaging import event as events
from shared.messaging.event import Event

TYPE = "orders.confirmed"


def confirmed(number: int) -> Event:
    cents = 500 + number % 1000
    data = OrderConfirmed(
        order_id=uuid4(),
        currency="EUR",
        customer=Customer(name="Ada Lovelace", email="ada@example.org", address=["12 St James's Square", "London"]),
        lines=[
            Line(sku="tea-green", name="Green tea, 100 g", quantity=2, unit_price=cents, tax_basis_points=700),
            Line(sku="pot-small", name="Small teapot", quantity=1, unit_price=2900, tax_basis_points=1900),
        ],
        total=2 * cents + 2900,
        confirmed_at=datetime.now(UTC),
    )
    return events.new(TYPE, source="orders", subject=str(data.order_id), data=data)


def values(count: int) -> Iterator[tuple[str, bytes]]:
    """Key and bytes."""
    for number in range(count):
        event = confirmed(number)
        yield event.subject, events.encode(event, CONTRACTS)


def publish(kafka: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for key, value in values(count):
        producer.produce(topic, value, key)
        producer.poll(0)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} of {count} events did not reach {topic}")
