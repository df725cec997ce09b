"""What is received while a transaction runs: it must neither be lost nor overtake the batch in hand."""

from collections.abc import Iterator, Sequence
from typing import Self

import pytest
from confluent_kafka import Message
from pydantic import model_validator
from sqlalchemy.orm import Session

from shared.contracts.orders_confirmed import OrderConfirmed
from shared.messaging.consumer import ConsumerSettings, InboxConsumer
from shared.messaging.errors import Transient
from shared.messaging.records import Received
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


def test_a_record_that_cannot_even_be_read_ends_the_process_and_takes_no_neighbour_with_it(stage: Stage) -> None:
    """It is met while a batch is in its transaction: that batch is not to blame, and what came along is not lost."""
    orders = [streams.order(sku="fragile" if n == 12 else "tea") for n in range(20)]
    stage.publish(*orders, partition=0)
    wanted = ConsumerSettings(stage.name, (stage.topic,), stage.kafka, batch_size=5, poll_ms=100)
    consumer = InboxConsumer(wanted, stage.engine, shop.BILLING_HANDLERS, {"orders.confirmed": Fragile})
    with pytest.raises(ZeroDivisionError):
        drive(consumer, lambda: False, within_s=15)
    consumer.close(clean=False)
    with stage.consumer() as repaired:
        drive(repaired, lambda: stage.applied() == subjects(orders))
    assert stage.letters() == []


def test_records_that_arrive_while_their_partition_is_taken_away_do_not_overtake_the_batch_that_failed(
    stage: Stage,
) -> None:
    """Storing their offset would skip that batch: nobody else has applied it, and Kafka knows no offset yet."""
    orders = [streams.order() for _ in range(10)]
    stage.publish(*orders, partition=0)

    def failing(session: Session, received: Sequence[Received]) -> None:
        raise Transient("planted")

    consumer = stage.consumer({"orders.confirmed": failing}, batch_size=5)
    receive_one = consumer._consume

    def taken_away_meanwhile(most: int, timeout_s: float) -> list[Message]:
        messages = receive_one(most, timeout_s)
        if consumer._working and messages:
            consumer._on_revoke(consumer._kafka, consumer._kafka.assignment())
            consumer._handlers = shop.BILLING_HANDLERS
        return messages

    consumer._consume = taken_away_meanwhile  # type: ignore[method-assign]
    drive(consumer, lambda: consumer._handlers is shop.BILLING_HANDLERS)
    for _ in range(5):
        consumer.step()
    consumer.close(clean=False)
    with stage.consumer() as successor:
        drive(successor, lambda: stage.applied() == subjects(orders))
