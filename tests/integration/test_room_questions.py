"""What the control room asks Orders, on a real database."""

import time
from collections.abc import Iterator

import psycopg
import pytest
from flask.testing import FlaskClient

from services.control_room.questions import Confirmed, Connections
from tests.support.orders import place

CANCELLED = """
INSERT INTO outbox (event_id, topic, key, value, headers) VALUES (uuidv7(), 'orders.cancelled', %s, 'any', '{}')
"""


@pytest.fixture
def room(orders_url: str) -> Iterator[Connections]:
    made = Connections({"orders": orders_url}, "tests")
    yield made
    made._connected("orders").close()


def test_an_event_that_is_no_confirmation_is_not_counted_as_an_order(
    shop: FlaskClient, orders_url: str, room: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after docs/how-to/add-an-event.md: cancelled before the room looks, while it looks, and a while ago."""

    def confirm_and_cancel() -> None:
        order_id = place(shop)["id"]
        shop.post(f"/v1/orders/{order_id}/confirm")
        with psycopg.connect(orders_url) as connection:
            connection.execute(CANCELLED.encode(), (order_id,))

    confirm_and_cancel()
    confirmed, now = Confirmed(), time.time()
    assert confirmed.count(room.ask) == 1
    confirm_and_cancel()
    assert confirmed.count(room.ask) == 2
    monkeypatch.setattr("services.control_room.questions.time.time", lambda: now + 600)
    assert confirmed.count(room.ask) == 2
