"""What is received while a transaction runs: it must neither be lost nor overtake the batch in hand."""

from collections.abc import Iterator
from typing import Self

import pytest
from confluent_kafka import Message
from pydantic import model_validator
from sqlalchemy.orm import Session

from shared.contracts import CONTRACTS
from shared.contracts.orders_confirmed import OrderConfirmed
from shared.messaging import dead_letters
from shared.messaging.consumer import ConsumerSettings, InboxConsumer
from tests.integration.test_consumer import Stage, drive, subjects
from tests.support import shop, streams


class Fragile(OrderConfirmed):
    """A contract with a bug."""

    @model_validator(mode="after")
    def _divide(self) -> Self:
        if self.lines[0].sku == "fragile":
            raise ZeroDivisionError
        return self


@pytest.fixture
def stage(database_url: str, kafka: str) -> Iterator[Stage]:
    stage = Stage(database_url, kafka)
    yield stage
    stage.engine.dispose()


def test_a_record_that_cannot_even_be_read_is_parked_and_takes_no_neighbour_with_it(stage: Stage) -> None:
    """It is met while another batch is in its transaction: that batch is not to blame."""
    orders = [streams.order(sku="fragile" if n == 12 else "tea") for n in range(20)]
    stage.publish(*orders, partition=0)
    wanted = ConsumerSettings(stage.name, (stage.topic,), stage.kafka, batch_size=5, poll_ms=100)
    with InboxConsumer(wanted, stage.engine, shop.BILLING_HANDLERS, {"orders.confirmed": Fragile}) as consumer:
        drive(consumer, lambda: stage.applied() == subjects(orders[:12] + orders[13:]))
    with Session(stage.engine) as session:
        (letter,) = dead_letters.listed(session)
    assert letter.reason == "handler-failed"
    assert "ZeroDivisionError" in letter.error
    assert dead_letters.redrive(stage.engine, letter.id, shop.BILLING_HANDLERS, CONTRACTS) == "applied"
    assert sorted(stage.applied()) == sorted(subjects(orders))


def test_records_that_arrive_while_their_partition_is_taken_away_do_not_overtake_those_that_were_dropped(
    stage: Stage,
) -> None:
    """Storing their offset would skip the records in hand: nobody has applied them, and Kafka knows no offset yet."""
    orders = [streams.order() for _ in range(10)]
    stage.publish(*orders, partition=0)
    consumer = stage.consumer(batch_size=5)
    intake, taken_away = consumer._intake, list[Message]()
    consume = intake._consume

    def taken_away_meanwhile(most: int, timeout_s: float) -> list[Message]:
        messages = consume(most, timeout_s)
        if timeout_s == 0 and messages:
            intake._on_revoke(intake._kafka, intake._kafka.assignment())
            taken_away.extend(messages)
        return messages

    intake._consume = taken_away_meanwhile  # type: ignore[method-assign]
    drive(consumer, lambda: bool(taken_away))
    for _ in range(5):
        consumer.step()
    consumer.close(clean=False)
    with stage.consumer() as successor:
        drive(successor, lambda: stage.applied() == subjects(orders))
