"""The storefront in a real browser. Billing is a stand-in here; the way to the mailbox is tested with the stack."""

import json
import re
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psycopg
import pytest
from flask.testing import FlaskClient
from playwright.sync_api import Browser, Page, expect
from werkzeug.serving import make_server

from services.orders.api import app_on, engine_of
from services.orders.cart import Cart
from tests.browser.conftest import VIEWS, screenshot
from tests.support.orders import place, rows, settings
from tests.support.shopping import check_out, fill_cart


class Billing(BaseHTTPRequestHandler):
    """Answers as billing-api does: nothing yet, then an invoice in the given state."""

    answers: list[dict[str, object] | None]

    def do_GET(self) -> None:
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(200 if given else 404)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(given or {}).encode())

    def log_message(self, *_: object) -> None:
        pass


def invoice(state: str, pdf: bool) -> dict[str, object]:
    pdf_url = "/v1/invoices/1/pdf" if pdf else None
    return {"id": "1", "number": "S0-000042", "state": state, "pdf_url": pdf_url, "emailed_at": None}


@pytest.fixture
def billing() -> Iterator[str]:
    Billing.answers = [None, None, invoice("issued", False), invoice("rendered", True), invoice("sent", True)]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Billing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def shop_url(orders_url: str, billing: str) -> Iterator[str]:
    told = settings(orders_url, billing_public_url=billing)
    engine = engine_of(told)
    server = make_server("127.0.0.1", 0, app_on(engine, told), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    server.server_close()
    engine.dispose()


@pytest.mark.parametrize("page", VIEWS, indirect=True)
def test_a_double_click_on_confirm_is_one_order_and_the_page_says_so(
    page: Page, shop_url: str, orders_url: str, request: pytest.FixtureRequest
) -> None:
    view = request.node.callspec.params["page"]
    fill_cart(page, shop_url)
    page.goto(shop_url)
    screenshot(page, f"{view}-1-products")
    page.goto(f"{shop_url}/cart")
    screenshot(page, f"{view}-2-cart")
    check_out(page, shop_url)
    expect(page.locator("#confirm")).to_be_visible()
    screenshot(page, f"{view}-3-order")
    page.dblclick("#confirm")
    expect(page.get_by_text("Already confirmed: still one order.")).to_be_visible()
    screenshot(page, f"{view}-4-confirmed-twice")
    expect(page.locator("#emailed.done")).to_be_visible()
    expect(page.locator("#invoiced")).to_contain_text("S0-000042")
    expect(page.locator("#pdf")).to_have_attribute("href", re.compile("/v1/invoices/1/pdf$"))
    screenshot(page, f"{view}-5-emailed")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out sideways"
    assert rows(orders_url, "SELECT status, total FROM orders") == [("confirmed", 4490 + 2 * 890)]
    assert len(rows(orders_url, "SELECT FROM outbox")) == 1


def test_checking_out_twice_from_one_cart_is_one_order(page: Page, shop_url: str, orders_url: str) -> None:
    fill_cart(page, shop_url)
    kept: Any = page.context.cookies()
    check_out(page, shop_url)
    first = page.url
    page.context.add_cookies(kept)  # as if the first answer had been lost on the way
    check_out(page, shop_url)
    assert page.url == first
    assert len(rows(orders_url, "SELECT FROM orders")) == 1
    page.context.add_cookies(kept)
    page.goto(f"{shop_url}/cart")
    page.fill("#name", "Somebody Else")
    page.fill("#email", "ada@example.org")
    page.fill("#address", "Elsewhere")
    page.click("text=Go to your order")
    expect(page.get_by_text("This cart had become an order already.")).to_be_visible()
    assert len(rows(orders_url, "SELECT FROM orders")) == 1


def test_without_scripts_the_whole_shop_works_and_confirming_again_is_said(
    browser: Browser, shop_url: str, orders_url: str
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    fill_cart(page, shop_url)
    page.click("button:has-text('JPY')")
    expect(page.locator("#teapot .price")).to_have_text("¥7,200")
    check_out(page, shop_url)
    other = context.new_page()
    other.goto(page.url)
    page.click("#confirm")
    expect(page.locator("#confirmed.done")).to_be_visible()
    other.click("#confirm")
    expect(other.get_by_text("Already confirmed: still one order.")).to_be_visible()
    assert len(rows(orders_url, "SELECT FROM outbox")) == 1
    context.close()


def test_what_a_customer_types_is_shown_as_text(page: Page, shop: FlaskClient, shop_url: str) -> None:
    name = "<img src=x onerror=alert(1)>"
    customer = {"name": name, "email": "ada@example.org", "address": ["<script>alert(1)</script>"]}
    order = place(shop, customer=customer)
    page.goto(f"{shop_url}/orders/{order['id']}")
    expect(page.locator("address")).to_contain_text(name)
    expect(page.locator("address")).to_contain_text("<script>alert(1)</script>")


def test_the_api_reference_shows_every_operation(page: Page, shop_url: str) -> None:
    page.goto(f"{shop_url}/reference")
    expect(page.locator(".opblock")).to_have_count(6)
    screenshot(page, "reference")


def test_a_form_of_another_site_is_refused(shop: FlaskClient, orders_url: str) -> None:
    path = f"/orders/{place(shop)['id']}/confirm"
    for headers in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        refused = shop.post(path, headers=headers)
        assert (refused.status_code, refused.mimetype) == (403, "text/html")
    assert rows(orders_url, "SELECT FROM outbox") == []
    assert shop.post(path, headers={"Origin": "http://localhost"}).status_code == 303


def test_what_has_no_price_in_a_currency_is_not_shown_in_it(shop: FlaskClient, orders_url: str) -> None:
    own = {"Origin": "http://localhost"}
    shop.post("/cart", data={"sku": "cup", "add": "1"}, headers=own)
    with psycopg.connect(orders_url) as connection:
        connection.execute("DELETE FROM product_prices WHERE sku = 'cup' AND currency = 'EUR'")
    for path in ("/", "/cart"):
        answer = shop.get(path)
        assert answer.status_code == 200
        assert 'value="cup"' not in answer.text


def test_a_key_of_the_api_opens_no_order_in_the_storefront(shop: FlaskClient, orders_url: str) -> None:
    key = "0" * 32
    theirs = place(shop, key=key)
    cart = Cart(key=key, quantities={"cup": 1}).model_dump_json().encode()
    shop.set_cookie("cart", urlsafe_b64encode(cart).decode())
    given = {"name": "Eve", "email": "eve@example.org", "address": "Elsewhere"}
    answer = shop.post("/checkout", data=given, headers={"Origin": "http://localhost"})
    assert theirs["id"] not in answer.headers["Location"]
    assert len(rows(orders_url, "SELECT FROM orders")) == 2


@pytest.mark.parametrize("version", ["99999999999", "x", "", "²"])
def test_a_version_that_no_order_has_confirms_nothing(shop: FlaskClient, orders_url: str, version: str) -> None:
    own, path = {"Origin": "http://localhost"}, f"/orders/{place(shop)['id']}/confirm"
    answer = shop.post(path, data={"version": version}, headers=own)
    assert answer.headers["Location"].endswith("seen=changed")
    assert rows(orders_url, "SELECT status FROM orders") == [("draft",)]


def test_a_wrong_address_or_a_made_up_cart_is_answered_with_a_page(shop: FlaskClient) -> None:
    own = {"Origin": "http://localhost"}
    shop.post("/cart", data={"sku": "cup", "add": "1"}, headers=own)
    refused = shop.post("/checkout", data={"name": "A\r\nB", "email": "nobody", "address": ""}, headers=own)
    assert refused.status_code == 422
    assert refused.text.count('class="error"') == 3
    for sku, quantity in (("cup\x00", "1"), ("cup", "9" * 30), ("x" * 99, "1"), ("cup", "-5"), ("", "")):
        answer = shop.post("/cart", data={"sku": sku, "quantity": quantity}, headers=own)
        assert answer.status_code in (303, 422), (sku, quantity)
    assert shop.post("/cart", data={"currency": "XXX"}, headers=own).status_code == 422
    for cookie in ("", "garbage", "e30=", "bnVsbA=="):
        shop.set_cookie("cart", cookie)
        assert shop.get("/cart").status_code == 200
    for quantity in ("-5", "0", "10001", "9" * 2900, "1.5"):
        shop.set_cookie("cart", urlsafe_b64encode(b'{"quantities": {"cup": %s}}' % quantity.encode()).decode())
        shown = shop.get("/cart")
        assert (shown.status_code, "It is empty." in shown.text) == (200, True), quantity
    unknown = shop.get("/orders/00000000-0000-4000-8000-000000000000")
    assert (unknown.status_code, unknown.mimetype) == (404, "text/html")
