"""The services' own handlers on the tables that their migrations make."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from services.analytics.projections import HANDLERS as PROJECTIONS
from services.analytics.projections import AlreadyCounted
from services.billing.handlers import HANDLERS, AlreadyInvoiced
from shared.messaging import handlers
from shared.messaging.records import Received
from shared.runtime import database
from tests.integration.test_migrations import migrate
from tests.support import streams
from tests.support.sales import NOW, sold


def apply(engine: Engine, found: handlers.Handlers, received: Sequence[Received]) -> None:
    with Session(engine) as session, session.begin():
        handlers.run(session, received, found)


def test_invoices_are_numbered_without_gaps_in_each_series_even_after_a_rollback(database_url: str) -> None:
    migrate("billing", database_url)
    engine = database.engine(database_url, "tests")
    first = [streams.received(streams.order(), offset=n, partition=n % 2) for n in range(6)]
    apply(engine, HANDLERS, first)
    with pytest.raises(AlreadyInvoiced):
        apply(engine, HANDLERS, [streams.received(streams.order()), first[0]])
    apply(engine, HANDLERS, [streams.received(streams.order())])
    with psycopg.connect(database_url) as connection:
        numbers = connection.execute("SELECT series, number FROM invoices ORDER BY series, number").fetchall()
        asked = connection.execute("SELECT count(*) FROM tasks WHERE kind = 'invoice.render'").fetchone()
    assert numbers == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (1, 2), (1, 3)]
    assert asked == (7,)
    engine.dispose()


def test_sales_are_added_up_per_day_and_product_and_an_order_counts_once(database_url: str) -> None:
    migrate("analytics", database_url)
    engine = database.engine(database_url, "tests")
    order_id = uuid4()
    apply(engine, PROJECTIONS, [streams.received(streams.order(order_id)), streams.received(streams.order())])
    with pytest.raises(AlreadyCounted):
        apply(engine, PROJECTIONS, [streams.received(streams.order(order_id))])
    apply(engine, PROJECTIONS, [streams.received(streams.order(sku="coffee", cents=300))])
    with psycopg.connect(database_url) as connection:
        days = connection.execute("SELECT currency, orders, revenue FROM daily_sales").fetchall()
        minutes = connection.execute(
            "SELECT currency, sum(orders), sum(revenue) FROM minute_sales GROUP BY 1"
        ).fetchall()
        products = connection.execute("SELECT sku, units, revenue FROM product_sales ORDER BY sku").fetchall()
    assert days == minutes == [("EUR", 3, 2800)]
    assert products == [("coffee", 1, 300), ("tea", 2, 2500)]
    engine.dispose()


def test_batches_that_meet_in_the_same_products_wait_for_each_other_and_never_deadlock(database_url: str) -> None:
    migrate("analytics", database_url)
    engine = database.engine(database_url, "tests")
    skus = [f"sku-{n}" for n in range(40)]

    def work(turn: int) -> None:
        """Each on a day of its own: on the same day, the day's row would make them take turns."""
        for _ in range(10):
            some = skus[::-1] if turn % 2 else skus
            apply(engine, PROJECTIONS, [sold(NOW - timedelta(days=turn), sku=sku) for sku in some])

    with ThreadPoolExecutor(4) as consumers:
        list(consumers.map(work, range(4)))
    with psycopg.connect(database_url) as connection:
        units = connection.execute("SELECT count(*), min(units), max(units) FROM product_sales").fetchone()
    assert units == (40, 40, 40)
    engine.dispose()
