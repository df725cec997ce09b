"""Every figure that the pattern promises exists, and moves when it should."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from prometheus_client import REGISTRY
from sqlalchemy.orm import Session

from shared.contracts import CONTRACTS
from shared.messaging import dead_letters, outbox, tasks
from shared.messaging.errors import Transient
from shared.messaging.records import Received
from shared.messaging.tasks import TaskSettings
from tests.integration.test_consumer import Stage, drive, settle
from tests.support import producing, shop, streams


@pytest.fixture
def stage(database_url: str, kafka: str) -> Iterator[Stage]:
    stage = Stage(database_url, kafka)
    producing.install(database_url)
    yield stage
    stage.engine.dispose()


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_what_is_published_and_how_old_the_oldest_unpublished_event_is(stage: Stage) -> None:
    shop.confirm(stage.url, stage.topic, 7)
    batches = value("relay_batch_rows_count")
    with producing.relay(stage.url, stage.kafka) as relay:
        relay._rebalance(relay._connected())
        assert value("outbox_oldest_unpublished_age_seconds") > 0
        assert value("relay_shards_held") == 8
        assert relay.step() == 7
        relay._next_rebalance = 0.0
        relay.step()
    assert value("outbox_oldest_unpublished_age_seconds") == 0
    assert value("outbox_published_total", topic=stage.topic) == 7
    assert value("relay_batch_rows_count") == batches + 1


def test_what_is_consumed_applied_suppressed_mismatched_and_parked(stage: Stage) -> None:
    order = streams.order()
    other = streams.with_id(streams.order(cents=1), order.id)
    stage.publish(order, order, streams.order(), other, b"{", partition=0)
    with stage.consumer(observe_s=0) as consumer:
        settle(consumer, 5)
        drive(consumer, lambda: value("dead_letters_open", consumer=stage.name) == 2)
        drive(consumer, lambda: value("inbox_lag_records", consumer=stage.name) == 0)
    seen = {
        name: value(f"{name}_total", consumer=stage.name)
        for name in ("inbox_consumed", "inbox_applied", "inbox_duplicates_suppressed", "inbox_payload_mismatches")
    }
    assert seen == {
        "inbox_consumed": 5, "inbox_applied": 2, "inbox_duplicates_suppressed": 1, "inbox_payload_mismatches": 1,
    }  # fmt: skip
    for reason in ("payload-mismatch", "undecodable"):
        assert value("dead_letters_parked_total", consumer=stage.name, reason=reason) == 1
    assert value("inbox_batch_records_sum", consumer=stage.name) == 5
    assert value("inbox_lag_seconds", consumer=stage.name) == 0
    with Session(stage.engine) as session, session.begin():
        letter = dead_letters.listed(session, stage.name, reason="undecodable")[0]
    dead_letters.repair(stage.engine, letter.id, streams.encoded(streams.order()), CONTRACTS)
    dead_letters.redrive(stage.engine, letter.id, shop.BILLING_HANDLERS, CONTRACTS)
    assert value("dead_letters_redriven_total", consumer=stage.name) == 1


def test_while_a_batch_waits_retries_and_both_lags_grow(stage: Stage) -> None:
    away = [True]

    def impeded(session: Session, received: Sequence[Received]) -> None:
        if away:
            raise Transient("the database is away")
        shop.invoice(session, received)

    stage.publish(*[streams.order() for _ in range(4)], partition=0)
    with stage.consumer({"orders.confirmed": impeded}, observe_s=0, retry_limit_s=0.05) as consumer:
        drive(consumer, grows(lambda: value("inbox_retries_total", consumer=stage.name), 3))
        drive(consumer, lambda: value("inbox_lag_records", consumer=stage.name) == 4)
        drive(consumer, grows(lambda: value("inbox_lag_seconds", consumer=stage.name), 3))
        away.clear()
        settle(consumer, 4)
        drive(consumer, lambda: value("inbox_lag_seconds", consumer=stage.name) == 0)


def grows(figure: Callable[[], float], times: int) -> Callable[[], bool]:
    seen: set[float] = set()

    def check() -> bool:
        seen.add(figure())
        return len(seen) > times

    return check


def test_the_states_of_tasks(stage: Stage) -> None:
    kind = TaskSettings(streams.name("kind"), max_attempts=1)
    with Session(stage.engine) as session, session.begin():
        tasks.add(session, kind.kind, {"a": None, "b": None, "c": None})
        done, failed = tasks.lease(session, kind, 2)
        tasks.complete(session, done)
        tasks.fail(session, kind, failed, "no")
        tasks.counts(session, [kind.kind])
    states = {state: value("tasks", kind=kind.kind, state=state) for state in ("queued", "leased", "dead")}
    assert states == {"queued": 1, "leased": 0, "dead": 1}
    assert value("tasks_done_total", kind=kind.kind) == 1
    assert value("tasks_dead_total", kind=kind.kind) == 1


def test_an_event_sent_again_is_counted_as_published_twice(stage: Stage) -> None:
    shop.confirm(stage.url, stage.topic, 3)
    with producing.relay(stage.url, stage.kafka) as relay, psycopg.connect(stage.url, autocommit=True) as connection:
        assert relay.step() == 3
        assert outbox.republish(connection, datetime.now(UTC) - timedelta(minutes=5)) == 3
        deadline = time.monotonic() + 20
        while relay.step() < 3:
            assert time.monotonic() < deadline
    assert value("outbox_published_total", topic=stage.topic) == 6
