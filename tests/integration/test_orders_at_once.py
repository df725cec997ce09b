"""Many requests at the same moment: one order, one event."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import psycopg
import psycopg.sql
import pytest
from flask.testing import FlaskClient

from services.orders import pricing
from tests.support.orders import place, rows, wanted
from tests.support.wait import until


def at_once(count: int, ask: Callable[[int], Any]) -> list[Any]:
    gate = threading.Barrier(count)

    def wait_and_ask(n: int) -> Any:
        gate.wait()
        return ask(n)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(wait_and_ask, range(count)))


def test_one_key_from_many_threads_places_one_order(shop: FlaskClient, orders_url: str) -> None:
    def ask(_n: int) -> Any:
        return shop.application.test_client().post("/v1/orders", json=wanted(), headers={"Idempotency-Key": "cart"})

    answers = at_once(20, ask)
    assert [answer.status_code for answer in answers] == [201] * 20
    assert len({answer.data for answer in answers}) == 1
    assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1
    assert len(rows(orders_url, "SELECT FROM orders")) == 1
    assert len(rows(orders_url, "SELECT FROM order_lines")) == 2


def test_confirming_from_many_threads_gives_one_event(shop: FlaskClient, orders_url: str) -> None:
    path = f"/v1/orders/{place(shop)['id']}/confirm"
    answers = at_once(20, lambda _n: shop.application.test_client().post(path))
    assert [answer.status_code for answer in answers] == [200] * 20
    assert len({answer.data for answer in answers}) == 1
    assert len(rows(orders_url, "SELECT FROM outbox")) == 1


def test_changing_one_version_from_many_threads_succeeds_once(shop: FlaskClient) -> None:
    path = f"/v1/orders/{place(shop)['id']}/lines"

    def ask(n: int) -> Any:
        lines = {"lines": [{"sku": "cup", "quantity": n + 1}]}
        return shop.application.test_client().put(path, json=lines, headers={"If-Match": '"1"'})

    assert sorted(answer.status_code for answer in at_once(10, ask)) == [200] + [412] * 9


def test_a_confirmation_that_waited_for_a_change_confirms_what_was_changed(shop: FlaskClient, orders_url: str) -> None:
    """New total and new lines, in the answer and in the event: not the total of now beside the lines of before."""
    order = place(shop)
    lines, held, go_on = {"lines": [{"sku": "cup", "quantity": 2}]}, threading.Event(), threading.Event()

    def hold(_refused: object, _order: object) -> None:
        held.set()
        assert go_on.wait(20)

    with ThreadPoolExecutor(2) as pool, pytest.MonkeyPatch.context() as patched:
        patched.setattr(pricing, "refuse_unpriced", hold)
        changing = pool.submit(
            shop.application.test_client().put, f"/v1/orders/{order['id']}/lines", json=lines, headers={"If-Match": "*"}
        )
        assert held.wait(20)
        confirming = pool.submit(shop.application.test_client().post, f"/v1/orders/{order['id']}/confirm")
        until(lambda: _somebody_waits(orders_url), "the confirmation waits for the change")
        go_on.set()
        changed, confirmed = changing.result(20).get_json(), confirming.result(20).get_json()
    [(value,)] = rows(orders_url, "SELECT value FROM outbox")
    told = orjson.loads(value)["data"]
    assert [line["sku"] for line in confirmed["lines"]] == [line["sku"] for line in told["lines"]] == ["cup"]
    assert changed["total"] == confirmed["total"] == told["total"]
    assert changed["total"] == sum(line["quantity"] * line["unit_price"] for line in told["lines"])


def test_a_transaction_that_slept_too_long_is_answered_503_and_may_be_tried_again(
    shop: FlaskClient, orders_url: str
) -> None:
    with psycopg.connect(orders_url, autocommit=True) as connection:
        database = psycopg.sql.Identifier(connection.info.dbname)
        limit = psycopg.sql.SQL("ALTER DATABASE {} SET idle_in_transaction_session_timeout = '200ms'")
        connection.execute(limit.format(database))
    path = f"/v1/orders/{place(shop)['id']}/confirm"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("services.orders.confirm_order.failpoints.hit", lambda _name: time.sleep(0.6))
        assert shop.post(path).status_code == 503
    assert shop.post(path).status_code == 200
    assert len(rows(orders_url, "SELECT FROM outbox")) == 1


def test_a_key_whose_first_request_is_still_at_work_is_answered_409_after_two_seconds(
    shop: FlaskClient, orders_url: str
) -> None:
    claim = "INSERT INTO idempotency_keys (scope, key, fingerprint) VALUES ('POST /v1/orders', 'cart', sha256(''))"
    with psycopg.connect(orders_url) as other:
        other.execute(claim)
        started = time.monotonic()
        answer = shop.post("/v1/orders", json=wanted(), headers={"Idempotency-Key": "cart"})
        waited = time.monotonic() - started
        other.rollback()
    assert (answer.status_code, answer.headers["Retry-After"]) == (409, "1")
    assert 1.9 < waited < 10
    place(shop, key="cart")


def test_a_key_whose_first_request_fails_passes_to_the_one_that_waits(shop: FlaskClient, orders_url: str) -> None:
    claim = "INSERT INTO idempotency_keys (scope, key, fingerprint) VALUES ('POST /v1/orders', 'cart', sha256(''))"
    with psycopg.connect(orders_url) as other, ThreadPoolExecutor(1) as pool:
        other.execute(claim)
        waiting = pool.submit(place, shop, "cart")
        until(lambda: _somebody_waits(orders_url), "the second request waits for the first")
        other.rollback()
        assert waiting.result(10)["status"] == "draft"


def _somebody_waits(url: str) -> bool:
    return bool(rows(url, "SELECT FROM pg_locks WHERE NOT granted"))
