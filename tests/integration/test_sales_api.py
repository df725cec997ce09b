"""The API of Analytics on a real database: what was sold, in figures."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import schemathesis
from apiflask import APIFlask
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from services.analytics import sales
from services.analytics.sampler import Sampler
from shared.runtime import database, web
from tests.integration.test_migrations import migrate
from tests.support.sales import NOW, sell


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    migrate("analytics", database_url)
    engine = database.engine(database_url, "tests")
    yield engine
    engine.dispose()


@pytest.fixture
def app(engine: Engine) -> APIFlask:
    return app_on(engine)


def app_on(engine: Engine) -> APIFlask:
    app = web.create_app("services.analytics.api", "Analytics")
    app.register_blueprint(sales.blueprint(engine))
    return app


@pytest.fixture
def client(app: APIFlask) -> FlaskClient:
    return app.test_client()


def ask(client: FlaskClient, address: str) -> Any:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    return answer.json


def test_without_orders_every_figure_is_empty_and_no_answer_an_error(client: FlaskClient) -> None:
    assert ask(client, "/v1/sales/daily")["days"] == []
    assert ask(client, "/v1/sales/products") == {"items": [], "total": 0, "next": None}
    minutes = ask(client, "/v1/sales/minutes")["minutes"]
    assert [minute["orders"] for minute in minutes] == [0] * 60
    summary = ask(client, "/v1/summary")
    assert (summary["totals"], summary["days"], summary["products"]) == ([], [], [])


def test_days_are_those_asked_for_both_ends_included_and_of_one_currency(engine: Engine, client: FlaskClient) -> None:
    for back in range(4):
        sell(engine, at=NOW - timedelta(days=back), cents=100 * (back + 1))
    sell(engine, at=NOW - timedelta(days=1), currency="USD", cents=7)
    since, until = (NOW - timedelta(days=2)).date(), (NOW - timedelta(days=1)).date()
    answer = ask(client, f"/v1/sales/daily?from={since}&to={until}")
    assert (answer["from"], answer["to"]) == (str(since), str(until))
    assert [(day["day"], day["currency"], day["revenue"]) for day in answer["days"]] == [
        (str(since), "EUR", 300),
        (str(until), "EUR", 200),
        (str(until), "USD", 7),
    ]
    only = ask(client, f"/v1/sales/daily?from={since}&to={until}&currency=USD")["days"]
    assert [day["revenue"] for day in only] == [7]


def test_a_day_ends_at_midnight_utc_wherever_the_order_came_from(engine: Engine, client: FlaskClient) -> None:
    sell(engine, at=datetime.fromisoformat("2026-03-01T00:30:00+02:00"), cents=5)
    assert ask(client, "/v1/sales/daily?from=2026-02-28&to=2026-02-28")["days"] == [
        {"day": "2026-02-28", "currency": "EUR", "orders": 1, "revenue": 5}
    ]


def test_orders_per_minute_cover_the_span_and_count_every_currency(engine: Engine, client: FlaskClient) -> None:
    now = datetime.now(UTC)
    sell(engine, at=now, cents=100)
    sell(engine, at=now, currency="USD", cents=200)
    sell(engine, at=now - timedelta(minutes=9), cents=300, orders=3)
    sell(engine, at=now - timedelta(hours=3), cents=1)
    minutes = ask(client, "/v1/sales/minutes?last=60")["minutes"]
    assert len(minutes) == 60
    assert sum(minute["orders"] for minute in minutes) == 5
    assert {currency for minute in minutes for currency in minute["revenue"]} == {"EUR", "USD"}
    assert sum(minute["revenue"].get("EUR", 0) for minute in minutes) == 1000
    assert datetime.fromisoformat(minutes[-1]["minute"]) - datetime.fromisoformat(minutes[0]["minute"]) == timedelta(
        minutes=59
    )


def test_products_come_by_revenue_page_by_page_with_the_name_confirmed_last(
    engine: Engine, client: FlaskClient
) -> None:
    for n in range(5):
        sell(engine, sku=f"sku-{n}", cents=100 + n)
    sell(engine, sku="sku-0", name="New name", at=NOW + timedelta(seconds=9), cents=1000)
    sell(engine, sku="sku-0", name="Old name", at=NOW - timedelta(days=9), cents=1000)
    found: list[Any] = []
    address = "/v1/sales/products?limit=2&currency=EUR"
    while address:
        page = ask(client, address)
        assert page["total"] == 5
        found, address = found + page["items"], page["next"]
    assert [item["sku"] for item in found] == ["sku-0", "sku-4", "sku-3", "sku-2", "sku-1"]
    assert found[0] == {"sku": "sku-0", "name": "New name", "currency": "EUR", "units": 3, "revenue": 2100}


def test_the_parts_of_the_summary_add_up_to_each_other(engine: Engine, client: FlaskClient) -> None:
    for currency in ("EUR", "EUR", "JPY"):
        sell(engine, currency=currency, cents=250, at=datetime.now(UTC))
    summary = ask(client, "/v1/summary")
    assert [(total["currency"], total["orders"], total["revenue"]) for total in summary["totals"]] == [
        ("EUR", 2, 500),
        ("JPY", 1, 250),
    ]
    for total in summary["totals"]:
        of_days = [day["revenue"] for day in summary["days"] if day["currency"] == total["currency"]]
        of_products = [each["revenue"] for each in summary["products"] if each["currency"] == total["currency"]]
        assert sum(of_days) == sum(of_products) == total["revenue"] == total["revenue_today"]
    assert sum(minute["orders"] for minute in summary["minutes"]) == 3


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("/v1/sales/daily?from=yesterday", "from"),
        ("/v1/sales/daily?to=2026-02-30", "to"),
        ("/v1/sales/daily?from=2026-02-02&to=2026-02-01", "_schema"),
        ("/v1/sales/daily?from=0001-01-01&to=9999-12-31", "_schema"),
        ("/v1/sales/daily?currency=eur", "currency"),
        ("/v1/sales/daily?currency=EUR%00", "currency"),
        ("/v1/sales/products?limit=0", "limit"),
        ("/v1/sales/products?limit=101", "limit"),
        ("/v1/sales/products?offset=-1", "offset"),
        ("/v1/sales/minutes?last=0", "last"),
        ("/v1/sales/minutes?last=2881", "last"),
        ("/v1/sales/minutes?last=many", "last"),
    ],
)
def test_a_bad_parameter_is_named_in_a_problem_document_before_the_database_is_asked(address: str, field: str) -> None:
    answer = app_on(database.engine("postgresql://nobody@127.0.0.1:1/nowhere", "tests")).test_client().get(address)
    assert (answer.status_code, answer.content_type) == (422, "application/problem+json")
    assert field in [error["field"] for error in answer.get_json(force=True)["errors"]]


def test_the_page_loads_nothing_from_elsewhere_and_needs_no_exception_from_the_policy(client: FlaskClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "://" not in page.text
    assert "style=" not in page.text
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
    assert "unsafe" not in page.headers["Content-Security-Policy"]


def test_no_request_that_the_description_allows_makes_the_server_fail(engine: Engine, app: APIFlask) -> None:
    sell(engine, orders=3)
    schema = schemathesis.openapi.from_wsgi("/openapi.json", app)
    paths = ["/v1/sales/daily", "/v1/sales/minutes", "/v1/sales/products", "/v1/summary"]
    assert sorted(schema) == paths

    @given(data=st.data())
    @settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def fuzz(data: st.DataObject) -> None:
        case = data.draw(schema[data.draw(st.sampled_from(paths))]["GET"].as_strategy())
        response = case.call()
        assert response.status_code in (200, 422), f"{case.as_curl_command()}: {response.status_code}"
        if response.status_code == 200:
            case.validate_response(response)

    fuzz()


def test_while_the_database_is_away_the_answer_is_a_problem_that_says_to_try_again() -> None:
    client = app_on(database.engine("postgresql://nobody@127.0.0.1:1/nowhere", "tests")).test_client()
    for address in ("/v1/summary", "/v1/sales/daily", "/v1/sales/minutes", "/v1/sales/products"):
        answer = client.get(address)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_a_thousand_looks_at_the_page_are_one_look_at_the_database() -> None:
    looks: list[int] = []

    def look() -> int:
        looks.append(len(looks))
        return looks[-1]

    sampler = Sampler(look, max_age_s=600)
    with ThreadPoolExecutor(20) as browsers:
        assert set(browsers.map(lambda _: sampler.latest(), range(1000))) == {0}
    always = Sampler(look, max_age_s=-1)
    assert always.latest() < always.latest()


def test_a_database_that_hangs_is_asked_once_for_all_who_wait() -> None:
    tries: list[int] = []

    def hang() -> int:
        tries.append(1)
        time.sleep(0.05)
        raise TimeoutError

    def failed(sampler: Sampler[int]) -> bool:
        with pytest.raises(TimeoutError):
            sampler.latest()
        return True

    sampler = Sampler(hang, max_age_s=600)
    with ThreadPoolExecutor(20) as browsers:
        assert all(browsers.map(lambda _: failed(sampler), range(100)))
    assert len(tries) == 1
