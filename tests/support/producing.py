"""An outbox, a topic and relays for tests: what a producing service has, in small."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

import orjson
import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pydantic import BaseModel
from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

from shared.messaging import event, outbox, retention, schema
from shared.messaging.errors import Transient
from shared.messaging.event import Event
from shared.messaging.kafka import KafkaSettings
from shared.messaging.relay import Relay, RelaySettings
from shared.runtime import database
from tests.support.processes import Child
from tests.support.wait import until


class Counted(BaseModel):
    n: int


CONTRACTS = {"test.counted": Counted}
QUICK = RelaySettings(lease_s=3.0, patience_s=1.0, rebalance_every_s=0.1)
PATIENT = RelaySettings(lease_s=30.0, patience_s=20.0, rebalance_every_s=0.1)
"""For a relay in the test's own process: a busy machine is not an outage."""


def counted(n: int, subject: str = "subject") -> Event:
    return event.new("test.counted", source="tests", subject=subject, data=Counted(n=n))


def install(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        schema.install(connection, "outbox")
        retention.create_partitions(connection, "outbox", ahead_days=2)


@contextmanager
def sessions(url: str) -> Iterator[sessionmaker[Session]]:
    engine: Engine = database.engine(url, "tests")
    yield sessionmaker(engine)
    engine.dispose()


def emit(url: str, topic: str, key: str, numbers: Sequence[int]) -> None:
    """One event per number, all of one key, in one transaction."""
    with sessions(url) as factory, factory.begin() as session:
        for n in numbers:
            outbox.add(session, counted(n), topic=topic, key=key, contracts=CONTRACTS)


def create_topic(bootstrap: str, *, name: str = "", partitions: int = 3, config: dict[str, str] | None = None) -> str:
    topic = name or f"test.{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})])[topic].result(30)
    return topic


def on_topic(bootstrap: str, topic: str) -> list[tuple[str, int]]:
    """(key, n) of every record, in the order of each partition."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    found: list[tuple[str, int]] = []
    try:
        for partition in reader.list_topics(topic, timeout=20).topics[topic].partitions:
            start, end = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
            reader.assign([TopicPartition(topic, partition, start)])
            while start < end:
                message = reader.poll(20)
                assert message is not None, f"{topic}/{partition} stops at {start} of {end}"
                assert message.error() is None, message.error()
                key, value = message.key(), message.value()
                assert isinstance(key, bytes)
                assert isinstance(value, bytes)
                found.append((key.decode(), orjson.loads(value)["data"]["n"]))
                start = (message.offset() or 0) + 1
    finally:
        reader.close()
    return found


def first_occurrences(records: Sequence[tuple[str, int]]) -> dict[str, list[int]]:
    """What an inbox would apply, per key."""
    firsts: dict[str, list[int]] = {}
    for key, n in dict.fromkeys(records):
        firsts.setdefault(key, []).append(n)
    return firsts


def unpublished(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM outbox WHERE published_at IS NULL").fetchone()
    assert row is not None
    return int(row[0])


def stepped(relay: Relay) -> int:
    """A step as the loop makes it: what is away for a moment is asked again, within reason."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return relay.step()
        except Transient:
            if time.monotonic() > deadline:
                raise


@contextmanager
def relay(url: str, bootstrap: str, settings: RelaySettings = PATIENT) -> Iterator[Relay]:
    made = Relay("orders", url, KafkaSettings(bootstrap), settings)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def relay_process(url: str, bootstrap: str, *, failpoints: str = "") -> Iterator[Child]:
    environment = {"DATABASE_URL": url, "KAFKA_BOOTSTRAP": bootstrap, "FAILPOINTS": failpoints}
    with Child.started("tests.support.relay_process", **environment) as child:
        yield child


def drained(url: str, *, seconds: float = 30.0) -> None:
    until(lambda: unpublished(url) == 0, "all rows published and marked", seconds=seconds)
