"""The relay against a real database and a real broker."""

import secrets
import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from shared.messaging import metrics, outbox
from shared.messaging.errors import Misuse, Transient
from shared.messaging.relay import RelaySettings
from tests.support import producing
from tests.support.wait import until


@pytest.fixture
def url(database_url: str) -> str:
    producing.install(database_url)
    return database_url


@pytest.fixture
def topic(kafka: str) -> str:
    return producing.create_topic(kafka)


def test_rows_are_published_once_in_order_and_marked(url: str, kafka: str, topic: str) -> None:
    for key in ("a", "b", "c"):
        producing.emit(url, topic, key, range(50))
    with producing.relay(url, kafka) as relay:
        assert sum(iter(relay.step, 0)) == 150
    assert producing.unpublished(url) == 0
    assert producing.first_occurrences(producing.on_topic(kafka, topic)) == {key: list(range(50)) for key in "abc"}
    assert len(producing.on_topic(kafka, topic)) == 150


def test_a_lower_seq_that_commits_after_a_higher_one_is_published(url: str, kafka: str, topic: str) -> None:
    with producing.relay(url, kafka) as relay, producing.sessions(url) as factory:
        with factory.begin() as late:
            outbox.add(late, producing.counted(1), topic=topic, key="late", contracts=producing.CONTRACTS)
            producing.emit(url, topic, "early", [2])
            assert relay.step() == 1
        assert relay.step() == 1
    assert set(producing.on_topic(kafka, topic)) == {("late", 1), ("early", 2)}


def test_rows_of_a_rolled_back_transaction_never_reach_the_topic(url: str, kafka: str, topic: str) -> None:
    with producing.relay(url, kafka) as relay, producing.sessions(url) as factory:
        with factory() as session, session.begin() as transaction:
            outbox.add(session, producing.counted(1), topic=topic, key="a", contracts=producing.CONTRACTS)
            transaction.rollback()
        assert relay.step() == 0
    assert producing.on_topic(kafka, topic) == []


def test_a_large_backlog_grows_the_batches_to_the_limit(url: str, kafka: str, topic: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO outbox (event_id, topic, key, value, headers) SELECT uuidv7(), %s, i::text, '{}', '{}'"
            " FROM generate_series(1, 5000) AS i",
            (topic,),
        )
    with producing.relay(url, kafka) as relay:
        steps = [relay.step()]
        while steps[-1]:
            steps.append(relay.step())
    assert sum(steps) == 5000
    assert steps[0] <= 800
    assert 1500 < max(steps) <= 2000


def test_a_hint_wakes_the_relay_long_before_it_would_look_again(url: str, kafka: str, topic: str) -> None:
    hinter = outbox.Hinter(url)
    with producing.relay(url, kafka) as relay, producing.sessions(url) as factory:
        hinter.watch(factory)
        _idle(relay)
        with factory.begin() as session:
            with session.begin_nested():
                outbox.add(session, producing.counted(1), topic=topic, key="a", contracts=producing.CONTRACTS)
            session.info["a released savepoint must not use up the hint"] = True
        started = time.monotonic()
        relay.wait(0.9)
        assert time.monotonic() - started < 0.5
        assert relay.step() == 1
    hinter.close()


def test_a_hint_between_the_last_look_and_the_wait_is_not_lost(url: str, kafka: str) -> None:
    with producing.relay(url, kafka) as relay, psycopg.connect(url, autocommit=True) as other:
        _idle(relay)
        assert relay.step() == 0
        other.execute(f"NOTIFY {outbox.CHANNEL}")
        started = time.monotonic()
        relay.wait(0.9)
        assert time.monotonic() - started < 0.5


def test_hints_that_came_during_the_work_are_used_up_by_one_look(url: str, kafka: str) -> None:
    """Left in line, each would wake the relay for nothing, and under load the line would only grow."""
    with producing.relay(url, kafka) as relay, psycopg.connect(url, autocommit=True) as other:
        _idle(relay)
        for _ in range(50):
            other.execute(f"NOTIFY {outbox.CHANNEL}")
            relay._connected().execute("SELECT 1")
        assert relay.step() == 0
        assert list(relay._connected().notifies(timeout=0)) == []
        for _ in range(50):
            other.execute(f"NOTIFY {outbox.CHANNEL}")
            relay._connected().execute("SELECT 1")
        relay.wait(0.9)
        assert list(relay._connected().notifies(timeout=0)) == []


def test_without_any_hint_the_rows_are_found_at_the_next_look(url: str, kafka: str, topic: str) -> None:
    with producing.relay(url, kafka) as relay:
        _idle(relay)
        producing.emit(url, topic, "a", [1])
        started = time.monotonic()
        relay.wait(0.3)
        assert time.monotonic() - started < 1
        assert relay.step() == 1


def test_an_idle_relay_looks_ever_more_rarely_and_keeps_its_session(url: str, kafka: str) -> None:
    settings = RelaySettings(lease_s=1.0, rebalance_every_s=0.1)
    with producing.relay(url, kafka, settings) as relay:
        deadline, looks = time.monotonic() + 2.5, 0
        while time.monotonic() < deadline:
            relay.step()
            relay.wait(10.0)
            looks += 1
        assert len(relay.shards) == 8
        assert looks < 20
        assert _sessions(url) == 1


def test_a_relay_configured_for_other_shards_refuses_to_start(url: str, kafka: str) -> None:
    with (
        producing.relay(url, kafka, RelaySettings(shards=4)) as relay,
        pytest.raises(Misuse, match=r"8 shards.*configured for 4"),
    ):
        relay.step()


def test_shards_are_shared_fairly_when_relays_come_and_go(url: str, kafka: str) -> None:
    with producing.relay(url, kafka) as first:
        first.step()
        assert len(first.shards) == 8
        with producing.relay(url, kafka) as second, producing.relay(url, kafka) as third:
            until(
                lambda: (
                    [r.step() for r in (first, second, third)]
                    and sorted(len(r.shards) for r in (first, second, third)) == [2, 3, 3]
                ),
                "three relays share 8 shards",
            )
            held = [*first.shards, *second.shards, *third.shards]
            assert sorted(held) == list(range(8))
        until(lambda: first.step() == 0 and len(first.shards) == 8, "the last relay has all shards again")


def test_key_order_holds_while_relays_are_added_and_removed(url: str, kafka: str, topic: str) -> None:
    """Several events per key, written all the time; three relays in threads that come and go."""
    written = threading.Event()

    def write() -> None:
        with producing.sessions(url) as factory:
            for n in range(150):
                with factory.begin() as session:
                    for key in "abcdefgh":
                        outbox.add(session, producing.counted(n), topic=topic, key=key, contracts=producing.CONTRACTS)
        written.set()

    def work(until_when: threading.Event) -> None:
        with producing.relay(url, kafka) as relay:
            while not until_when.is_set():
                if producing.stepped(relay) == 0:
                    relay.wait(0.05)

    writer, done = threading.Thread(target=write), threading.Event()
    writer.start()
    permanent = threading.Thread(target=work, args=(done,))
    permanent.start()
    while not written.is_set():
        leave = threading.Event()
        guests = [threading.Thread(target=work, args=(leave,)) for _ in range(2)]
        for guest in guests:
            guest.start()
        written.wait(0.7)
        leave.set()
        for guest in guests:
            guest.join(20)
    producing.drained(url)
    done.set()
    permanent.join(20)
    writer.join(20)
    records = producing.on_topic(kafka, topic)
    assert producing.first_occurrences(records) == {key: list(range(150)) for key in "abcdefgh"}


def test_a_lost_session_drops_the_batch_and_starts_again(url: str, kafka: str, topic: str) -> None:
    producing.emit(url, topic, "a", [1])
    with producing.relay(url, kafka) as relay:
        assert producing.stepped(relay) == 1
        producing.emit(url, topic, "a", [2])
        _terminate_relays(url)
        with pytest.raises(Transient):
            relay.step()
        assert producing.stepped(relay) == 1
        _terminate_relays(url)
        relay.wait(0.2)  # noticed while idle: not an error, the next step connects again
        assert relay.step() == 0
    assert producing.on_topic(kafka, topic) == [("a", 1), ("a", 2)]


def test_a_topic_that_does_not_exist_yet_is_waited_for_and_stops_no_other(url: str, kafka: str, topic: str) -> None:
    away = f"test.{uuid4().hex[:12]}"
    producing.emit(url, away, "a", [1, 2])
    producing.emit(url, topic, "a", [3])
    with producing.relay(url, kafka, RelaySettings(recheck_refused_every_s=0.2)) as relay:
        until(lambda: relay.step() == 0 and producing.unpublished(url) == 2, "the other topic's row is sent")
        assert metrics.ROWS_REFUSED._value.get() == 1
        assert producing.on_topic(kafka, topic) == [("a", 3)]
        producing.create_topic(kafka, name=away)
        until(lambda: relay.step() == 0 and producing.unpublished(url) == 0, "the topic is there now")
    assert producing.on_topic(kafka, away) == [("a", 1), ("a", 2)]
    assert metrics.ROWS_REFUSED._value.get() == 0


def test_later_refusals_do_not_put_off_the_next_try_of_the_first(url: str, kafka: str, narrow_topic: str) -> None:
    with producing.relay(url, kafka, RelaySettings(recheck_refused_every_s=0.6)) as relay:
        _insert_large(url, narrow_topic, "first")
        relay.step()
        due = relay._refusals._forget_at
        _insert_large(url, narrow_topic, "second")
        relay.step()
        assert relay._refusals._forget_at == due


@pytest.fixture
def narrow_topic(kafka: str) -> str:
    return producing.create_topic(kafka, config={"max.message.bytes": "300000"})


def _insert_large(url: str, topic: str, key: str) -> None:
    """Random, because the broker measures what is left after compression."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO outbox (event_id, topic, key, value, headers) VALUES (uuidv7(), %s, %s, %s, '{}')",
            (topic, key, b'{"data": {"n": 2, "x": "' + secrets.token_hex(350_000).encode() + b'"}}'),
        )


def test_a_row_too_large_for_its_topic_holds_back_its_key_only(url: str, kafka: str, narrow_topic: str) -> None:
    producing.emit(url, narrow_topic, "a", [1])
    _insert_large(url, narrow_topic, "a")
    producing.emit(url, narrow_topic, "a", [3])
    producing.emit(url, narrow_topic, "b", [1, 2])
    with producing.relay(url, kafka, RelaySettings(recheck_refused_every_s=0.2)) as relay:
        assert relay.step() == 3
        assert relay.step() == 0
        assert metrics.ROWS_REFUSED._value.get() == 1
        assert sorted(producing.on_topic(kafka, narrow_topic)) == [("a", 1), ("b", 1), ("b", 2)]
        # A person raises the topic's limit: the key goes on, in order, without a restart.
        _set_limit(kafka, narrow_topic, 900_000)
        until(lambda: relay.step() == 2, "the key goes on")
    assert producing.first_occurrences(producing.on_topic(kafka, narrow_topic))["a"] == [1, 2, 3]


def test_a_refusal_by_the_broker_lets_nothing_of_the_key_overtake(url: str, kafka: str) -> None:
    """The limit is lowered behind the relay's back: the producer stops at the refused record."""
    topic = producing.create_topic(kafka, partitions=1, config={"max.message.bytes": "900000"})
    producing.emit(url, topic, "a", [0])
    with producing.relay(url, kafka) as relay:
        assert relay.step() == 1  # the limit is known now
        _set_limit(kafka, topic, 300_000)
        producing.emit(url, topic, "a", [1])
        _insert_large(url, topic, "a")
        producing.emit(url, topic, "a", [3])
        with pytest.raises(Transient):
            relay.step()
        while relay.step():
            pass
    assert producing.first_occurrences(producing.on_topic(kafka, topic)) == {"a": [0, 1]}
    assert producing.unpublished(url) == 2


def _set_limit(bootstrap: str, topic: str, limit: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(limit), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(20)


def _idle(relay: object) -> None:
    """Past the short first looks."""
    for _ in range(7):
        relay.step()  # type: ignore[attr-defined]
        relay.wait(0.3)  # type: ignore[attr-defined]


def _sessions(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'orders-relay'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def _terminate_relays(url: str) -> Iterator[None] | None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'orders-relay'"
        )
    return None
