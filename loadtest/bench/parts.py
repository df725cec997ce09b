"""The processes that an event passes through, as small as they can be: producer, relay, reader, consumer."""

import sys
import time
from collections.abc import Sequence
from multiprocessing.queues import Queue
from typing import Any
from uuid import UUID

import orjson
from confluent_kafka import Consumer
from sqlalchemy.orm import Session, sessionmaker

from loadtest.bench import invoicing, orders
from shared.contracts import CONTRACTS
from shared.messaging import consumer as consumers
from shared.messaging import outbox
from shared.messaging.consumer import ConsumerSettings, InboxConsumer
from shared.messaging.errors import Transient
from shared.messaging.kafka import KafkaSettings
from shared.messaging.outbox import Hinter
from shared.messaging.records import Received
from shared.messaging.relay import Relay
from shared.runtime import database, logs, process
from shared.runtime.loop import Pulse, Stop, run_forever

ORDERS = "CREATE TABLE orders (id uuid PRIMARY KEY, total bigint NOT NULL, confirmed_at timestamptz DEFAULT now())"


def produce(url: str, topic: str, rate: float, count: int, answers: "Queue[Any]") -> None:
    """An order and its event in one transaction, at a steady rate; answers when each commit returned."""
    _begin()
    sessions = sessionmaker(database.engine(url, "bench-producer"))
    hinter = Hinter(url).watch(sessions)
    insert = "INSERT INTO orders (id, total) VALUES (%s, %s)"
    committed: dict[UUID, int] = {}
    made = [orders.confirmed(number) for number in range(count)]
    started = time.monotonic()
    for number, event in enumerate(made):
        time.sleep(max(0.0, started + number / rate - time.monotonic()))
        with sessions.begin() as session:
            session.connection().exec_driver_sql(insert, (event.data.order_id, event.data.total))
            outbox.add(session, event, topic=topic, key=event.subject, contracts=CONTRACTS)
        committed[event.id] = time.monotonic_ns()
    hinter.close()
    answers.put(("committed", committed))
    _wait_to_be_stopped()


def relay(url: str, kafka: str) -> None:
    _begin()
    stop = Stop.on_signals()
    running = Relay("bench", url, KafkaSettings(kafka))
    run_forever(running.step, stop, Pulse(60), wait=running.wait, retry_on=(Transient,))
    running.close()


def read(_url: str, kafka: str, topic: str, count: int, answers: "Queue[Any]") -> None:
    """A plain consumer: when it has a record in its hands, the record was readable."""
    config = {"bootstrap.servers": kafka, "group.id": f"reader-of-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer(config)
    consumer.subscribe([topic], on_assign=lambda _consumer, _partitions: answers.put(("ready", {})))
    arrived: dict[UUID, int] = {}
    while len(arrived) < count:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            at = time.monotonic_ns()
            arrived.setdefault(UUID(orjson.loads(message.value() or b"")["id"]), at)
    answers.put(("arrived", arrived))
    consumer.close()
    _wait_to_be_stopped()


def apply(url: str, kafka: str, topic: str, count: int, answers: "Queue[Any]") -> None:
    """The real consumer. An event is applied when the step that took it has ended: after the commit."""
    _begin()
    arrived: dict[UUID, int] = {}
    taken: list[UUID] = []

    def invoice(session: Session, received: Sequence[Received]) -> None:
        invoicing.invoice(session, received)
        taken.extend(r.event.id for r in received)

    settings = ConsumerSettings(f"bench_{topic.split('.')[1]}", (topic,), kafka)
    engine = database.engine(url, "bench", options=consumers.SESSION)
    with InboxConsumer(settings, engine, {orders.TYPE: invoice}, CONTRACTS) as consumer:
        while consumer.ready() is not None:
            consumer.step()
        answers.put(("ready", {}))
        while len(arrived) < count:
            if consumer.step():
                at = time.monotonic_ns()
                arrived.update(dict.fromkeys(taken, at))
                taken.clear()
        answers.put(("arrived", arrived))
    _wait_to_be_stopped()


def _begin() -> None:
    logs.configure("bench", "warning")
    process.tune_interpreter()


def _wait_to_be_stopped() -> None:
    """What was put into the queue is sent by a thread: the process must not end before its reader has it."""
    sys.stdout.flush()
    Stop.on_signals().wait(60)
