"""The batched consumer against what one could do instead, with the same events and the same rows at the end."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from loadtest.bench import invoicing, orders
from loadtest.bench.figures import Figure, in_turn, ratio
from loadtest.bench.invoicing import Bare
from loadtest.bench.servers import Bench
from shared.contracts import CONTRACTS
from shared.messaging import event as events
from shared.messaging import records, retention, schema
from shared.messaging.consumer import SESSION, ConsumerSettings, InboxConsumer, _Batch
from shared.messaging.errors import Permanent
from shared.messaging.records import Received, Record
from shared.runtime import database

BATCH = 500
PARTITIONS = 3
TRUNCATE = "TRUNCATE inbox, consumer_offsets, invoices, series, tasks"


def measure(bench: Bench) -> list[Figure]:
    many, few = (20_000, 1_000) if bench.quick else (60_000, 2_000)
    bench.say(f"consumer: {many:,} orders in batches of {BATCH}, {few:,} one by one")
    with Place.prepared(bench, many) as place:
        bare = [Bare.of("bare", batch) for batch in place.in_memory(many)]
        ways: dict[str, Callable[[], float]] = {
            "batched, with inbox": lambda: place.drained(InboxConsumer, many),
            "one transaction per message": lambda: one_by_one(place, few),
            "batched, without inbox": lambda: place.drained(WithoutInbox, many),
            "bare inserts, no Kafka": lambda: bare_inserts(place, bare, many),
        }
        rates = in_turn(ways, rounds=bench.rounds, unit="/s", say=bench.say)
    batched, single, unguarded, inserts = rates.values()
    return [
        ratio("consumer", "batched against one transaction per message", batched, single, at_least=15),
        ratio("consumer", "batched against the same without inbox", batched, unguarded, at_least=0.75),
        ratio("consumer", "batched against bare inserts, no Kafka", batched, inserts, at_least=0.6),
    ]


class WithoutInbox(InboxConsumer):
    """The same code with the claim left out: a redelivery would be applied again."""

    def _claim(self, _session: Session, batch: _Batch) -> tuple[list[Received], list[tuple[Record, Permanent]]]:
        fresh = [r for r in batch.records if isinstance(r, Received)]
        batch.applied = len(fresh)
        return fresh, []


@dataclass
class Place:
    """A topic full of orders, and the tables to invoice them in."""

    bench: Bench
    topic: str
    url: str
    engine: Engine
    _numbers: Iterator[int] = field(default_factory=count)

    @classmethod
    @contextmanager
    def prepared(cls, bench: Bench, orders_on_topic: int) -> Iterator["Place"]:
        with bench.topic(PARTITIONS) as topic, bench.database(invoicing.TABLES) as url:
            with psycopg.connect(url, autocommit=True) as connection:
                schema.install(connection, "inbox", "tasks")
                retention.create_partitions(connection, "inbox", back_days=14)
            orders.publish(bench.kafka, topic, orders_on_topic)
            engine = database.engine(url, "bench", options=SESSION)
            yield cls(bench, topic, url, engine)
            engine.dispose()

    def emptied(self) -> str:
        """Empties the tables; answers a name for a consumer that has never read anything."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(TRUNCATE)
            connection.execute("CHECKPOINT")
        return f"bench_{next(self._numbers)}_{uuid4().hex[:6]}"

    def drained(self, kind: type[InboxConsumer], count: int, *, batch_size: int = BATCH) -> float:
        """Events per second, from the end of the first batch: joining a group is not what is measured."""
        settings = ConsumerSettings(self.emptied(), (self.topic,), self.bench.kafka, batch_size=batch_size)
        with kind(settings, self.engine, {orders.TYPE: invoicing.invoice}, CONTRACTS) as consumer:
            first = 0
            while not first:
                first = consumer.step()
            done, started = first, time.perf_counter()
            while done < count:
                done += consumer.step()
            seconds = time.perf_counter() - started
        self.expect_invoices(done)
        return (done - first) / seconds

    def in_memory(self, count: int) -> Iterator[list[Received]]:
        batch: list[Received] = []
        for number, (key, value) in enumerate(orders.values(count)):
            place = ("topic-id", self.topic, number % PARTITIONS, number, key.encode(), value)
            batch.append(Received(*place, records.digest(value), 0, events.decode(value, CONTRACTS)))
            if len(batch) == BATCH or number == count - 1:
                yield batch
                batch = []

    def expect_invoices(self, number: int) -> None:
        """A rate counts only if the work was done."""
        with psycopg.connect(self.url) as connection:
            row = connection.execute("SELECT (SELECT count(*) FROM invoices), (SELECT count(*) FROM tasks)").fetchone()
        if row != (number, number):
            raise RuntimeError(f"{number} orders were read, invoices and tasks: {row}")


def one_by_one(place: Place, count: int) -> float:
    """What most people write: poll, one transaction, commit the offset. The client fetches ahead meanwhile."""
    name = place.emptied()
    config = {"bootstrap.servers": place.bench.kafka, "group.id": name, "enable.auto.commit": False}
    consumer = Consumer({**config, "auto.offset.reset": "earliest"})
    consumer.subscribe([place.topic])
    done, started = 0, 0.0
    while done <= count:
        message = consumer.poll(1.0)
        if message is None:
            continue
        received = records.read(message, "topic-id", CONTRACTS)
        assert isinstance(received, Received)
        with Session(place.engine) as session, session.begin():
            invoicing.invoice_one(session, name, received)
        consumer.commit(message=message, asynchronous=True)
        started = started or time.perf_counter()
        done += 1
    seconds = time.perf_counter() - started
    consumer.close()
    place.expect_invoices(done)
    return (done - 1) / seconds


def bare_inserts(place: Place, batches: list[Bare], count: int) -> float:
    place.emptied()
    with psycopg.connect(place.url, autocommit=True, options=SESSION) as connection:
        started = time.perf_counter()
        for batch in batches:
            batch.write(connection)
        seconds = time.perf_counter() - started
    place.expect_invoices(count)
    return count / seconds
