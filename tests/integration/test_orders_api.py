"""The HTTP API of Orders on a real database: what it promises to clients."""

from typing import Any
from uuid import uuid4

import orjson
import psycopg
import pytest
from flask.testing import FlaskClient

from shared.contracts import CONTRACTS
from shared.messaging import event
from tests.support import orders
from tests.support.orders import OPERATOR, place, rows, wanted


def test_the_catalogue_has_a_price_in_every_currency_and_a_picture(shop: FlaskClient) -> None:
    products = shop.get("/v1/products").get_json()["items"]
    assert len(products) == 12
    for product in products:
        assert set(product["prices"]) == {"EUR", "USD", "JPY"}
        assert product["tax_basis_points"] in (700, 1900)


def test_an_order_is_placed_at_the_prices_of_its_currency(shop: FlaskClient) -> None:
    order = place(shop)
    assert (order["status"], order["version"], order["total"]) == ("draft", 1, 4490 + 3 * 890)
    assert [line["unit_price"] for line in order["lines"]] == [4490, 890]
    assert place(shop, currency="JPY")["total"] == 7200 + 3 * 1450
    assert shop.get(f"/v1/orders/{order['id']}").get_json() == order


def test_a_confirmed_order_and_its_event_say_the_same(shop: FlaskClient, orders_url: str) -> None:
    order = place(shop)
    confirmed = shop.post(f"/v1/orders/{order['id']}/confirm").get_json()
    ((key, topic, value),) = rows(orders_url, "SELECT key, topic, value FROM outbox")
    told = event.decode(bytes(value), CONTRACTS)
    assert (key, topic, told.type, told.subject) == (order["id"], "orders.confirmed", "orders.confirmed", order["id"])
    data = told.data.model_dump(mode="json")
    assert data["lines"] == order["lines"]
    assert data["customer"] == order["customer"]
    assert (data["total"], data["currency"]) == (order["total"], "EUR")
    assert (confirmed["status"], confirmed["version"]) == ("confirmed", 2)


def test_confirming_again_changes_nothing_and_is_no_error(shop: FlaskClient, orders_url: str) -> None:
    path = f"/v1/orders/{place(shop)['id']}/confirm"
    first, second = shop.post(path), shop.post(path)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.data == second.data
    assert len(rows(orders_url, "SELECT FROM outbox")) == 1


def test_the_same_key_and_body_give_the_first_answer_to_the_byte(shop: FlaskClient, orders_url: str) -> None:
    headers = {"Idempotency-Key": "cart-1"}
    first = shop.post("/v1/orders", json=wanted(), headers=headers)
    shop.post(f"/v1/orders/{first.get_json()['id']}/confirm")
    again = shop.post("/v1/orders", json=wanted(), headers=headers)
    assert (again.status_code, again.data) == (201, first.data)
    for header in ("ETag", "Location"):
        assert again.headers[header] == first.headers[header]
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert len(rows(orders_url, "SELECT FROM orders")) == 1


def test_the_same_key_with_another_body_is_refused(shop: FlaskClient) -> None:
    place(shop, key="cart-1")
    other = shop.post("/v1/orders", json=wanted(currency="USD"), headers={"Idempotency-Key": "cart-1"})
    assert (other.status_code, kind(other)) == (422, "idempotency-key-reused")


def test_a_refused_order_does_not_use_up_its_key(shop: FlaskClient, orders_url: str) -> None:
    refused = shop.post(
        "/v1/orders", json=wanted(lines=[{"sku": "yacht", "quantity": 1}]), headers={"Idempotency-Key": "cart-1"}
    )
    assert (refused.status_code, kind(refused)) == (422, "unknown-product")
    assert refused.get_json(force=True)["skus"] == ["yacht"]
    assert rows(orders_url, "SELECT FROM orders") == []
    place(shop, key="cart-1")


@pytest.mark.parametrize("key", [None, "", "two words", "x" * 256, "ümlaut"])
def test_placing_needs_a_sensible_idempotency_key(shop: FlaskClient, key: str | None) -> None:
    answer = shop.post("/v1/orders", json=wanted(), headers={} if key is None else {"Idempotency-Key": key})
    assert (answer.status_code, kind(answer)) == (400, "invalid")


CUSTOMER = wanted()["customer"]


@pytest.mark.parametrize(
    "changed",
    [
        {"currency": "XXX"},
        {"currency": "eur"},
        {"lines": []},
        {"lines": [{"sku": "cup", "quantity": 0}]},
        {"lines": [{"sku": "cup", "quantity": -1}]},
        {"lines": [{"sku": "cup", "quantity": 10_001}]},
        {"lines": [{"sku": "cup", "quantity": 10**30}]},
        {"lines": [{"sku": "cup", "quantity": 1.5}]},
        {"lines": [{"sku": "cup", "quantity": "1"}]},
        {"lines": [{"sku": "cup", "quantity": True}]},
        {"lines": [{"sku": "cup", "quantity": 1}, {"sku": "cup", "quantity": 2}]},
        {"lines": [{"sku": f"s{n}", "quantity": 1} for n in range(101)]},
        {"lines": [{"sku": "cup\x00", "quantity": 1}]},
        {"lines": [{"sku": "cup", "quantity": 1, "unit_price": 1}]},
        {"customer": CUSTOMER | {"email": "not an address"}},
        {"customer": CUSTOMER | {"email": "ada@example.org\r\nBcc: eve@example.org"}},
        {"customer": CUSTOMER | {"email": "ada@" + "x" * 300 + ".org"}},
        {"customer": CUSTOMER | {"name": "Ada\r\nBcc: eve@example.org"}},
        {"customer": CUSTOMER | {"name": "Ada\x00"}},
        {"customer": CUSTOMER | {"name": "Ada\u2028Eve"}},
        {"customer": CUSTOMER | {"name": "\ud800"}},
        {"customer": CUSTOMER | {"name": "   "}},
        {"customer": CUSTOMER | {"name": "x" * 201}},
        {"customer": CUSTOMER | {"address": []}},
        {"customer": CUSTOMER | {"address": ["x"] * 7}},
        {"customer": CUSTOMER | {"address": ["a\nb"]}},
        {"customer": None},
        {"unknown": 1},
    ],
    ids=lambda changed: str(changed)[:60].encode("unicode_escape").decode(),
)
def test_what_cannot_be_ordered_is_refused_in_words(
    shop: FlaskClient, orders_url: str, changed: dict[str, Any]
) -> None:
    answer = shop.post("/v1/orders", json=wanted(**changed), headers={"Idempotency-Key": uuid4().hex})
    assert (answer.status_code, kind(answer)) == (422, "invalid"), answer.text
    assert answer.get_json(force=True)["errors"]
    assert rows(orders_url, "SELECT FROM orders") == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"not json", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b'{"lines":' * 20_000, 400),
        (b'{"currency": ' + b"9" * 5000 + b"}", 400),
        (b"[]", 422),
        (b"NaN", 422),
        (b"null", 422),
        (b'"' + b"x" * 300_000 + b'"', 413),
    ],
    ids=lambda given: str(given)[:20],
)
def test_a_body_that_is_no_order_is_refused(shop: FlaskClient, body: bytes, status: int) -> None:
    headers = {"Idempotency-Key": uuid4().hex, "Content-Type": "application/json"}
    answer = shop.post("/v1/orders", data=body, headers=headers)
    assert (answer.status_code, answer.content_type) == (status, "application/problem+json")


def test_any_name_of_any_script_is_kept_as_it_is(shop: FlaskClient) -> None:
    for name in ("Łukasz 🫖", "عائشة", "李小龍", "O'Hara; DROP TABLE orders --", "<b>Eve</b>", "%s {0} $1"):
        assert place(shop, customer=CUSTOMER | {"name": name})["customer"]["name"] == name


def test_a_total_beyond_the_contract_is_refused(shop: FlaskClient, orders_url: str) -> None:
    with psycopg.connect(orders_url, autocommit=True) as connection:
        connection.execute("UPDATE product_prices SET amount = 1000000000 WHERE sku = 'teapot'")
    lines = [{"sku": "teapot", "quantity": 1001}]
    answer = shop.post("/v1/orders", json=wanted(lines=lines), headers={"Idempotency-Key": "x"})
    assert (answer.status_code, kind(answer)) == (422, "total-too-large")


def test_a_draft_is_changed_only_from_the_version_that_was_read(shop: FlaskClient) -> None:
    order = place(shop)
    path, lines = f"/v1/orders/{order['id']}/lines", {"lines": [{"sku": "cup", "quantity": 2}]}
    etag = shop.get(f"/v1/orders/{order['id']}").headers["ETag"]
    assert shop.put(path, json=lines).status_code == 428
    changed = shop.put(path, json=lines, headers={"If-Match": etag})
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    assert changed.get_json()["total"] == 2 * 1490
    for stale in (etag, 'W/"2"', '"99999999999999"', '"x"', '""', ""):
        assert shop.put(path, json=lines, headers={"If-Match": stale}).status_code == 412, stale
    assert shop.put(path, json=lines, headers={"If-Match": '"1", "2"'}).status_code == 200
    assert shop.put(path, json=lines, headers={"If-Match": "*"}).status_code == 200
    unknown = shop.put(path, json={"lines": [{"sku": "yacht", "quantity": 1}]}, headers={"If-Match": "*"})
    assert (unknown.status_code, kind(unknown)) == (422, "unknown-product")
    assert shop.get(f"/v1/orders/{order['id']}").get_json()["total"] == 2 * 1490
    shop.post(f"/v1/orders/{order['id']}/confirm")
    too_late = shop.put(path, json=lines, headers={"If-Match": "*"})
    assert (too_late.status_code, kind(too_late)) == (409, "already-confirmed")


def test_an_order_is_changed_right_after_it_was_placed_by_what_that_answer_said(shop: FlaskClient) -> None:
    placed = shop.post("/v1/orders", json=wanted(), headers={"Idempotency-Key": "cart-1"})
    where, etag = placed.headers["Location"], placed.headers["ETag"]
    lines = {"lines": [{"sku": "cup", "quantity": 2}]}
    assert shop.put(f"{where}/lines", json=lines, headers={"If-Match": etag}).status_code == 200
    assert shop.get(where).get_json()["id"] == placed.get_json()["id"]
    again = shop.post("/v1/orders", json=wanted(), headers={"Idempotency-Key": "cart-1"})
    stale = shop.put(f"{where}/lines", json=lines, headers={"If-Match": again.headers["ETag"]})
    assert stale.status_code == 412, "the first answer again, and its version"


def test_confirming_another_version_than_was_seen_is_refused_but_asking_again_is_not(shop: FlaskClient) -> None:
    order = place(shop)
    path = f"/v1/orders/{order['id']}"
    lines = {"lines": [{"sku": "cup", "quantity": 2}]}
    shop.put(f"{path}/lines", json=lines, headers={"If-Match": '"1"'})
    assert shop.post(f"{path}/confirm", headers={"If-Match": '"1"'}).status_code == 412
    for _ in range(2):
        assert shop.post(f"{path}/confirm", headers={"If-Match": '"2"'}).status_code == 200
    assert shop.post(f"{path}/confirm", headers={"If-Match": '"1"'}).status_code == 412


def test_an_unchanged_order_is_not_sent_again(shop: FlaskClient) -> None:
    path = f"/v1/orders/{place(shop)['id']}"
    etag = shop.get(path).headers["ETag"]
    unchanged = shop.get(path, headers={"If-None-Match": etag})
    assert (unchanged.status_code, unchanged.data) == (304, b"")
    shop.post(f"{path}/confirm")
    assert shop.get(path, headers={"If-None-Match": etag}).status_code == 200


def test_an_order_that_does_not_exist_is_a_404_everywhere(shop: FlaskClient) -> None:
    lines = {"lines": [{"sku": "cup", "quantity": 2}]}
    for path in (f"/v1/orders/{uuid4()}", "/v1/orders/17"):
        assert shop.get(path).status_code == 404
        assert shop.post(f"{path}/confirm").status_code == 404
        assert shop.put(f"{path}/lines", json=lines, headers={"If-Match": "*"}).status_code == 404


def test_the_operator_pages_through_all_orders_newest_first(shop: FlaskClient) -> None:
    placed = [place(shop)["id"] for _ in range(5)]
    found, cursor = [], ""
    while cursor is not None:
        query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = shop.get("/v1/orders", query_string=query, headers=OPERATOR).get_json()
        found += [order["id"] for order in page["items"]]
        cursor = page["next_cursor"]
    assert found == placed[::-1]
    assert shop.get("/v1/orders").status_code == 401
    assert shop.get("/v1/orders?limit=101", headers=OPERATOR).status_code == 422


def test_without_a_partition_for_the_event_the_client_is_asked_to_come_again(
    shop: FlaskClient, orders_url: str
) -> None:
    order = place(shop)
    with psycopg.connect(orders_url, autocommit=True) as connection:
        for (name,) in connection.execute("SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_class ON"
                                          " inhparent = pg_class.oid WHERE relname = 'outbox'").fetchall():  # fmt: skip
            connection.execute(f"DROP TABLE {name}".encode())
    answer = shop.post(f"/v1/orders/{order['id']}/confirm")
    assert (answer.status_code, kind(answer)) == (503, "database-away")
    assert shop.get(f"/v1/orders/{order['id']}").get_json()["status"] == "draft"


def kind(answer: Any) -> str:
    return str(orjson.loads(answer.data)["type"]).removeprefix("/problems/")


def test_the_settings_refuse_an_address_that_would_break_the_content_policy() -> None:
    with pytest.raises(ValueError, match="billing_public_url"):
        orders.settings("postgresql://", billing_public_url="http://x; script-src *")
