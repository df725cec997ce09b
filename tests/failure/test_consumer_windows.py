"""Every crash window of a consumer: killed in it, and asleep in it while another process takes over and then waking.

Whatever happens, each order has its effect once, invoice numbers have no gaps, and what is bad is parked once.
"""

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import pytest

from shared.messaging.event import Event
from tests.support import shop, streams
from tests.support.processes import LONG, Child
from tests.support.streams import eventually

WINDOWS = ("after_receive", "after_claim", "before_commit", "after_commit", "after_offset", "before_park")
KINDS = ("billing", "analytics")


@dataclass
class Stage:
    """A topic with orders and one bad event on it, and a database."""

    kind: str
    url: str
    kafka: str
    topic: str
    name: str
    orders: list[Event] = field(default_factory=list)

    def publish(self, count: int) -> None:
        orders = [streams.order() for _ in range(count)]
        streams.publish(self.kafka, self.topic, orders)
        self.orders += orders

    def consumer(self, window: str = "", action: str = "") -> AbstractContextManager[Child]:
        failpoints = f"{self.name}.consumer.{window}={action}" if window else ""
        return shop.consumer_process(self.kind, self.name, self.url, self.kafka, self.topic, failpoints=failpoints)

    def all_applied(self) -> bool:
        return shop.applied(self.kind, self.url) == sorted(order.subject for order in self.orders)

    def is_settled(self) -> bool:
        return self.all_applied() and self.count("dead_letters") == 1

    def count(self, table: str) -> int:
        return streams.scalar(self.url, f"SELECT count(*) FROM {table}")

    def slots_held(self) -> int:
        return streams.scalar(
            self.url, "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", f"{self.name}-slot"
        )


@pytest.fixture
def stage(kind: str, database_url: str, kafka: str) -> Iterator[Stage]:
    streams.install(database_url, shop.TABLES[kind])
    shop.make_impatient(database_url)
    stage = Stage(kind, database_url, kafka, streams.create_topic(kafka), streams.name(kind))
    stage.publish(12)
    streams.publish(kafka, stage.topic, [b"{not an event"], partition=0)
    stage.publish(12)
    yield stage
    assert stage.count("handling_attempts") == 0
    assert stage.count("inbox") == len(stage.orders)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_in_a_window_the_next_process_settles_everything_once(stage: Stage, window: str) -> None:
    with stage.consumer(window, "kill") as killed:
        killed.ends_by(signal.SIGKILL)
    with stage.consumer() as successor:
        eventually(stage.is_settled, "the successor has settled everything")
        stage.publish(5)
        eventually(stage.is_settled, "and goes on")
        successor.terminate()
    assert stage.is_settled()


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_asleep_in_a_window_beyond_every_time_out_it_wakes_and_does_no_harm(stage: Stage, window: str) -> None:
    with stage.consumer(window, LONG) as sleeper:
        sleeper.stops()
        with stage.consumer() as successor:
            eventually(stage.is_settled, "the successor has taken over and settled everything")
            eventually(lambda: stage.slots_held() == 1, "the sleeper has lost its slot")
            stage.publish(5)
            eventually(stage.is_settled, "the successor goes on")
            sleeper.wake()
            stage.publish(20)
            eventually(stage.is_settled, "with the sleeper awake")
            successor.terminate()
            # Fenced, it ends; or it has joined the group again and now has everything.
            if sleeper.is_running():
                stage.publish(5)
                eventually(lambda: stage.is_settled() or not sleeper.is_running(), "the sleeper works or ends")
    assert stage.count("dead_letters") == 1
    with stage.consumer():
        eventually(stage.is_settled, "nothing was lost")


@pytest.mark.parametrize("kind", KINDS)
def test_a_sleeper_whose_replica_slot_was_taken_is_fenced_and_ends(stage: Stage) -> None:
    """Its successor has the same group.instance.id: Kafka lets only one of them speak."""
    with stage.consumer("before_commit", LONG) as sleeper:
        sleeper.stops()
        eventually(lambda: stage.slots_held() == 0, "the sleeper has lost its slot")
        with stage.consumer() as successor:
            eventually(stage.is_settled, "the successor has settled everything")
            sleeper.wake()
            sleeper.ends_with(1)
            stage.publish(5)
            eventually(stage.is_settled, "the successor is not disturbed")
            successor.terminate()
