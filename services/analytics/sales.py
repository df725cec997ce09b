"""The routes of Analytics: figures under /v1, and the page that shows them. Nobody's name is in them: no token needed.

does    answers what was sold: by day, by minute, by product, and all together
reads   the sales figures
writes  nothing
next    templates/sales.html
"""

from apiflask import APIBlueprint
from flask import Response, render_template, url_for
from sqlalchemy import Engine

from services.analytics import figures
from services.analytics.sampler import Sampler
from services.analytics.shapes import (
    DailyQuery,
    DailySales,
    Minutes,
    MinutesQuery,
    ProductsPage,
    ProductsQuery,
    Summary,
)


def blueprint(engine: Engine) -> APIBlueprint:
    sales = APIBlueprint("sales", __name__, tag="Sales")
    sampler = Sampler(lambda: figures.summary(engine))

    @sales.get("/")
    @sales.doc(hide=True)
    def page() -> str:
        return render_template("sales.html")

    @sales.get("/v1/sales/daily")
    @sales.input(DailyQuery, location="query", arg_name="query")
    @sales.output(DailySales)
    def daily(query: DailyQuery) -> DailySales:
        """Orders and revenue per day and currency"""
        with engine.connect() as connection:
            days = figures.days(connection, query.since, query.until, query.currency)
        return DailySales(since=query.since, until=query.until, days=days)

    @sales.get("/v1/sales/minutes")
    @sales.input(MinutesQuery, location="query", arg_name="query")
    @sales.output(Minutes)
    def minutes(query: MinutesQuery) -> Minutes:
        """Orders per minute"""
        with engine.connect() as connection:
            return Minutes(minutes=figures.minutes(connection, query.last))

    @sales.get("/v1/sales/products")
    @sales.input(ProductsQuery, location="query", arg_name="query")
    @sales.output(ProductsPage)
    def products(query: ProductsQuery) -> ProductsPage:
        """Units and revenue per product, the best first"""
        with engine.connect() as connection:
            items = figures.products(connection, query.currency, query.limit, query.offset)
            total = figures.count_products(connection, query.currency)
        following = query.offset + query.limit
        arguments = query.model_dump(exclude_none=True) | {"offset": following}
        more = url_for("sales.products", **arguments) if following < total else None
        return ProductsPage(items=items, total=total, next=more)

    @sales.get("/v1/summary")
    @sales.output(Summary)
    def summary() -> Summary:
        """All of the sales page, of one moment at most a second ago"""
        return sampler.latest()

    @sales.after_request
    def fresh(response: Response) -> Response:
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return sales
