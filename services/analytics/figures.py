"""The sales figures, read.

does    one statement per question
reads   daily_sales, minute_sales, product_sales, product_names
writes  nothing
next    sales.py
"""

from datetime import UTC, date, timedelta
from typing import Any

from sqlalchemy import Connection, Engine

from services.analytics.shapes import CurrencyTotals, DaySales, MinuteSales, ProductSales, Summary

DAYS = """
SELECT day, currency, orders, revenue FROM daily_sales
 WHERE day BETWEEN %(since)s AND %(until)s AND (%(currency)s::text IS NULL OR currency = %(currency)s)
 ORDER BY day, currency
"""
MINUTES = """
SELECT m.minute, coalesce(sum(s.orders), 0)::bigint AS orders,
       coalesce(jsonb_object_agg(s.currency, s.revenue) FILTER (WHERE s.currency IS NOT NULL), '{}') AS revenue
  FROM (SELECT date_trunc('minute', now()) - age * interval '1 minute' AS minute
          FROM generate_series(0, %(last)s - 1) AS age) AS m
  LEFT JOIN minute_sales s ON s.minute = m.minute
 GROUP BY m.minute ORDER BY m.minute
"""
PRODUCTS = """
SELECT sku, coalesce(name, sku) AS name, currency, units, revenue
  FROM product_sales LEFT JOIN product_names USING (sku)
 WHERE %(currency)s::text IS NULL OR currency = %(currency)s
 ORDER BY currency, revenue DESC, sku LIMIT %(limit)s OFFSET %(offset)s
"""
COUNT_PRODUCTS = "SELECT count(*) FROM product_sales WHERE %(currency)s::text IS NULL OR currency = %(currency)s"
TOTALS = """
SELECT currency, sum(orders)::bigint AS orders, sum(revenue)::bigint AS revenue,
       coalesce(sum(orders) FILTER (WHERE day = %(today)s), 0)::bigint AS orders_today,
       coalesce(sum(revenue) FILTER (WHERE day = %(today)s), 0)::bigint AS revenue_today
  FROM daily_sales GROUP BY currency ORDER BY sum(orders) DESC, currency
"""


def days(connection: Connection, since: date, until: date, currency: str | None = None) -> list[DaySales]:
    wanted = {"since": since, "until": until, "currency": currency}
    return [DaySales.model_validate(row) for row in _rows(connection, DAYS, wanted)]


def minutes(connection: Connection, last: int) -> list[MinuteSales]:
    return [MinuteSales.model_validate(row) for row in _rows(connection, MINUTES, {"last": last})]


def products(connection: Connection, currency: str | None, limit: int, offset: int = 0) -> list[ProductSales]:
    wanted = {"currency": currency, "limit": limit, "offset": offset}
    return [ProductSales.model_validate(row) for row in _rows(connection, PRODUCTS, wanted)]


def count_products(connection: Connection, currency: str | None) -> int:
    return int(connection.exec_driver_sql(COUNT_PRODUCTS, {"currency": currency}).scalar_one())


def summary(engine: Engine) -> Summary:
    """REPEATABLE READ: all statements see one moment, so that no order is in one figure and not in the next."""
    with engine.connect() as connection:
        connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        now = connection.exec_driver_sql("SELECT now()").scalar_one().astimezone(UTC)
        totals = [CurrencyTotals.model_validate(row) for row in _rows(connection, TOTALS, {"today": now.date()})]
        return Summary(
            as_of=now,
            totals=totals,
            minutes=minutes(connection, 60),
            days=days(connection, now.date() - timedelta(days=29), now.date()),
            products=[product for total in totals for product in products(connection, total.currency, 10)],
        )


def _rows(connection: Connection, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.exec_driver_sql(statement, parameters).mappings()]
