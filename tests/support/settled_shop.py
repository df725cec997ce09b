"""A shop in which everything has arrived, written straight into the places: what the auditor should find in order.

As data, not through the services: a test of the auditor must not depend on what the auditor judges.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import orjson
import psycopg
from confluent_kafka import Producer

from shared.contracts import CONTRACTS
from shared.contracts.orders_confirmed import OrderConfirmed
from shared.messaging import event as events
from shared.messaging import retention
from tests.integration.test_migrations import migrate
from tests.support import streams

PARTITIONS = 3
DATABASES = ("orders", "billing", "analytics")


@dataclass
class Settled:
    """One order, everywhere."""

    n: int
    order: OrderConfirmed
    event_id: UUID
    value: bytes
    invoice_id: UUID

    @property
    def place(self) -> tuple[int, int]:
        return self.n % PARTITIONS, self.n // PARTITIONS

    @property
    def minute(self) -> datetime:
        return self.order.confirmed_at.replace(second=0, microsecond=0)

    @property
    def tax(self) -> int:
        return sum((x.quantity * x.unit_price * x.tax_basis_points + 5000) // 10000 for x in self.order.lines)


def orders(count: int) -> Iterator[Settled]:
    for n in range(count):
        event = streams.order(cents=100 + n % 900, sku=f"tea-{n % 7}")
        yield Settled(n, event.data, event.id, events.encode(event, CONTRACTS), uuid4())


def prepare(urls: dict[str, str]) -> None:
    for name in DATABASES:
        migrate(name, urls[name])
        with psycopg.connect(urls[name], autocommit=True) as connection:
            retention.create_partitions(connection, "outbox" if name == "orders" else "inbox", ahead_days=2)


def write(
    urls: dict[str, str], bootstrap: str, topic: str, mails: Path, settled: Sequence[Settled], pdf: bytes
) -> None:
    _write_orders(urls["orders"], settled)
    _write_billing(urls["billing"], settled, pdf)
    _write_analytics(urls["analytics"], settled)
    _publish(bootstrap, topic, settled)
    mails.mkdir(parents=True, exist_ok=True)
    for s in settled:
        content = f"Message-ID: <order-{s.order.order_id}@shop.invalid>\nTo: {s.order.customer.email}\n\nThank you.\n"
        (mails / f"{uuid4().hex}.eml").write_text(content)


def _write_orders(url: str, settled: Sequence[Settled]) -> None:
    with psycopg.connect(url) as connection:
        columns = "id, status, version, currency, customer_name, customer_email, customer_address, total, confirmed_at"
        _copy(connection, f"orders ({columns})", (
            (s.order.order_id, "confirmed", 2, s.order.currency, s.order.customer.name, s.order.customer.email,
             s.order.customer.address, s.order.total, s.order.confirmed_at) for s in settled))  # fmt: skip
        columns = "order_id, sku, position, name, quantity, unit_price, tax_basis_points"
        _copy(connection, f"order_lines ({columns})", (
            (s.order.order_id, x.sku, p, x.name, x.quantity, x.unit_price, x.tax_basis_points)
            for s in settled for p, x in enumerate(s.order.lines, 1)))  # fmt: skip
        _copy(connection, "outbox (event_id, topic, key, value, headers, published_at)", (
            (s.event_id, "orders.confirmed", str(s.order.order_id), s.value, "{}", s.order.confirmed_at)
            for s in settled))  # fmt: skip
        _copy(connection, "idempotency_keys (scope, key, fingerprint, status, answer)", (
            ("POST /v1/orders", f"key-{s.n}", bytes(32), 201, _answer(s)) for s in settled))  # fmt: skip


def _answer(s: Settled) -> str:
    return orjson.dumps({"id": str(s.order.order_id), **s.order.model_dump(mode="json")}).decode()


def _write_billing(url: str, settled: Sequence[Settled], pdf: bytes) -> None:
    with psycopg.connect(url) as connection:
        taken = Counter(s.place[0] for s in settled)
        _copy(connection, "invoice_series (series, next_number)", ((p, 1 + count) for p, count in taken.items()))
        columns = "id, series, number, order_id, event_id, currency, customer, lines, net, tax, gross, state, sent_at"
        _copy(connection, f"invoices ({columns})", (
            (s.invoice_id, s.place[0], s.place[1] + 1, s.order.order_id, s.event_id, s.order.currency,
             s.order.customer.model_dump_json(), orjson.dumps([x.model_dump() for x in s.order.lines]).decode(),
             s.order.total, s.tax, s.order.total + s.tax, "sent", s.order.confirmed_at) for s in settled))  # fmt: skip
        digest = hashlib.sha256(pdf).digest()
        _copy(connection, "invoice_pdfs (invoice_id, content, sha256)", ((s.invoice_id, pdf, digest) for s in settled))
        _write_inbox(connection, "billing", settled)


def _write_analytics(url: str, settled: Sequence[Settled]) -> None:
    days, minutes, products = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    per_minute = Counter(s.minute for s in settled)
    for s in settled:
        days[s.order.confirmed_at.date(), s.order.currency] += s.order.total
        minutes[s.minute, s.order.currency] += s.order.total
        for line in s.order.lines:
            products[line.sku, s.order.currency] += line.quantity * line.unit_price
    counts = Counter(s.order.confirmed_at.date() for s in settled)
    units = Counter(line.sku for s in settled for line in s.order.lines for _ in range(line.quantity))
    with psycopg.connect(url) as connection:
        _copy(connection, "counted_orders (order_id, event_id)", ((s.order.order_id, s.event_id) for s in settled))
        _copy(connection, "daily_sales", ((day, currency, counts[day], sum_) for (day, currency), sum_ in days.items()))
        _copy(connection, "minute_sales", ((m, currency, per_minute[m], x) for (m, currency), x in minutes.items()))
        _copy(connection, "product_sales", ((sku, c, units[sku], sum_) for (sku, c), sum_ in products.items()))
        _write_inbox(connection, "analytics", settled)


def _write_inbox(connection: psycopg.Connection, consumer: str, settled: Sequence[Settled]) -> None:
    columns = "consumer, event_id, payload_hash, deliveries, from_topic, from_partition, from_offset"
    _copy(connection, f"inbox ({columns})", (
        (consumer, s.event_id, hashlib.sha256(s.value).digest(), 1, "orders.confirmed", *s.place)
        for s in settled))  # fmt: skip


def _publish(bootstrap: str, topic: str, settled: Sequence[Settled]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
    for s in settled:
        producer.produce(topic, s.value, str(s.order.order_id), partition=s.place[0])
        while len(producer) > 50_000:
            producer.poll(0.1)
    assert producer.flush(60) == 0


def _copy(connection: psycopg.Connection, target: str, rows: Iterator[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {target} FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)
