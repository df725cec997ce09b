"""Partitions: made ahead, dropped when nobody can need them, and never with something unpublished in them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from sqlalchemy.orm import Session

from shared.contracts import CONTRACTS
from shared.messaging import inbox, metrics, outbox, retention, schema
from shared.messaging.database_errors import translated
from shared.messaging.errors import BeyondDedupeWindow, PartitionMissing, Transient
from shared.messaging.event import Event
from shared.runtime import database
from tests.support import producing, streams
from tests.support.streams import eventually

Connection = psycopg.Connection


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        schema.install(connection, "outbox", "inbox")
        yield connection


def days_ago(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def names(connection: Connection, table: str) -> list[str]:
    return [partition.name for partition in retention.partitions(connection, table)]


def insert(connection: Connection, event: Event, *, published: bool) -> None:
    connection.execute(
        "INSERT INTO outbox (event_id, topic, key, value, headers, published_at) VALUES (%s, 't', 'k', '', '{}', %s)",
        (event.id, datetime.now(UTC) if published else None),
    )


def floor(connection: Connection) -> UUID:
    row = connection.execute("SELECT floor FROM inbox_floor").fetchone()
    assert row is not None
    found: UUID = row[0]
    return found


def test_partitions_reach_ahead_without_a_gap_and_a_second_run_makes_none(connection: Connection) -> None:
    assert retention.create_partitions(connection, "outbox", back_days=1, ahead_days=14) == 16
    assert retention.create_partitions(connection, "outbox", back_days=1, ahead_days=14) == 0
    assert retention.days_ahead(connection, "outbox") == 15
    connection.execute(f"DROP TABLE outbox_{days_ago(-1):%Y%m%d}".encode())
    assert retention.days_ahead(connection, "outbox") == 1


def test_readiness_fails_with_fewer_than_two_days_ahead(connection: Connection, database_url: str) -> None:
    engine = database.engine(database_url, "test")
    check = retention.ahead(engine, "inbox")
    retention.create_partitions(connection, "inbox", ahead_days=0)
    assert "1 day(s)" in (check() or "")
    retention.create_partitions(connection, "inbox", ahead_days=2)
    assert check() is None
    engine.dispose()


def test_runs_at_the_same_time_do_no_harm(connection: Connection, database_url: str) -> None:
    def run(_: int) -> int:
        with psycopg.connect(database_url, autocommit=True) as own:
            made = retention.create_partitions(own, "inbox", back_days=20, ahead_days=2)
            retention.drop_expired(own, "inbox", keep_days=5, lock_timeout_ms=20_000)
            return made

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(run, range(4))) >= 23
    assert len(names(connection, "inbox")) == 8
    assert floor(connection) == retention.first_id(days_ago(5).date())


def test_expired_days_are_dropped_and_the_floor_is_raised_with_them(connection: Connection) -> None:
    retention.create_partitions(connection, "inbox", back_days=10)
    dropped = retention.drop_expired(connection, "inbox", keep_days=7)
    assert dropped == [f"inbox_{days_ago(days):%Y%m%d}" for days in (10, 9, 8)]
    assert floor(connection) == retention.first_id(days_ago(7).date())
    assert retention.drop_expired(connection, "inbox", keep_days=7) == []


def test_a_partition_with_an_unpublished_event_is_kept_loudly(connection: Connection) -> None:
    retention.create_partitions(connection, "outbox", back_days=10)
    late = streams.order(at=days_ago(10))
    insert(connection, late, published=False)
    insert(connection, streams.order(at=days_ago(9)), published=True)
    before = metrics.PARTITIONS_KEPT._value.get()
    assert retention.drop_expired(connection, "outbox", keep_days=8) == [f"outbox_{days_ago(9):%Y%m%d}"]
    assert metrics.PARTITIONS_KEPT._value.get() == before + 1
    connection.execute("UPDATE outbox SET published_at = now() WHERE event_id = %s", (late.id,))
    assert retention.drop_expired(connection, "outbox", keep_days=8) == [f"outbox_{days_ago(10):%Y%m%d}"]


def test_an_insert_in_flight_is_seen_before_its_partition_is_dropped(connection: Connection, database_url: str) -> None:
    """Lock, then check: the check after the lock sees what was committed while the lock was awaited."""
    retention.create_partitions(connection, "outbox", back_days=10)
    answers: list[list[str]] = []

    def drop() -> None:
        with psycopg.connect(database_url, autocommit=True) as own:
            answers.append(retention.drop_expired(own, "outbox", keep_days=9, lock_timeout_ms=20_000))

    with psycopg.connect(database_url) as writer:
        insert(writer, streams.order(at=days_ago(10)), published=False)
        dropping = threading.Thread(target=drop)
        dropping.start()
        eventually(lambda: waiting(database_url) == 1, "housekeeping waits for the insert")
        writer.commit()
    dropping.join(20)
    assert answers == [[]]
    assert streams.scalar(database_url, "SELECT count(*) FROM outbox WHERE published_at IS NULL") == 1


def test_an_insert_that_comes_too_late_is_told_that_its_day_is_gone(connection: Connection, database_url: str) -> None:
    retention.create_partitions(connection, "outbox", back_days=10)
    late = streams.order(at=days_ago(10))
    outcome: list[type[Exception]] = []

    def write() -> None:
        with psycopg.connect(database_url, autocommit=True) as own:
            try:
                with translated():
                    insert(own, late, published=False)
            except PartitionMissing as error:
                outcome.append(type(error))

    with connection.transaction():
        retention.drop_expired(connection, "outbox", keep_days=9)
        writing = threading.Thread(target=write)
        writing.start()
        eventually(lambda: waiting(database_url) == 1, "the insert waits for housekeeping")
    writing.join(20)
    assert outcome == [PartitionMissing]


def test_housekeeping_gives_up_soon_when_somebody_holds_the_table(connection: Connection, database_url: str) -> None:
    retention.create_partitions(connection, "inbox", back_days=10)
    with psycopg.connect(database_url) as reader:
        reader.execute("SELECT * FROM inbox")
        with pytest.raises(Transient):
            retention.drop_expired(connection, "inbox", keep_days=9, lock_timeout_ms=100)
    assert floor(connection) <= retention.first_id(days_ago(10).date()), "nothing was half done"
    assert len(retention.drop_expired(connection, "inbox", keep_days=9)) == 1


def test_housekeeping_takes_its_locks_in_the_order_of_a_claim(connection: Connection, database_url: str) -> None:
    """A claim has the table before the floor. The other way round the two would wait for each other."""
    retention.create_partitions(connection, "inbox", back_days=10)
    with psycopg.connect(database_url) as claiming:
        claiming.execute("LOCK TABLE inbox IN ROW EXCLUSIVE MODE")
        dropping = threading.Thread(target=drop_patiently, args=(database_url,))
        dropping.start()
        eventually(lambda: waiting(database_url) == 1, "housekeeping waits for the claim")
        claiming.execute("SET lock_timeout = '2s'")
        claiming.execute("SELECT floor FROM inbox_floor FOR SHARE")
    dropping.join(20)
    assert floor(connection) == retention.first_id(days_ago(9).date())


def drop_patiently(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        retention.drop_expired(connection, "inbox", keep_days=9, lock_timeout_ms=10_000)


def test_a_claim_after_the_drop_finds_its_event_beyond_the_window(connection: Connection, database_url: str) -> None:
    retention.create_partitions(connection, "inbox", back_days=10)
    old = streams.received(streams.order(at=days_ago(9)))
    engine = database.engine(database_url, "test")
    with Session(engine) as session, session.begin():
        assert inbox.claim(session, "billing", [old]).fresh == [old]
    retention.drop_expired(connection, "inbox", keep_days=5)
    with Session(engine) as session, session.begin():
        assert [type(problem) for _, problem in inbox.claim(session, "billing", [old]).refused] == [BeyondDedupeWindow]
    engine.dispose()


def test_an_event_older_than_a_new_inbox_is_refused_and_does_not_wait_for_a_partition_for_ever(
    connection: Connection, database_url: str
) -> None:
    """Nothing has been dropped yet, so no drop has raised the floor; and nobody will ever make that partition."""
    retention.create_partitions(connection, "inbox", back_days=3)
    engine = database.engine(database_url, "test")
    ancient = streams.received(streams.order(at=days_ago(400)))
    with Session(engine) as session, session.begin():
        refused = inbox.claim(session, "billing", [ancient]).refused
    assert [type(problem) for _, problem in refused] == [BeyondDedupeWindow]
    engine.dispose()


def test_the_first_event_of_a_day_without_a_partition_fails_its_transaction_and_works_later(
    connection: Connection, database_url: str
) -> None:
    engine = database.engine(database_url, "test")
    order = streams.order()

    def emit() -> None:
        with Session(engine) as session, session.begin():
            outbox.add(session, order, topic="orders", key=order.subject, contracts=CONTRACTS)

    with pytest.raises(PartitionMissing):
        emit()
    retention.create_partitions(connection, "outbox", ahead_days=0)
    emit()
    assert producing.unpublished(database_url) == 1
    engine.dispose()


def test_a_window_must_cover_what_the_topic_and_the_outbox_may_still_deliver(kafka: str) -> None:
    day_ms = 86_400_000
    topic = streams.create_topic(kafka, 1, **{"retention.ms": str(7 * day_ms), "segment.ms": str(day_ms)})
    admin = AdminClient({"bootstrap.servers": kafka})

    def problem(days: int) -> str | None:
        age = timedelta(days=1)
        eventually(lambda: topic in admin.list_topics(timeout=10).topics, "the broker knows its new topic")
        return retention.window_problem(admin, topic, inbox_retention=timedelta(days=days), max_outbox_age=age)

    assert problem(11) is None
    assert "must remember more than 10 days" in (problem(10) or "")
    for setting in ({"cleanup.policy": "compact"}, {"retention.ms": "-1"}):
        topic = streams.create_topic(kafka, 1, **setting)
        assert "for ever" in (problem(10_000) or "")


def waiting(url: str) -> int:
    return streams.scalar(
        url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
