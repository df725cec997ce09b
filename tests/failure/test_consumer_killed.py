"""A consumer killed in each of its crash windows, and its successor.

Whatever happens, each order has its effect once, invoice numbers have no gaps, and what is bad is parked once.
"""

import signal
from collections.abc import Iterator

import pytest

from tests.support.consumer_stage import KINDS, WINDOWS, ConsumerStage, staged
from tests.support.streams import eventually


@pytest.fixture
def stage(kind: str, database_url: str, kafka: str) -> Iterator[ConsumerStage]:
    with staged(kind, database_url, kafka) as stage:
        yield stage


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_in_a_window_the_next_process_settles_everything_once(stage: ConsumerStage, window: str) -> None:
    with stage.consumer(window, "kill") as killed:
        killed.ends_by(signal.SIGKILL)
    with stage.consumer() as successor:
        eventually(stage.is_settled, "the successor has settled everything")
        stage.publish(5)
        eventually(stage.is_settled, "and goes on")
        successor.terminate()
    assert stage.is_settled()
