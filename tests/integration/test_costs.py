"""The cost gate: statements, round trips and write-ahead log per order and per event are what costs.json says.

Statements and round trips exactly; the log with a tolerance, because a page that splits is luck. Whoever changes a
figure on purpose writes the new one into costs.json, where the change is seen.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from services.analytics.projections import HANDLERS as PROJECTIONS
from services.billing.handlers import HANDLERS as INVOICING
from services.orders.api import app_on, engine_of
from shared.contracts import CONTRACTS
from shared.messaging import outbox, retention
from shared.messaging.consumer import SESSION, ConsumerSettings, InboxConsumer
from shared.messaging.handlers import Handlers
from shared.messaging.kafka import KafkaSettings
from shared.messaging.relay import Relay, RelaySettings
from shared.runtime import database
from tests.integration.test_migrations import migrate
from tests.support import streams
from tests.support.costs import ROUNDS, Cost, Meter
from tests.support.orders import place, settings

KNOWN = json.loads(Path(__file__).with_name("costs.json").read_text())
WAL_TOLERANCE = 0.10
ORDERS, BATCH = 20, 100
RARELY_S = 3600.0
"""What happens now and then is not part of the cost of an event."""


def is_known(what: str, measured: Cost) -> None:
    known = Cost(**KNOWN[what])
    said = f"{what}: {measured}, costs.json says {known}"
    assert (measured.statements, measured.round_trips) == (known.statements, known.round_trips), said
    assert measured.wal_bytes == pytest.approx(known.wal_bytes, rel=WAL_TOLERANCE), said


@pytest.fixture
def meter(tmp_path: Path, postgres: str) -> Meter:
    return Meter(tmp_path, postgres)


@pytest.fixture
def shop(orders_url: str, meter: Meter, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    meter.watch(monkeypatch, "orders-api")
    engine = engine_of(settings(orders_url))
    yield app_on(engine, settings(orders_url)).test_client()
    engine.dispose()


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_placing_an_order_costs_what_it_did(shop: FlaskClient, meter: Meter) -> None:
    is_known("place an order", meter.of(lambda: _times(lambda: place(shop))).per(ORDERS))


def test_placing_again_under_the_same_key_costs_what_it_did(shop: FlaskClient, meter: Meter) -> None:
    key = uuid4().hex
    place(shop, key)
    is_known("place again under the same key", meter.of(lambda: _times(lambda: place(shop, key))).per(ORDERS))


def test_confirming_an_order_costs_what_it_did(shop: FlaskClient, meter: Meter) -> None:
    drafts = iter([place(shop)["id"] for _ in range((1 + ROUNDS) * ORDERS)])
    measured = meter.of(lambda: _times(lambda: shop.post(f"/v1/orders/{next(drafts)}/confirm")))
    is_known("confirm an order", measured.per(ORDERS))


def test_publishing_an_event_costs_what_it_did(
    orders_url: str, kafka: str, meter: Meter, monkeypatch: pytest.MonkeyPatch, opened: ExitStack
) -> None:
    meter.watch(monkeypatch, "orders-relay")
    topic, engine = streams.create_topic(kafka), database.engine(orders_url, "tests")
    relay = Relay("orders", orders_url, KafkaSettings(kafka), RelaySettings(rebalance_every_s=RARELY_S))
    opened.callback(engine.dispose)
    opened.callback(relay.close)

    def fill() -> None:
        with Session(engine) as session, session.begin():
            for event in [streams.order() for _ in range(BATCH)]:
                outbox.add(session, event, topic=topic, key=event.subject, contracts=CONTRACTS)

    def publish() -> None:
        fill()
        relay._size.per_shard = BATCH  # as behind a backlog: in one step
        assert relay.step() == BATCH

    is_known("publish an event (batch of 100)", meter.of(publish).per(BATCH))


@pytest.mark.parametrize(
    ("service", "what", "effects"),
    [("billing", "invoice an event", INVOICING), ("analytics", "count an event", PROJECTIONS)],
)
def test_consuming_an_event_costs_what_it_did(
    service: str, what: str, effects: Handlers, database_url: str, kafka: str, meter: Meter,
    monkeypatch: pytest.MonkeyPatch, opened: ExitStack,
) -> None:  # fmt: skip
    migrate(service, database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        retention.create_partitions(connection, "inbox", ahead_days=2)
    meter.watch(monkeypatch, "consumer")
    topic, engine = (
        streams.create_topic(kafka, partitions=1),
        database.engine(database_url, "consumer", options=SESSION),
    )
    # It waits for a whole batch, so that there is one.
    chosen = ConsumerSettings(
        service, (topic,), kafka, batch_size=BATCH, linger_ms=30_000, window_check_s=RARELY_S, observe_s=RARELY_S
    )
    opened.callback(engine.dispose)
    consumer = opened.enter_context(InboxConsumer(chosen, engine, effects, CONTRACTS))

    def consume() -> None:
        streams.publish(kafka, topic, [streams.order() for _ in range(BATCH)])
        streams.eventually(lambda: consumer.step() == BATCH, "a whole batch is consumed")

    # psycopg prepares a statement at its fifth time, and storing positions has had its first at the start.
    is_known(f"{what} (batch of 100)", meter.of(consume, warm_ups=6).per(BATCH))


def _times(work: Callable[[], object]) -> None:
    for _ in range(ORDERS):
        work()
