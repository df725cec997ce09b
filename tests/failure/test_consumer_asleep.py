"""A consumer asleep in each of its crash windows, beyond every time-out: another takes over, then the sleeper wakes.

Whatever happens, each order has its effect once, invoice numbers have no gaps, and what is bad is parked once.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.consumer_stage import KINDS, WINDOWS, ConsumerStage, staged
from tests.support.processes import LONG, Child
from tests.support.streams import eventually


@pytest.fixture
def stage(kind: str, database_url: str, kafka: str) -> Iterator[ConsumerStage]:
    with staged(kind, database_url, kafka) as stage:
        yield stage


def settles_as_supervised(stage: ConsumerStage, running: list[Child], restarted: ExitStack, what: str) -> None:
    """Sleeper and successor may have the same group.instance.id: Kafka then lets only one of them speak, and it may be
    the one that woke up. Whoever is fenced ends, and its supervisor starts it again, with a free slot."""

    def look() -> bool:
        if not any(child.is_running() for child in running):
            running.append(restarted.enter_context(stage.consumer()))
        return stage.is_settled()

    eventually(look, what)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_asleep_in_a_window_beyond_every_time_out_it_wakes_and_does_no_harm(stage: ConsumerStage, window: str) -> None:
    with ExitStack() as children:
        sleeper = children.enter_context(stage.consumer(window, LONG))
        sleeper.stops()
        successor = children.enter_context(stage.consumer())
        eventually(stage.is_settled, "the successor has taken over and settled everything")
        eventually(lambda: stage.slots_held() == 1, "the sleeper has lost its slot")
        stage.publish(5)
        eventually(stage.is_settled, "the successor goes on")
        sleeper.wake()
        stage.publish(20)
        settles_as_supervised(stage, [sleeper, successor], children, "with the sleeper awake")
    assert stage.count("dead_letters") == 1
    with stage.consumer():
        stage.publish(5)
        eventually(stage.is_settled, "nothing was lost")


@pytest.mark.parametrize("kind", KINDS)
def test_of_two_with_the_same_replica_slot_one_is_fenced_and_ends(stage: ConsumerStage) -> None:
    """One group.instance.id: Kafka lets only one of them speak, and the database only one hold the slot."""
    with ExitStack() as children:
        sleeper = children.enter_context(stage.consumer("before_commit", LONG))
        sleeper.stops()
        eventually(lambda: stage.slots_held() == 0, "the sleeper has lost its slot")
        successor = children.enter_context(stage.consumer())
        eventually(stage.is_settled, "the successor has settled everything")
        sleeper.wake()
        eventually(lambda: not (sleeper.is_running() and successor.is_running()), "one of them has ended")
        fenced = successor if sleeper.is_running() else sleeper
        fenced.ends_with(1)
        stage.publish(5)
        settles_as_supervised(stage, [sleeper, successor], children, "and the work goes on")
