"""Every crash window of the relay: killed in it, and asleep in it while another relay takes over and then waking.

Nothing is lost, and the first occurrences of each key's events are in order on the topic, so that an inbox that drops
the repetitions sees every event once and in order.
"""

import signal
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from shared.messaging import outbox
from tests.support import producing, streams
from tests.support.processes import LONG, Child
from tests.support.streams import eventually

WINDOWS = ("after_claim", "after_produce", "after_ack")
KEYS = "abcdefgh"


@dataclass
class Stage:
    url: str
    kafka: str
    topic: str
    emitted: list[int] = field(default_factory=list)

    def emit(self, count: int) -> None:
        numbers = range(len(self.emitted), len(self.emitted) + count)
        for key in KEYS:
            producing.emit(self.url, self.topic, key, numbers)
        self.emitted += numbers

    def relay(self, window: str = "", action: str = "") -> AbstractContextManager[Child]:
        failpoints = f"orders.relay.{window}={action}" if window else ""
        return producing.relay_process(self.url, self.kafka, failpoints=failpoints)

    def is_drained(self) -> bool:
        return producing.unpublished(self.url) == 0

    def relays(self) -> int:
        return streams.scalar(
            self.url,
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'orders-relay'",
        )


@pytest.fixture
def stage(database_url: str, kafka: str) -> Stage:
    producing.install(database_url)
    stage = Stage(database_url, kafka, producing.create_topic(kafka))
    stage.emit(20)
    return stage


def check(stage: Stage) -> int:
    """How many records are on the topic, after checking what they are."""
    records = producing.on_topic(stage.kafka, stage.topic)
    assert producing.first_occurrences(records) == dict.fromkeys(KEYS, stage.emitted)
    return len(records)


@pytest.mark.parametrize("window", WINDOWS)
def test_killed_in_a_window_the_next_relay_publishes_the_rest_in_order(stage: Stage, window: str) -> None:
    with stage.relay(window, "kill") as killed:
        killed.ends_by(signal.SIGKILL)
    assert not stage.is_drained(), "nothing was marked"
    stage.emit(5)
    with stage.relay() as successor:
        eventually(stage.is_drained, "the successor has published everything")
        successor.terminate()
    published = check(stage)
    if window == "after_claim":
        assert published == 25 * len(KEYS), "nothing had been sent, so nothing is there twice"
    if window == "after_ack":
        assert published > 25 * len(KEYS), "what was on the topic but not marked is there twice"


@pytest.mark.parametrize("window", WINDOWS)
def test_asleep_in_a_window_beyond_its_lease_it_wakes_and_the_order_still_holds(stage: Stage, window: str) -> None:
    with stage.relay(window, LONG) as sleeper:
        sleeper.stops()
        with stage.relay() as successor:
            eventually(lambda: stage.relays() == 1, "the sleeper has lost its session, and with it its shards")
            stage.emit(5)
            eventually(stage.is_drained, "the successor has published everything")
            sleeper.wake()
            stage.emit(20)
            eventually(stage.is_drained, "with the sleeper awake")
            eventually(lambda: stage.relays() == 2, "the sleeper works again, in a new session")
            stage.emit(20)
            eventually(stage.is_drained, "by both")
            sleeper.terminate()
            successor.terminate()
    check(stage)


def test_a_relay_stopped_anywhere_for_longer_than_everything_loses_nothing(stage: Stage) -> None:
    """Not at a chosen place this time: wherever the signal finds it, over and over."""
    with stage.relay() as often_stopped, stage.relay():
        for _ in range(3):
            stage.emit(10)
            often_stopped.stop()
            eventually(lambda: stage.relays() == 1, "it has lost its session")
            stage.emit(10)
            eventually(stage.is_drained, "the other one goes on alone")
            often_stopped.wake()
        eventually(lambda: stage.relays() == 2, "it works again")
    check(stage)


def test_a_relay_stopped_while_it_reads_a_large_batch_loses_its_shards_too(stage: Stage) -> None:
    """Its session is not idle then: the server waits for a client that takes nothing."""
    with producing.relay(stage.url, stage.kafka, producing.QUICK) as reader, stage.relay():
        reader.step()
        assert reader._connection is not None
        reader._connection.pgconn.send_query(b"SELECT repeat('x', 1000000) FROM generate_series(1, 100)")
        stage.emit(5)
        eventually(stage.is_drained, "another relay has its shards")
    check(stage)


def test_two_relay_processes_that_come_and_go_keep_the_order_of_every_key(stage: Stage) -> None:
    with stage.relay():
        for _ in range(2):
            with stage.relay() as guest:
                eventually(lambda: stage.relays() == 2, "two relays")
                stage.emit(30)
                guest.terminate()
            with stage.relay("after_ack", "kill") as guest:
                stage.emit(30)
                eventually(lambda: stage.is_drained() or not guest.is_running(), "published, or the guest is dead")
        eventually(stage.is_drained, "everything is published")
    check(stage)


def test_events_sent_again_on_purpose_are_the_same_bytes_in_the_same_order(stage: Stage) -> None:
    with psycopg.connect(stage.url, autocommit=True) as connection, stage.relay():
        eventually(stage.is_drained, "published")
        since = datetime.now(UTC) - timedelta(hours=1)
        assert outbox.republish(connection, since, chunk=50) == 20 * len(KEYS)
        eventually(stage.is_drained, "published again")
    assert check(stage) == 40 * len(KEYS)
