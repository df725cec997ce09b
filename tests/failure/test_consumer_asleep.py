"""A consumer asleep in each of its crash windows, beyond every time-out: another takes over, then the sleeper wakes.

Whatever happens, each order has its effect once, invoice numbers have no gaps, and what is bad is parked once.
"""

from collections.abc import Iterator

import pytest

from tests.support.consumer_stage import KINDS, WINDOWS, ConsumerStage, staged
from tests.support.processes import LONG
from tests.support.streams import eventually


@pytest.fixture
def stage(kind: str, database_url: str, kafka: str) -> Iterator[ConsumerStage]:
    with staged(kind, database_url, kafka) as stage:
        yield stage


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_asleep_in_a_window_beyond_every_time_out_it_wakes_and_does_no_harm(stage: ConsumerStage, window: str) -> None:
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
def test_a_sleeper_whose_replica_slot_was_taken_is_fenced_and_ends(stage: ConsumerStage) -> None:
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
