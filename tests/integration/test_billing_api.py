"""Billing over HTTP: a customer's invoice by its unguessable id, and the operator's lists and dead letters."""

import json
from collections.abc import Iterator

import pytest
import schemathesis
from apiflask import APIFlask
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from services.billing.api import app_on
from shared.messaging import parking, records, retention
from shared.messaging.errors import Invalid
from tests.support import streams
from tests.support.billing import Billing
from tests.support.smtp import troubled

TOKEN = "operator"
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def billing(postgres: str) -> Iterator[Billing]:
    with Billing.on(postgres) as billing:
        yield billing


@pytest.fixture(scope="module")
def app(billing: Billing) -> APIFlask:
    return app_on(billing.engine, TOKEN)


@pytest.fixture
def client(app: APIFlask) -> FlaskClient:
    return app.test_client()


def deliver_all(billing: Billing) -> None:
    with troubled() as server:
        billing.work_until_settled(billing.worker(smtp_address=server.address))


def test_an_order_page_follows_its_invoice_from_nothing_to_e_mailed(billing: Billing, client: FlaskClient) -> None:
    order = streams.order()
    path = f"/v1/orders/{order.subject}/invoice"
    nothing = client.get(path)
    assert (nothing.status_code, nothing.content_type) == (404, "application/problem+json")
    assert nothing.headers["Access-Control-Allow-Origin"] == "*"
    billing.invoice(order)
    issued = client.get(path)
    assert issued.headers["Access-Control-Allow-Origin"] == "*"
    invoice = issued.get_json()
    assert (invoice["state"], invoice["pdf_url"], invoice["emailed_at"]) == ("issued", None, None)
    assert (invoice["net"], invoice["tax"], invoice["gross"], invoice["currency"]) == (1250, 238, 1488, "EUR")
    deliver_all(billing)
    sent = client.get(path).get_json()
    assert sent["state"] == "sent"
    assert sent["emailed_at"]
    assert sent["pdf_url"].endswith(f"/v1/invoices/{sent['id']}/pdf")
    assert client.get(f"/v1/invoices/{sent['id']}").get_json()["lines"][0]["tax"] == 238


def test_a_pdf_is_served_with_its_sha256_and_not_sent_twice(billing: Billing, client: FlaskClient) -> None:
    path = f"/v1/invoices/{billing.get(billing.invoice())['id']}/pdf"
    assert client.get(path).status_code == 404, "not rendered yet"
    deliver_all(billing)
    answer = client.get(path)
    assert (answer.data[:4], answer.content_type) == (b"%PDF", "application/pdf")
    assert answer.headers["ETag"] == f'"{records.digest(answer.data).hex()}"'
    assert answer.headers["Content-Disposition"].startswith('inline; filename="invoice-S0-')
    assert "immutable" in answer.headers["Cache-Control"]
    again = client.get(path, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_the_list_of_invoices_is_the_operators_and_is_paged_newest_first(billing: Billing, client: FlaskClient) -> None:
    orders = [str(billing.invoice()) for _ in range(5)]
    assert client.get("/v1/invoices").status_code == 401
    assert client.get("/v1/invoices", headers={"Authorization": "Bearer x"}).status_code == 401
    found: list[str] = []
    cursor = ""
    while len(found) < 5:
        page = client.get(f"/v1/invoices?limit=2{cursor and '&cursor=' + cursor}", headers=OPERATOR).get_json()
        found += [invoice["order_id"] for invoice in page["items"]]
        cursor = page["next_cursor"]
    assert found[:5] == orders[::-1]
    assert client.get("/v1/invoices?limit=101", headers=OPERATOR).status_code == 422


def park(billing: Billing, value: bytes) -> int:
    """A letter as the consumer writes it."""
    with Session(billing.engine) as session, session.begin():
        retention.create_partitions(session.connection().connection.dbapi_connection, "inbox")  # type: ignore[arg-type]
        place = ("topic-id", "orders.confirmed", 0, 77, None, value, records.digest(value), 0)
        problem = Invalid("somebody's mistake")
        parking.park(session, "billing", [(records.Unreadable(*place, records.id_of(value), problem), problem)])
    return streams.scalar(billing.url, "SELECT max(id) FROM dead_letters")


def act(client: FlaskClient, letter_id: int, action: str, **given: object) -> TestResponse:
    return client.post(f"/v1/dead-letters/{letter_id}/{action}", json=given, headers=OPERATOR)


def test_a_dead_letter_is_seen_repaired_and_redriven_and_the_order_gets_its_invoice(
    billing: Billing, client: FlaskClient
) -> None:
    good = streams.encoded(streams.order())
    envelope = json.loads(good)
    broken = json.dumps(envelope | {"data": envelope["data"] | {"lines": []}}).encode()
    letter_id = park(billing, broken)
    assert client.get("/v1/dead-letters").status_code == 401
    assert letter_id in [
        letter["id"] for letter in client.get("/v1/dead-letters", headers=OPERATOR).get_json()["items"]
    ]
    assert client.get(f"/v1/dead-letters/{letter_id}", headers=OPERATOR).get_json()["value"] == broken.decode()
    assert act(client, letter_id, "redrive").status_code == 409, "it is still broken"
    assert act(client, letter_id, "repair", value="{}").status_code == 409
    assert act(client, letter_id, "repair", value=good.decode()).status_code == 200
    assert act(client, letter_id, "redrive").get_json()["result"] == "applied"
    assert client.get(f"/v1/orders/{envelope['subject']}/invoice").status_code == 200
    assert act(client, letter_id, "redrive").status_code == 409, "once"


def test_a_dead_letter_may_be_given_up_with_a_reason(billing: Billing, client: FlaskClient) -> None:
    letter_id = park(billing, b"not json")
    assert act(client, letter_id, "discard", why=" ").status_code == 422
    assert act(client, letter_id, "discard", why="a test").status_code == 200
    closed = client.get("/v1/dead-letters?closed=true", headers=OPERATOR).get_json()["items"][-1]
    assert (closed["outcome"], closed["note"]) == ("discarded", "a test")
    assert act(client, 10**15, "discard", why="none").status_code == 404


def test_nothing_a_client_can_send_is_an_error_of_ours(billing: Billing, app: APIFlask) -> None:
    """Schemathesis reads the description and tries what it allows, and what it does not."""
    there = {"letter_id": park(billing, b"fuzzed"), "invoice_id": str(billing.get(billing.invoice())["id"])}
    schema = schemathesis.openapi.from_wsgi("/openapi.json", app)
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) == 9

    @given(st.data())
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def fuzz(data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(operations))
        known = {name: value for name, value in there.items() if f"{{{name}}}" in operation.path}
        is_there: bool = data.draw(st.booleans())
        fixed = {"path_parameters": known} if known and is_there else {}
        case = data.draw(operation.as_strategy(**fixed))
        case.call_and_validate(headers=OPERATOR, checks=[not_a_server_error])

    fuzz()
