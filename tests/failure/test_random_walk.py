"""Outbox → relay → Kafka → inbox, driven at random against a model, on real servers.

Hypothesis chooses what happens next: events are written, some rolled back; relays and consumers come, work, crash in a
window of their choice, lose their database session; events are sent again; the group is rebalanced. The model is a
list: what was committed, per key, in order. At the end everything has to arrive: each event applied once, each key's
events in order. A run that breaks this prints its steps.

`make test-walk` walks farther.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from shared.messaging import outbox
from shared.messaging.consumer import ConsumerSettings, InboxConsumer
from shared.messaging.errors import MessagingError
from shared.messaging.kafka import KafkaSettings
from shared.messaging.records import Received
from shared.messaging.relay import Relay
from shared.runtime import database, failpoints
from tests.support import producing, streams
from tests.support.streams import eventually

KEYS = st.sampled_from("abcd")
RELAY_WINDOWS = st.sampled_from(["after_claim", "after_produce", "after_ack"])
CONSUMER_WINDOWS = st.sampled_from(["after_receive", "after_claim", "before_commit", "after_commit", "after_offset"])
EXAMPLES, STEPS = (int(os.environ.get(name, default)) for name, default in (("WALKS", "5"), ("WALK_STEPS", "20")))

LEDGER = """
CREATE TABLE ledger (position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL, n int NOT NULL);
"""


def write_down(session: Session, received: Sequence[Received]) -> None:
    """The effect: a line per event, with nothing but the inbox to keep a second one out."""
    connection = session.connection()
    for r in received:
        connection.exec_driver_sql("INSERT INTO ledger (key, n) VALUES (%s, %s)", (r.event.subject, r.event.data.n))


class Walk(RuleBasedStateMachine):
    postgres = kafka = ""
    relays: Bundle[Relay] = Bundle("relays")
    consumers: Bundle[InboxConsumer] = Bundle("consumers")

    def __init__(self) -> None:
        super().__init__()
        self.database = f"walk_{uuid4().hex[:10]}"
        with psycopg.connect(self.postgres, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {self.database}".encode())
        self.url = self.postgres.rsplit("/", 1)[0] + "/" + self.database
        producing.install(self.url)
        streams.install(self.url, LEDGER, days_back=0, days_ahead=1)
        self.topic, self.name = streams.create_topic(self.kafka), streams.name("walk")
        self.engine: Engine = database.engine(self.url, "walk", pool_size=10)
        self.committed: defaultdict[str, list[int]] = defaultdict(list)
        self.running: list[Relay | InboxConsumer] = []

    # ---- the producing service

    @rule(key=KEYS, count=st.integers(1, 5))
    def confirm(self, key: str, count: int) -> None:
        with Session(self.engine) as session, session.begin():
            self.committed[key] += self._add(session, key, count)

    @rule(key=KEYS)
    def roll_back(self, key: str) -> None:
        with Session(self.engine) as session:
            self._add(session, key, 2)
            session.rollback()

    @rule(key=KEYS, other=KEYS)
    def commit_a_lower_seq_after_a_higher_one(self, key: str, other: str) -> None:
        if key == other:
            return
        with Session(self.engine) as late, late.begin():
            numbers = self._add(late, key, 1)
            self.confirm(other, 1)
        self.committed[key] += numbers

    def _add(self, session: Session, key: str, count: int) -> list[int]:
        session.connection()
        numbers = list(range(len(self.committed[key]), len(self.committed[key]) + count))
        for n in numbers:
            event = producing.counted(n, subject=key)
            outbox.add(session, event, topic=self.topic, key=key, contracts=producing.CONTRACTS)
        return numbers

    @rule()
    def send_everything_again(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            outbox.republish(connection, datetime.now(UTC) - timedelta(hours=1))

    # ---- relays

    @initialize(target=relays)
    def begin_with_a_relay(self) -> Relay:
        return self._new_relay()

    @rule(target=relays)
    def start_relay(self) -> Relay:
        return self._new_relay()

    def _new_relay(self) -> Relay:
        relay = Relay("orders", self.url, KafkaSettings(self.kafka), producing.QUICK)
        self.running.append(relay)
        return relay

    @rule(relay=relays, steps=st.integers(1, 3))
    def run_relay(self, relay: Relay, steps: int) -> None:
        for _ in range(steps):
            attempt(relay)

    @rule(relay=consumes(relays), window=RELAY_WINDOWS)
    def crash_relay(self, relay: Relay, window: str) -> None:
        self._crash(relay, f"orders.relay.{window}")

    # ---- consumers

    @initialize(target=consumers)
    def begin_with_a_consumer(self) -> InboxConsumer:
        return self._new_consumer()

    @rule(target=consumers)
    def start_consumer(self) -> InboxConsumer:
        return self._new_consumer()

    def _new_consumer(self) -> InboxConsumer:
        wanted = ConsumerSettings(
            self.name, (self.topic,), self.kafka, batch_size=4, poll_ms=100, session_timeout_ms=2000
        )
        consumer = InboxConsumer(wanted, self.engine, {"test.counted": write_down}, producing.CONTRACTS)
        self.running.append(consumer)
        return consumer

    @rule(consumer=consumers, steps=st.integers(1, 6))
    def run_consumer(self, consumer: InboxConsumer, steps: int) -> None:
        for _ in range(steps):
            attempt(consumer)

    @rule(consumer=consumes(consumers), window=CONSUMER_WINDOWS)
    def crash_consumer(self, consumer: InboxConsumer, window: str) -> None:
        self._crash(consumer, f"{self.name}.consumer.{window}", tries=6)

    @rule(consumer=consumes(consumers))
    def stop_consumer(self, consumer: InboxConsumer) -> None:
        self.running.remove(consumer)
        consumer.close()

    # ---- around them

    @rule()
    def cut_every_session(self) -> None:
        with psycopg.connect(self.postgres, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (self.database,))

    def _crash(self, process: Relay | InboxConsumer, failpoint: str, tries: int = 2) -> None:
        """Dies in the window if it comes by; dies anyway if it does not."""
        failpoints.configure(f"{failpoint}=error")
        try:
            for _ in range(tries):
                attempt(process)
        except failpoints.InjectedFault:
            pass
        finally:
            failpoints.configure()
        self.running.remove(process)
        close(process)

    # ---- what must hold

    @invariant()
    def nothing_is_applied_twice_or_out_of_order_or_unasked(self) -> None:
        applied = self._applied()
        for key, numbers in applied.items():
            assert numbers == self.committed[key][: len(numbers)], f"key {key}: applied {numbers}"

    def _applied(self) -> dict[str, list[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        with psycopg.connect(self.url) as connection:
            for key, n in connection.execute("SELECT key, n FROM ledger ORDER BY position").fetchall():
                found[key].append(n)
        return found

    def _all_arrived(self) -> bool:
        self.nothing_is_applied_twice_or_out_of_order_or_unasked()
        for process in self.running:
            attempt(process)
        return {key: numbers for key, numbers in self.committed.items() if numbers} == self._applied()

    def _all_arrived_twice(self) -> bool:
        events = sum(map(len, self.committed.values()))
        return self._all_arrived() and streams.scalar(self.url, "SELECT sum(deliveries) FROM inbox") >= 2 * events

    def teardown(self) -> None:
        """However the walk went: all that was committed arrives, and delivering all of it again changes nothing."""
        try:
            self._new_relay()
            self._new_consumer()
            eventually(self._all_arrived, f"everything arrives: {dict(self.committed)}", within_s=60)
            self.send_everything_again()
            eventually(self._all_arrived_twice, "everything arrives again, and nothing changes", within_s=60)
            assert streams.scalar(self.url, "SELECT count(*) FROM dead_letters") == 0
        finally:
            for process in self.running:
                close(process)
            self.engine.dispose()
            with psycopg.connect(self.postgres, autocommit=True) as admin:
                admin.execute(f"DROP DATABASE {self.database} WITH (FORCE)".encode())


def attempt(process: Relay | InboxConsumer) -> None:
    """What its loop would do: a passing failure is no news. A Stop would end it, and its next start is the same."""
    try:
        process.step()
    except MessagingError:
        return


def close(process: Relay | InboxConsumer) -> None:
    if isinstance(process, InboxConsumer):
        process.close(clean=False)
    else:
        process.close()


@pytest.mark.timeout(60 + EXAMPLES * (60 + STEPS * 4))
def test_a_random_walk_of_crashes_duplicates_and_rebalances_arrives_where_the_model_says(
    postgres: str, kafka: str
) -> None:
    Walk.postgres, Walk.kafka = postgres, kafka
    phases = (Phase.generate, Phase.shrink) if "WALKS" in os.environ else (Phase.generate,)
    chosen = settings(
        max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, database=None, print_blob=True, phases=phases
    )
    run_state_machine_as_test(Walk, settings=chosen)
