"""The consumer loop in this process: what a topic delivers at least once is applied once."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from sqlalchemy.orm import Session

from shared.contracts import CONTRACTS
from shared.messaging import intake
from shared.messaging.consumer import ConsumerSettings, InboxConsumer
from shared.messaging.errors import (
    DatabaseSetBack,
    Fenced,
    RecordsExpired,
    RecordUnreadable,
    TopicSetBack,
    Transient,
    WindowTooShort,
)
from shared.messaging.event import Event
from shared.messaging.handlers import Handlers
from shared.messaging.records import Received
from shared.runtime import database
from tests.support import shop, streams


class Stage:
    """A topic, a database and a consumer's name."""

    def __init__(self, url: str, kafka: str) -> None:
        self.url, self.kafka = url, kafka
        self.topic = streams.create_topic(kafka, partitions=2)
        self.name = streams.name("billing")
        self.engine = database.engine(url, self.name, pool_size=10)
        streams.install(url, *shop.TABLES.values())

    def consumer(self, handlers: Handlers | None = None, **settings: object) -> InboxConsumer:
        """Billing's, unless other handlers are given."""
        given = ConsumerSettings(self.name, (self.topic,), self.kafka, **{"poll_ms": 100, **settings})  # type: ignore[arg-type]
        return InboxConsumer(given, self.engine, shop.BILLING_HANDLERS if handlers is None else handlers, CONTRACTS)

    def publish(self, *values: Event | bytes | None, partition: int | None = None) -> None:
        streams.publish(self.kafka, self.topic, values, partition)

    def applied(self) -> list[str]:
        return shop.applied("billing", self.url)

    def letters(self) -> list[tuple[str, int]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute("SELECT reason, attempts FROM dead_letters ORDER BY id").fetchall()

    def kafka_offsets(self) -> dict[int, int]:
        admin = AdminClient({"bootstrap.servers": self.kafka})
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.name)])
        found = asked[self.name].result(10).topic_partitions or []
        return {p.partition: p.offset for p in found if p.topic == self.topic}


@pytest.fixture
def stage(database_url: str, kafka: str) -> Iterator[Stage]:
    stage = Stage(database_url, kafka)
    yield stage
    stage.engine.dispose()


def drive(consumer: InboxConsumer, until: Callable[[], bool], within_s: float = 90) -> None:
    deadline = time.monotonic() + within_s
    while not until():
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s"
        consumer.step()


def settle(consumer: InboxConsumer, records: int, within_s: float = 90) -> None:
    settled = 0
    deadline = time.monotonic() + within_s
    while settled < records:
        assert time.monotonic() < deadline, f"{settled} of {records} settled within {within_s:.0f} s"
        settled += consumer.step()


def subjects(orders: Sequence[Event]) -> list[str]:
    return sorted(order.subject for order in orders)


def test_orders_published_before_the_group_existed_are_applied_once(stage: Stage) -> None:
    orders = [streams.order() for _ in range(30)]
    stage.publish(*orders)
    with stage.consumer() as consumer:
        settle(consumer, 30)
        assert consumer.ready() is None
    assert stage.applied() == subjects(orders)
    assert sum(stage.kafka_offsets().values()) == 30, "handed over by close()"


def test_a_restart_goes_on_where_the_last_one_stopped(stage: Stage) -> None:
    first, second = [streams.order() for _ in range(5)], [streams.order() for _ in range(5)]
    stage.publish(*first)
    with stage.consumer() as consumer:
        settle(consumer, 5)
    stage.publish(*second)
    with stage.consumer() as consumer:
        settle(consumer, 5)
    assert stage.applied() == subjects(first + second)
    assert streams.scalar(stage.url, "SELECT sum(deliveries) FROM inbox") == 10, "nothing was read twice"


def test_a_replay_of_the_whole_topic_changes_nothing(stage: Stage) -> None:
    orders = [streams.order() for _ in range(40)]
    stage.publish(*orders)
    with stage.consumer() as consumer:
        settle(consumer, 40)
    rewind(stage)
    with stage.consumer() as consumer:
        settle(consumer, 40)
    assert stage.applied() == subjects(orders)
    assert streams.scalar(stage.url, "SELECT min(deliveries) FROM inbox") == 2


def test_a_database_set_back_reads_again_what_it_lost(stage: Stage) -> None:
    orders = [streams.order() for _ in range(20)]
    stage.publish(*orders[:8])
    with stage.consumer() as consumer:
        settle(consumer, 8)
    with earlier_copy(stage):
        stage.publish(*orders[8:])
        with stage.consumer() as consumer:
            settle(consumer, 12)
        assert stage.applied() == subjects(orders)
    assert stage.applied() == subjects(orders[:8])
    with stage.consumer() as consumer:
        settle(consumer, 12)
    assert stage.applied() == subjects(orders)


def test_a_database_emptied_reads_everything_again(stage: Stage) -> None:
    with earlier_copy(stage):
        orders = [streams.order() for _ in range(10)]
        stage.publish(*orders)
        with stage.consumer() as consumer:
            settle(consumer, 10)
    assert sum(stage.kafka_offsets().values()) == 10
    with stage.consumer() as consumer:
        settle(consumer, 10)
    assert stage.applied() == subjects(orders)


def test_a_database_set_back_under_a_running_consumer_stops_it(stage: Stage) -> None:
    """Going on would leave a hole: the offsets in between were committed only in the database that is gone."""
    consumer = stage.consumer()
    stage.publish(streams.order(), partition=0)
    settle(consumer, 1)
    with earlier_copy(stage):
        stage.publish(streams.order(), partition=0)
        settle(consumer, 1)
    stage.publish(streams.order(), partition=0)
    with pytest.raises(DatabaseSetBack):
        drive(consumer, lambda: False)
    consumer.close(clean=False)
    with stage.consumer() as consumer:
        drive(consumer, lambda: len(stage.applied()) == 3)


@contextmanager
def earlier_copy(stage: Stage) -> Iterator[None]:
    """On leaving, the database is what it was on entering."""
    admin_url, name = stage.url.rsplit("/", 1)
    with psycopg.connect(f"{admin_url}/postgres", autocommit=True) as admin:
        cut_connections(admin, name)
        admin.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}".encode())
        yield
        cut_connections(admin, name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        admin.execute(f"ALTER DATABASE {name}_copy RENAME TO {name}".encode())


def cut_connections(admin: psycopg.Connection, name: str) -> None:
    admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))


def test_a_poison_event_among_500_good_ones_is_parked_and_stops_nothing(stage: Stage) -> None:
    orders = [streams.order() for _ in range(500)]
    stage.publish(*orders[:250], b"{not json", *orders[250:], partition=0)
    with stage.consumer() as consumer:
        settle(consumer, 501)
    assert stage.applied() == subjects(orders)
    assert stage.letters() == [("undecodable", 1)]


def test_an_event_its_handler_refuses_is_found_among_500_and_parked(stage: Stage) -> None:
    orders = [streams.order() for _ in range(500)]
    again = streams.order(UUID(orders[3].subject))
    stage.publish(*orders[:250], again, *orders[250:], partition=0)
    with stage.consumer() as consumer:
        settle(consumer, 501)
    assert stage.applied() == subjects(orders)
    assert stage.letters() == [("already-invoiced", 1)]
    assert streams.scalar(stage.url, "SELECT count(*) FROM handling_attempts") == 0


def test_a_bug_gets_a_bounded_number_of_attempts_and_is_then_parked(stage: Stage) -> None:
    orders = [streams.order() for _ in range(6)]
    stage.publish(*orders[:3], streams.order(sku="bug"), *orders[3:], partition=0)
    with stage.consumer(max_attempts=3, retry_limit_s=0.05) as consumer:
        settle(consumer, 7)
    assert stage.applied() == subjects(orders)
    assert stage.letters() == [("handler-failed", 3)]
    with psycopg.connect(stage.url) as connection:
        (error,) = connection.execute("SELECT error FROM dead_letters").fetchall()
    assert "bug" in error[0].split("ended the process: ")[1], "the letter says which bug"


def test_attempts_of_a_record_that_was_settled_among_others_are_forgotten(stage: Stage) -> None:
    stage.publish(*[streams.order() for _ in range(3)], partition=0)
    with stage.consumer() as consumer:
        settle(consumer, 3)
    old = """INSERT INTO handling_attempts (consumer, topic_id, partition, "offset", attempts)
             SELECT consumer, topic_id, partition, o, 1 FROM consumer_offsets, (VALUES (2), (3)) AS at (o)
              WHERE partition = 0"""
    with psycopg.connect(stage.url) as connection:
        connection.execute(old)
    with stage.consumer() as consumer:
        drive(consumer, lambda: consumer.ready() is None)
    with psycopg.connect(stage.url) as connection:
        left = connection.execute("""SELECT "offset" FROM handling_attempts""").fetchall()
    assert left == [(3,)], "what is still to come keeps its count"


def test_only_the_first_batch_after_a_crash_is_taken_one_by_one(stage: Stage) -> None:
    stage.publish(*[streams.order() for _ in range(4)])
    with stage.consumer(batch_size=2) as consumer:
        settle(consumer, 4)
        consumer.close(clean=False)
    with psycopg.connect(stage.url) as connection:
        connection.execute("UPDATE consumer_slots SET clean = false")
    with stage.consumer() as consumer:
        assert consumer._slot.after_crash
        drive(consumer, lambda: consumer.ready() is None)
        assert any(held.careful for held in consumer._intake.held.values())
        assert not consumer._slot.after_crash, "what a later rebalance brings is not under suspicion"


def test_a_reserve_without_a_partition_is_ready(stage: Stage) -> None:
    with ExitStack() as consumers:
        three = [consumers.enter_context(stage.consumer()) for _ in range(3)]

        def all_ready() -> bool:
            for consumer in three:
                consumer.step()
            return all(consumer.ready() is None for consumer in three)

        streams.eventually(all_ready, "two work, one waits", within_s=60)
        assert sorted(len(consumer._intake.held) for consumer in three) == [0, 1, 1]


def test_a_consumer_that_gets_nothing_from_kafka_is_not_ready_until_it_does(stage: Stage) -> None:
    with stage.consumer(observe_s=0.0) as consumer:
        drive(consumer, lambda: consumer.ready() is None)
        consumer._intake._note_trouble(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        told = consumer.ready()
        assert told is not None
        assert "gets nothing from Kafka" in told
        drive(consumer, lambda: consumer.ready() is None, within_s=20)


def test_a_record_that_the_client_cannot_read_stops_the_consumer(stage: Stage) -> None:
    """The client would go on behind it, and the offset with it."""
    with pytest.raises(RecordUnreadable), stage.consumer() as consumer:
        consumer._intake._raise_for(KafkaError(KafkaError._BAD_MSG))


def test_every_kind_of_bad_event_is_parked_with_its_reason(stage: Stage) -> None:
    good = streams.order()
    value = streams.encoded(good)
    now = datetime.now(UTC)
    with psycopg.connect(stage.url) as connection:
        connection.execute("UPDATE inbox_floor SET floor = %s", (streams.smallest_id(now - timedelta(days=1)),))
    stage.publish(
        good,
        None,
        value.replace(b'"EUR"', b'"euro"'),
        value.replace(b"orders.confirmed", b"orders.unheard_of"),
        streams.with_id(streams.order(cents=7), good.id),
        streams.order(at=now - timedelta(days=2)),
        streams.order(at=now + timedelta(hours=3)),
        partition=0,
    )
    with stage.consumer() as consumer:
        settle(consumer, 7)
    assert stage.applied() == [good.subject]
    assert sorted(reason for reason, _ in stage.letters()) == [
        "beyond-dedupe-window", "future-id", "invalid", "payload-mismatch", "undecodable", "unknown-type",
    ]  # fmt: skip
    rewind(stage)
    with stage.consumer() as consumer:
        settle(consumer, 7)
    assert len(stage.letters()) == 6, "a redelivery of a parked event finds its letter"


def test_a_type_the_contracts_know_but_nobody_handles_is_skipped(stage: Stage) -> None:
    stage.publish(streams.order())
    with stage.consumer({}) as consumer:
        settle(consumer, 1)
    assert (stage.letters(), streams.scalar(stage.url, "SELECT count(*) FROM inbox")) == ([], 0)


def test_two_consumers_each_apply_the_same_events(stage: Stage) -> None:
    orders = [streams.order() for _ in range(20)]
    stage.publish(*orders)
    for kind in ("billing", "analytics"):
        with shop.consumer(kind, streams.name(kind), stage.engine, stage.kafka, stage.topic) as consumer:
            settle(consumer, 20)
        assert shop.applied(kind, stage.url) == subjects(orders)


def test_a_rebalance_in_the_middle_of_a_batch_loses_and_doubles_nothing(stage: Stage) -> None:
    """The first consumer is inside its transaction while the second joins and takes over a partition."""
    entered, go_on = threading.Event(), threading.Event()
    orders = [streams.order() for _ in range(40)]

    def slow(session: Session, received: Sequence[Received]) -> None:
        entered.set()
        assert go_on.wait(60)
        shop.invoice(session, received)

    stage.publish(*orders)
    done, threads = threading.Event(), []
    with ExitStack() as consumers:

        def begin(handlers: Handlers | None = None) -> InboxConsumer:
            consumer = consumers.enter_context(stage.consumer(handlers))
            threads.append(threading.Thread(target=drive, args=(consumer, done.is_set)))
            threads[-1].start()
            return consumer

        try:
            first = begin({"orders.confirmed": slow})
            assert entered.wait(60)
            # Not earlier: a member that has joined and does not poll keeps the whole group waiting for it.
            second = begin()
            go_on.set()
            streams.eventually(lambda: stage.applied() == subjects(orders), "all applied")
            streams.eventually(lambda: [len(c._intake.held) for c in (first, second)] == [1, 1], "each has a partition")
        finally:
            go_on.set()
            done.set()
            for thread in threads:
                thread.join(20)
    assert stage.letters() == []


def test_serialization_failures_and_deadlocks_are_retried_with_the_same_batch(stage: Stage) -> None:
    failures = ["40001", "40P01", "55P03"]

    def unlucky(session: Session, received: Sequence[Received]) -> None:
        shop.invoice(session, received)
        if failures:
            session.connection().exec_driver_sql(
                f"DO $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '{failures.pop()}'; END $$"
            )

    orders = [streams.order() for _ in range(10)]
    stage.publish(*orders)
    with stage.consumer({"orders.confirmed": unlucky}) as consumer:
        settle(consumer, 10)
    assert (stage.applied(), stage.letters(), failures) == (subjects(orders), [], [])


def test_a_real_deadlock_with_another_session_is_retried(stage: Stage) -> None:
    """Somebody else locks the series of the second partition and then wants the first's."""
    orders = [streams.order() for _ in range(2)]
    with psycopg.connect(stage.url, autocommit=True) as connection:
        connection.execute("INSERT INTO series VALUES (0, 1), (1, 1)")
    stage.publish(orders[0], partition=0)
    stage.publish(orders[1], partition=1)
    with psycopg.connect(stage.url) as rival, stage.consumer() as consumer:
        rival.execute("SET deadlock_timeout = '5s'")
        rival.execute("SELECT * FROM series WHERE series = 1 FOR UPDATE")

        def second_lock() -> None:
            streams.eventually(lambda: waiting(stage.url), "the consumer waits for series 1", every_s=0.01)
            rival.execute("SELECT * FROM series WHERE series = 0 FOR UPDATE")
            rival.rollback()

        thread = threading.Thread(target=second_lock)
        thread.start()
        settle(consumer, 2)
        thread.join(20)
    assert (stage.applied(), stage.letters()) == (subjects(orders), [])


def waiting(url: str) -> bool:
    return bool(
        streams.scalar(
            url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    )


def test_a_missing_partition_waits_for_housekeeping_and_parks_nothing(stage: Stage) -> None:
    days_ago = datetime.now(UTC) - timedelta(days=8)
    late = streams.order(at=days_ago)
    stage.publish(late)
    with stage.consumer(retry_limit_s=0.1) as consumer:
        drive(consumer, lambda: "no partition" in (consumer.ready() or ""))
        assert (stage.applied(), stage.letters()) == ([], [])
        streams.create_partition(stage.url, days_ago)
        settle(consumer, 1)
    assert stage.applied() == [late.subject]


def test_records_that_expired_unread_stop_the_consumer_loudly(stage: Stage) -> None:
    stage.publish(*[streams.order() for _ in range(4)], partition=0)
    with stage.consumer() as consumer:
        settle(consumer, 4)
    stage.publish(*[streams.order() for _ in range(4)], partition=0)
    expire(stage, 6)
    consumer = stage.consumer()
    with pytest.raises(RecordsExpired, match="records-expired"):
        drive(consumer, lambda: False, within_s=20)
    consumer.close(clean=False)
    assert len(stage.applied()) == 4


def test_a_topic_that_lost_its_end_is_read_on_from_where_it_ends_now(stage: Stage) -> None:
    """What comes now takes the lost records' offsets: behind the old position it would be skipped."""
    stage.publish(*[streams.order() for _ in range(4)], partition=0)
    with stage.consumer() as consumer:
        settle(consumer, 4)
    with psycopg.connect(stage.url) as connection:
        connection.execute("UPDATE consumer_offsets SET next_offset = 9 WHERE partition = 0")
    set_in_kafka(stage, 9)
    with stage.consumer() as consumer:
        drive(consumer, lambda: consumer.ready() is None)
    stage.publish(*[streams.order() for _ in range(6)], partition=0)
    with stage.consumer() as consumer:
        drive(consumer, lambda: len(stage.applied()) == 10, within_s=20)


def test_a_running_consumer_of_a_topic_that_lost_its_end_ends_and_its_next_start_reads_on(stage: Stage) -> None:
    stage.publish(*[streams.order() for _ in range(4)], partition=0)
    consumer = stage.consumer()
    settle(consumer, 4)
    consumer._intake._kafka.seek(TopicPartition(stage.topic, 0, 9))
    with pytest.raises(TopicSetBack):
        drive(consumer, lambda: False, within_s=20)
    consumer.close(clean=False)
    stage.publish(streams.order(), partition=0)
    with stage.consumer() as consumer:
        drive(consumer, lambda: len(stage.applied()) == 5, within_s=20)


def test_what_expires_before_anything_of_its_partition_was_settled_is_missed(stage: Stage) -> None:
    """A partition that was empty when it was assigned has a position too."""
    with stage.consumer() as consumer:
        drive(consumer, lambda: consumer.ready() is None)
    stage.publish(*[streams.order() for _ in range(4)], partition=0)
    expire(stage, 2)
    with pytest.raises(RecordsExpired), stage.consumer() as consumer:
        drive(consumer, lambda: bool(stage.applied()), within_s=20)
    assert stage.applied() == []


def test_nobody_misses_expired_records_that_the_database_has_settled(stage: Stage) -> None:
    """Kafka's offset lags behind where the last commit of it was lost."""
    orders = [streams.order() for _ in range(6)]
    stage.publish(*orders[:5], partition=0)
    with stage.consumer() as consumer:
        settle(consumer, 5)
    set_in_kafka(stage, 1)
    expire(stage, 4)
    stage.publish(orders[5], partition=0)
    with stage.consumer() as consumer:
        drive(consumer, lambda: stage.applied() == subjects(orders), within_s=20)


def test_records_that_are_taken_one_by_one_do_not_keep_a_consumer_from_polling(stage: Stage) -> None:
    """A member that joins would wait for it, and the group would give its partitions away."""
    stage.publish(*[streams.order() for _ in range(6)], partition=0)
    with stage.consumer(batch_size=3) as consumer:
        drive(consumer, lambda: bool(consumer._intake.buffer) or bool(stage.applied()))
        consumer._alone = 3
        intake, polled = consumer._intake, list[int]()
        consume = intake._consume
        intake._consume = lambda most, timeout_s: polled.append(most) or consume(most, timeout_s)  # type: ignore[func-returns-value, method-assign]
        for _ in range(3):
            before = len(polled)
            consumer.step()
            assert len(polled) > before


def test_a_database_set_back_is_noticed_where_nothing_comes(stage: Stage) -> None:
    stage.publish(*[streams.order() for _ in range(4)], partition=0)
    consumer = stage.consumer(observe_s=0.0)
    settle(consumer, 4)
    with psycopg.connect(stage.url) as connection:
        connection.execute("UPDATE consumer_offsets SET next_offset = 2 WHERE partition = 0")
    with pytest.raises(DatabaseSetBack):
        drive(consumer, lambda: False, within_s=10)
    consumer.close(clean=False)


def test_a_batch_that_takes_too_long_together_is_taken_one_by_one(stage: Stage) -> None:
    orders = [streams.order() for _ in range(6)]
    stage.publish(*orders, partition=0)
    shop.make_impatient(stage.url)

    def slow(session: Session, received: Sequence[Received]) -> None:
        shop.BILLING_HANDLERS["orders.confirmed"](session, received)
        time.sleep(0.4 * len(received))  # longer than the session may be idle in a transaction

    with stage.consumer({"orders.confirmed": slow}, linger_ms=500, retry_limit_s=0.1) as consumer:
        settle(consumer, 6)
    assert (stage.applied(), stage.letters()) == (subjects(orders), [])


def test_an_event_that_always_takes_too_long_is_parked_with_its_reason(stage: Stage) -> None:
    stage.publish(streams.order(), partition=0)
    shop.make_impatient(stage.url)

    def stuck(_session: Session, _received: Sequence[Received]) -> None:
        time.sleep(1.5)

    with stage.consumer({"orders.confirmed": stuck}, max_attempts=2, retry_limit_s=0.1) as consumer:
        settle(consumer, 1)
    assert stage.letters() == [("handler-failed", 2)]


def test_a_reserve_is_ready_again_when_kafka_is_back(stage: Stage) -> None:
    with stage.consumer(observe_s=0.0) as reserve:
        drive(reserve, lambda: reserve.ready() is None)
        reserve._intake.held.clear()
        reserve._intake._note_trouble(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        drive(reserve, lambda: reserve.ready() is None, within_s=20)


def test_a_window_shorter_than_the_topics_refuses_to_start(stage: Stage) -> None:
    settings = ConsumerSettings(stage.name, (stage.topic,), stage.kafka)
    with pytest.raises(WindowTooShort, match="too short"):
        InboxConsumer(settings, stage.engine, {}, CONTRACTS, lambda: "7 d < 8 d: too short")


def test_a_window_that_becomes_too_short_makes_it_not_ready(stage: Stage) -> None:
    problem: list[str] = []
    settings = ConsumerSettings(stage.name, (stage.topic,), stage.kafka, poll_ms=10, window_check_s=0)
    with InboxConsumer(settings, stage.engine, {}, CONTRACTS, lambda: problem[0] if problem else None) as consumer:
        drive(consumer, lambda: consumer.ready() is None)
        problem.append("the topic keeps 30 d now")
        consumer.step()
        assert "keeps 30 d" in (consumer.ready() or "")


def test_a_window_that_nobody_can_ask_about_stops_no_work(stage: Stage) -> None:
    asked: list[bool] = []

    def question() -> str | None:
        asked.append(True)
        if len(asked) > 1:
            raise Transient("the topic's configuration is not for us")
        return None

    settings = ConsumerSettings(stage.name, (stage.topic,), stage.kafka, poll_ms=10, window_check_s=0)
    stage.publish(order := streams.order())
    with InboxConsumer(settings, stage.engine, shop.BILLING_HANDLERS, CONTRACTS, question) as consumer:
        drive(consumer, lambda: stage.applied() == [order.subject])
        assert consumer.ready() is None
    assert len(asked) > 1


def test_each_replica_holds_a_slot_of_its_own_and_the_lowest_free_one(stage: Stage) -> None:
    first, second = stage.consumer(), stage.consumer()
    assert (first._slot.number, second._slot.number) == (1, 2)
    first.close()
    third = stage.consumer()
    assert third._slot.number == 1
    second.close()
    third.close()
    with pytest.raises(Fenced, match="replica slots"):
        stage.consumer(slots=0)


def test_a_client_that_does_not_close_keeps_no_process_from_ending(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given partitions while it closes, Kafka's client waits for itself."""
    consumer, released = stage.consumer(), threading.Event()
    drive(consumer, lambda: consumer.ready() is None)
    monkeypatch.setattr(intake, "CLOSED_WITHIN_S", 0.5)
    client = consumer._intake._kafka
    monkeypatch.setattr(consumer._intake, "_kafka", Stuck(released))
    began = time.monotonic()
    consumer.close()
    assert time.monotonic() - began < 10
    released.set()
    client.close()
    with stage.consumer() as successor:
        assert successor._slot.number == 1


class Stuck:
    def __init__(self, released: threading.Event) -> None:
        self._released = released

    def close(self) -> None:
        self._released.wait(60)


def test_a_slot_lost_to_another_process_ends_this_one(stage: Stage) -> None:
    consumer = stage.consumer()
    with psycopg.connect(stage.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            (f"{stage.name}-slot",),
        )
        thief = stage.consumer()
        consumer._slot._checked -= 60
        with pytest.raises(Fenced):
            drive(consumer, lambda: False, within_s=10)
    thief.close()
    consumer.close(clean=False)


def test_a_slot_lost_with_its_connection_is_taken_again(stage: Stage) -> None:
    with stage.consumer() as consumer:
        with psycopg.connect(stage.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                (f"{stage.name}-slot",),
            )
        consumer._slot._checked -= 60
        consumer.step()
        other = stage.consumer()
        assert other._slot.number == 2
        other.close()


def rewind(stage: Stage) -> None:
    """As an operator does: the group's offsets back to the beginning."""
    set_in_kafka(stage, 0)


def expire(stage: Stage, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": stage.kafka})
    for deleted in admin.delete_records([TopicPartition(stage.topic, 0, before)]).values():
        deleted.result(10)


def set_in_kafka(stage: Stage, offset: int) -> None:
    watermarks = Consumer({"bootstrap.servers": stage.kafka, "group.id": stage.name})
    partitions = watermarks.list_topics(stage.topic, 10).topics[stage.topic].partitions
    admin = AdminClient({"bootstrap.servers": stage.kafka})
    wanted = [TopicPartition(stage.topic, number, offset) for number in partitions]

    def rewound() -> bool:
        """Refused while the last, static, member is still remembered."""
        asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(stage.name, wanted)])
        try:
            answer = asked[stage.name].result(10)
        except KafkaException:
            return False
        return all(partition.error is None for partition in answer.topic_partitions or [])

    try:
        streams.eventually(rewound, "the group's offsets are set", within_s=20, every_s=0.5)
    finally:
        watermarks.close()
