"""What Analytics does with an event: it counts.

does    adds all fresh orders of a batch to the sales figures, an upsert per table
reads   nothing
writes  counted_orders, daily_sales, minute_sales, product_sales, product_names: in this order, each sorted, so that two
        batches cannot deadlock
next    figures.py
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from shared.messaging.errors import Permanent
from shared.messaging.handlers import Handlers
from shared.messaging.records import Received

COUNT_ORDERS = """
INSERT INTO counted_orders (order_id, event_id)
SELECT * FROM unnest(%b::uuid[], %b::uuid[]) AS o (order_id, event_id) ORDER BY order_id
ON CONFLICT (order_id) DO NOTHING
"""
ADD_DAYS = """
INSERT INTO daily_sales AS s (day, currency, orders, revenue)
SELECT * FROM unnest(%b::date[], %b::text[], %b::bigint[], %b::bigint[])
ON CONFLICT (day, currency) DO UPDATE SET orders = s.orders + excluded.orders, revenue = s.revenue + excluded.revenue
"""
ADD_MINUTES = """
INSERT INTO minute_sales AS s (minute, currency, orders, revenue)
SELECT * FROM unnest(%b::timestamptz[], %b::text[], %b::bigint[], %b::bigint[])
ON CONFLICT (minute, currency) DO UPDATE SET orders = s.orders + excluded.orders, revenue = s.revenue + excluded.revenue
"""
ADD_PRODUCTS = """
INSERT INTO product_sales AS s (sku, currency, units, revenue)
SELECT * FROM unnest(%b::text[], %b::text[], %b::bigint[], %b::bigint[])
ON CONFLICT (sku, currency) DO UPDATE SET units = s.units + excluded.units, revenue = s.revenue + excluded.revenue
"""
NAME_PRODUCTS = """
INSERT INTO product_names AS n (sku, named_at, name)
SELECT * FROM unnest(%b::text[], %b::timestamptz[], %b::text[])
ON CONFLICT (sku) DO UPDATE SET name = excluded.name, named_at = excluded.named_at
 WHERE (excluded.named_at, excluded.name) > (n.named_at, n.name)
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
    sums = _sums(received)
    connection.exec_driver_sql(ADD_DAYS, _columns(sums.days))
    connection.exec_driver_sql(ADD_MINUTES, _columns(sums.minutes))
    connection.exec_driver_sql(ADD_PRODUCTS, _columns(sums.products))
    names = sorted(sums.names.items())
    connection.exec_driver_sql(
        NAME_PRODUCTS, ([sku for sku, _ in names], [at for _, (at, _) in names], [name for _, (_, name) in names])
    )


@dataclass
class _Tally:
    """How many (orders, units) and how much money, by a key whose last part is the currency."""

    number: Counter[tuple[Any, str]] = field(default_factory=Counter)
    money: Counter[tuple[Any, str]] = field(default_factory=Counter)

    def add(self, key: tuple[Any, str], number: int, money: int) -> None:
        self.number[key] += number
        self.money[key] += money


@dataclass
class _Sums:
    days: _Tally = field(default_factory=_Tally)
    minutes: _Tally = field(default_factory=_Tally)
    products: _Tally = field(default_factory=_Tally)
    names: dict[str, tuple[datetime, str]] = field(default_factory=dict)


def _sums(received: Sequence[Received]) -> _Sums:
    sums = _Sums()
    for order in (r.event.data for r in received):
        confirmed_at = order.confirmed_at.astimezone(UTC)
        sums.days.add((confirmed_at.date(), order.currency), 1, order.total)
        sums.minutes.add((confirmed_at.replace(second=0, microsecond=0), order.currency), 1, order.total)
        for line in order.lines:
            sums.products.add((line.sku, order.currency), line.quantity, line.quantity * line.unit_price)
            named = (confirmed_at, line.name)
            sums.names[line.sku] = max(named, sums.names.get(line.sku, named))
    return sums


def _columns(tally: _Tally) -> tuple[list[Any], ...]:
    keys = sorted(tally.number)
    return (
        [key for key, _ in keys],
        [currency for _, currency in keys],
        [tally.number[key] for key in keys],
        [tally.money[key] for key in keys],
    )


HANDLERS: Handlers = {"orders.confirmed": count}
