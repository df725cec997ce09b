"""A topic, a database with the library's tables, and events to put into them."""

import random
import string
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from shared.contracts import CONTRACTS
from shared.contracts.orders_confirmed import Customer, Line, OrderConfirmed
from shared.messaging import event as events
from shared.messaging import records
from shared.messaging.event import Event

SCHEMA = Path(__file__).parents[2] / "shared" / "messaging" / "schema"


def install(url: str, *more_sql: str, days_back: int = 3, days_ahead: int = 2) -> None:
    """The library's tables as the migrations make them, and partitions around today."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name in ("inbox.sql", "tasks.sql"):
            connection.execute((SCHEMA / name).read_bytes())
        for sql in more_sql:
            connection.execute(sql.encode())
    for day in range(-days_back, days_ahead + 1):
        create_partition(url, datetime.now(UTC) + timedelta(days=day))


def create_partition(url: str, moment: datetime) -> None:
    first = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"CREATE TABLE inbox_{first:%Y%m%d} PARTITION OF inbox "
            f"FOR VALUES FROM ('{smallest_id(first)}') TO ('{smallest_id(first + timedelta(days=1))}')".encode()
        )


def smallest_id(moment: datetime) -> UUID:
    return UUID(int=int(moment.timestamp() * 1000) << 80)


def id_at(moment: datetime) -> UUID:
    noise = random.getrandbits(74)
    return UUID(
        int=int(moment.timestamp() * 1000) << 80 | 7 << 76 | (noise >> 62) << 64 | 2 << 62 | noise & ((1 << 62) - 1)
    )


def order(order_id: UUID | None = None, *, at: datetime | None = None, cents: int = 1250, sku: str = "tea") -> Event:
    data = OrderConfirmed(
        order_id=order_id or uuid4(),
        currency="EUR",
        customer=Customer(name="Ada", email="ada@example.org", address=["1 Street"]),
        lines=[Line(sku=sku, name="Tea", quantity=1, unit_price=cents, tax_basis_points=1900)],
        total=cents,
        confirmed_at=datetime.now(UTC),
    )
    made = events.new("orders.confirmed", source="orders", subject=str(data.order_id), data=data)
    return made if at is None else with_id(made, id_at(at))


def with_id(event: Event, event_id: UUID) -> Event:
    return Event(
        event_id, event.type, event.source, event.subject, event.time, event.dataversion, event.data, event.traceparent
    )


def encoded(event: Event) -> bytes:
    return events.encode(event, CONTRACTS)


def received(event: Event, *, offset: int = 0, partition: int = 0) -> records.Received:
    value = encoded(event)
    return records.Received(
        "topic-id", "orders", partition, offset, event.subject.encode(), value, records.digest(value), 0,
        events.decode(value, CONTRACTS),
    )  # fmt: skip


def name(prefix: str) -> str:
    """Letters only: it becomes a consumer's name, and with it part of the names of failpoints."""
    chance = random.SystemRandom()  # not the common one, which Hypothesis sets back
    return f"{prefix}_{''.join(chance.choices(string.ascii_lowercase, k=10))}"


def create_topic(kafka: str, partitions: int = 2, **config: str) -> str:
    topic = name("orders")
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(20)
    return topic


def publish(kafka: str, topic: str, values: Sequence[Event | bytes | None], partition: int | None = None) -> None:
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "linger.ms": 5})
    for value in values:
        key = value.subject if isinstance(value, Event) else "no-key"
        bytes_or_none = encoded(value) if isinstance(value, Event) else value
        producer.produce(topic, bytes_or_none, key, partition=-1 if partition is None else partition)
        producer.poll(0)
    assert producer.flush(20) == 0


def eventually(check: Callable[[], bool], what: str, within_s: float = 90.0, every_s: float = 0.05) -> None:
    deadline = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        time.sleep(every_s)


def scalar(url: str, sql: str, *parameters: object) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(sql.encode(), parameters).fetchone()
    return 0 if row is None else int(row[0] or 0)
