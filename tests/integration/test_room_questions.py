"""What the control room asks Orders, on a real database."""

import re
import time
from collections.abc import Iterator
from uuid import UUID, uuid4

import psycopg
import pytest
from flask.testing import FlaskClient

from services.control_room import topic
from services.control_room.questions import Confirmed, Connections
from services.control_room.settings import PlacesSettings
from shared.runtime.problems import Problem
from tests.support.orders import place, rows

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


def test_the_event_of_an_order_is_looked_for_on_its_own_day(shop: FlaskClient, orders_url: str) -> None:
    wanted, other = (place(shop)["id"] for _ in range(2))
    for order_id in (wanted, other):
        shop.post(f"/v1/orders/{order_id}/confirm")
    places = PlacesSettings(
        orders_database_url=orders_url, billing_database_url="", analytics_database_url="",
        kafka_bootstrap="127.0.0.1:1", mail_url="",
    )  # fmt: skip
    with pytest.raises(Problem, match="no published event"):
        topic.published(places, UUID(wanted))
    with psycopg.connect(orders_url, autocommit=True) as connection:
        connection.execute("UPDATE outbox SET published_at = now()")
        assert topic.published(places, UUID(wanted)).key == wanted
        with pytest.raises(Problem, match="no published event"):
            topic.published(places, uuid4())
        ((confirmed_at,),) = connection.execute("SELECT confirmed_at FROM orders WHERE id = %s", (wanted,))
        asked = (*topic.around(confirmed_at), places.topic, wanted)
        plan = connection.execute(b"EXPLAIN " + topic.OF_ORDER.encode(), asked).fetchall()
    read = set(re.findall(r"outbox_\d{8}(?= )", str(plan)))
    days = rows(orders_url, "SELECT FROM pg_inherits WHERE inhparent = 'outbox'::regclass")
    assert 1 <= len(read) <= 2 < len(days), "two only around midnight"
