"""The audit of the naive shop: what it loses and doubles is found, and what is in order is not."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from services.billing.naive_consumer import INSERT as INVOICE
from services.billing.naive_consumer import TABLE as INVOICES
from services.control_room.audit import naive
from services.control_room.audit.streams import snapshot
from services.control_room.audit.verdicts import Verdicts
from services.control_room.settings import PlacesSettings
from services.orders.naive_api import INSERT as ORDER
from services.orders.naive_api import TABLE as ORDERS
from tests.unit.test_mail_sink import Sink

LINES = [{"sku": "cup", "name": "Cup", "quantity": 2, "unit_price": 100, "tax_basis_points": 1900}]


class NaiveShop:
    """Both tables in one database: the audit asks each by its own address, which may be the same."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.ledger, self.sink = url, folder / "ledger", Sink(folder)
        with psycopg.connect(url) as connection:
            connection.execute(ORDERS.encode())
            connection.execute(INVOICES.encode())
        for order_id in (uuid4() for _ in range(3)):
            self.order(order_id)
            self.invoice(order_id)
            self.mail(order_id)

    def order(self, order_id: UUID) -> None:
        self._execute(ORDER, order_id, "EUR", Jsonb(LINES), 200)

    def invoice(self, order_id: UUID, net: int = 200) -> None:
        self._execute(INVOICE, uuid4(), 1, order_id, "EUR", Jsonb(LINES), net, 38, net + 38, b"%PDF-1.7")

    def mail(self, order_id: UUID) -> None:
        self.sink.send(f"<order-{order_id}.{uuid4().hex[:8]}@naive.invalid>")

    def audit(self) -> Verdicts:
        return naive.run(
            PlacesSettings(
                orders_database_url="", billing_database_url="", analytics_database_url="", kafka_bootstrap="",
                mail_url=f"http://{self.sink.http}", naive_orders_database_url=self.url,
                naive_billing_database_url=self.url, naive_ledger=str(self.ledger),
            )
        )  # fmt: skip

    def _execute(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(statement.encode(), values)


@pytest.fixture
def shop(database_url: str, tmp_path: Path) -> Iterator[NaiveShop]:
    made = NaiveShop(database_url, tmp_path)
    yield made
    made.sink.end(signal.SIGTERM)


def broken(verdicts: Verdicts) -> set[str]:
    return {name for name, verdict in verdicts.named.items() if not verdict.holds}


def test_what_is_in_order_is_not_complained_of_and_only_its_own_promises_are_judged(shop: NaiveShop) -> None:
    verdicts = shop.audit()
    assert broken(verdicts) == set()
    assert tuple(verdicts.named) == naive.JUDGED
    assert verdicts.one_invoice.checked == verdicts.mailed.checked == 3


def test_a_lost_order_is_found(shop: NaiveShop) -> None:
    lost = uuid4()
    shop.order(lost)
    verdicts = shop.audit()
    assert broken(verdicts) == {"one_invoice"}
    assert verdicts.one_invoice.offenders == [f"{lost} 0 invoices"]
    assert verdicts.one_invoice.notes == ["1 order(s) lost, 0 doubled"]


def test_a_doubled_order_is_found(shop: NaiveShop) -> None:
    doubled = uuid4()
    shop.order(doubled)
    for _ in range(2):
        shop.invoice(doubled)
        shop.mail(doubled)
    verdicts = shop.audit()
    assert broken(verdicts) == {"one_invoice", "mailed", "copies"}
    assert verdicts.one_invoice.notes == ["0 order(s) lost, 1 doubled"]


def test_an_invoice_without_its_mail_is_found(shop: NaiveShop) -> None:
    unsent = uuid4()
    shop.order(unsent)
    shop.invoice(unsent)
    assert broken(shop.audit()) == {"mailed"}


def test_a_wrong_amount_is_found(shop: NaiveShop) -> None:
    wrong = uuid4()
    shop.order(wrong)
    shop.invoice(wrong, net=201)
    shop.mail(wrong)
    assert broken(shop.audit()) == {"amounts"}


def test_a_mail_whose_invoice_was_rolled_back_and_an_effect_without_an_order_are_found(shop: NaiveShop) -> None:
    mailed, unknown = uuid4(), uuid4()
    shop.order(mailed)
    shop.mail(mailed)
    assert broken(shop.audit()) == {"one_invoice"}
    shop.mail(unknown)
    assert broken(shop.audit()) == {"one_invoice", "orphans"}


def test_an_order_that_came_and_was_mailed_while_the_audit_read_is_not_a_lost_one(
    shop: NaiveShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = uuid4()

    @contextmanager
    def and_then_an_order(url: str, name: str) -> Iterator[psycopg.Connection[Any]]:
        with snapshot(url, name) as connection:
            if name == "naive-orders":
                told = {"method": "POST", "path": "/v1/orders", "key": "k", "status": 201, "order_id": str(late)}
                shop.ledger.write_text(json.dumps(told) + "\n")
                shop.mail(late)
            yield connection

    monkeypatch.setattr("services.control_room.audit.streams.snapshot", and_then_an_order)
    assert broken(shop.audit()) == set()
    assert shop.ledger.exists()


def test_an_order_that_a_client_was_promised_is_missed(shop: NaiveShop) -> None:
    told = f'{{"method": "POST", "path": "/v1/orders", "key": "k", "status": 201, "order_id": "{uuid4()}"}}\n'
    shop.ledger.write_text(told)
    assert broken(shop.audit()) == {"acknowledged"}


@pytest.mark.parametrize(
    ("asked", "answers", "orders", "found"),
    [
        (2, 1, 2, {"one_order_per_key"}),  # asked again, and told of one of the two
        (2, 1, 1, set()),
        (2, 0, 1, set()),  # nobody knows: it may be there
        (1, 1, 2, set()),  # somebody else has ordered
    ],
)
def test_a_request_that_was_asked_again_and_made_two_orders_is_found(
    shop: NaiveShop, asked: int, answers: int, orders: int, found: set[str]
) -> None:
    intent = {"entry": "intent", "key": "k", "path": "/v1/orders", "at": datetime.now(UTC).isoformat()}
    made = [uuid4() for _ in range(orders)]
    for order_id in made:
        shop.order(order_id)
        shop.invoice(order_id)
        shop.mail(order_id)
    answer = {**intent, "entry": "answer", "status": 201, "order_id": str(made[0])}
    shop.ledger.write_text("".join(json.dumps(line) + "\n" for line in [intent] * asked + [answer] * answers))
    assert broken(shop.audit()) == found
