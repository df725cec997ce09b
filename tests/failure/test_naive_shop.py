"""The usual way, seen to fail: publish after the commit and the order is lost; do everything in the handler and it is
doubled, or lost. Nothing here is staged: the same crashes leave the real shop with one invoice and one mail each."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import UUID

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from infra.control import Docker
from infra.native.stack import PROJECT
from loadtest.chaos import faults
from loadtest.chaos.schedule import Fault
from loadtest.customer import Customer
from loadtest.ledger import Ledger
from services.control_room.settings import PlacesSettings
from shared.contracts.orders_confirmed import OrderConfirmed
from shared.runtime.probe import probe
from tests.support import streams
from tests.support.orders import rows, wanted
from tests.support.processes import Child
from tests.support.wait import until
from tests.unit.test_mail_sink import Sink, free_address

NOBODY = "127.0.0.1:1"
"""Kafka, or the mail server, is away for a moment."""


@pytest.fixture
def topic(kafka: str) -> str:
    return streams.create_topic(kafka, 1)


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    made = Sink(tmp_path)
    yield made
    made.end(signal.SIGTERM)


@contextmanager
def naive_orders(url: str, kafka: str, topic: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    http = free_address()
    environment = {"PROCESS": "naive-orders", "HTTP_BIND": http, "OPS_BIND": free_address(), "DATABASE_URL": url,
                   "KAFKA_BOOTSTRAP": kafka, "TOPIC": topic}  # fmt: skip
    command = [sys.executable, "-m", "gunicorn", "-c", "shared/runtime/gunicorn_config.py"]
    master = subprocess.Popen(
        [*command, "services.orders.naive_api:create_app()"], env=os.environ | environment, cwd=PROJECT
    )
    try:
        until(lambda: probe(f"{http}/readyz", 1.0)[0], "naive-orders answers", seconds=60)
        yield f"http://{http}", master
    finally:
        if master.poll() is None:
            master.terminate()
        master.wait(20)


@contextmanager
def naive_billing(url: str, kafka: str, topic: str, smtp: str) -> Iterator[Child]:
    environment = {"PROCESS": "naive-billing", "OPS_BIND": free_address(), "DATABASE_URL": url,
                   "KAFKA_BOOTSTRAP": kafka, "TOPIC": topic, "SMTP_ADDRESS": smtp}  # fmt: skip
    with Child.started("services.billing.naive_consumer", **environment) as child:
        yield child


def order_at(url: str, folder: Path) -> str:
    with closing(Ledger(folder / "ledger")) as book, closing(Customer(url, book)) as customer:
        return customer.place(wanted())


def on_topic(kafka: str, topic: str) -> list[str]:
    reader = Consumer({"bootstrap.servers": kafka, "group.id": "looking", "enable.auto.commit": False})
    with closing(reader):
        end = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
        reader.assign([TopicPartition(topic, 0, 0)])
        return [str(OrderConfirmed.model_validate_json(m.value() or b"").order_id) for m in reader.consume(end, 20)]


def publish(kafka: str, topic: str) -> UUID:
    order: OrderConfirmed = streams.order().data
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(topic, order.model_dump_json(), str(order.order_id))
    assert producer.flush(20) == 0
    return order.order_id


def committed(kafka: str, topic: str) -> int:
    """How far the group believes to have come."""
    with closing(Consumer({"bootstrap.servers": kafka, "group.id": "naive-billing"})) as reader:
        return int(reader.committed([TopicPartition(topic, 0)], 10)[0].offset)


def effects(url: str, sink: Sink, order_id: UUID) -> tuple[int, int]:
    """Its invoices and its mails."""
    sent = sink.get(f"/api/v1/search?query=message-id:{order_id}")["messages_count"]
    return streams.scalar(url, "SELECT count(*) FROM invoices WHERE order_id = %s", order_id), int(sent)


def test_an_order_is_lost_when_the_publisher_dies_between_the_commit_and_kafka(
    database_url: str, kafka: str, topic: str, tmp_path: Path
) -> None:
    with naive_orders(database_url, NOBODY, topic) as (url, master):
        lost = order_at(url, tmp_path)  # the customer was thanked
        for process in [*psutil.Process(master.pid).children(recursive=True), psutil.Process(master.pid)]:
            process.kill()
    with naive_orders(database_url, kafka, topic) as (url, _):
        kept = order_at(url, tmp_path)
        until(lambda: kept in on_topic(kafka, topic), "the next order is published", seconds=40)
    assert on_topic(kafka, topic) == [kept]
    assert {str(found) for (found,) in rows(database_url, "SELECT id FROM orders")} == {lost, kept}


def test_an_order_is_doubled_when_the_consumer_dies_between_the_effect_and_the_offset(
    database_url: str, kafka: str, topic: str, sink: Sink
) -> None:
    with naive_billing(database_url, kafka, topic, sink.smtp) as billing:
        first = publish(kafka, topic)
        until(lambda: committed(kafka, topic) == 1, "its offset is committed, as every five seconds", seconds=40)
        doubled = publish(kafka, topic)
        until(lambda: effects(database_url, sink, doubled) == (1, 1), "the effect is there", seconds=40)
        billing.process.kill()
    assert committed(kafka, topic) == 1
    with naive_billing(database_url, kafka, topic, sink.smtp):
        until(lambda: effects(database_url, sink, doubled) == (2, 2), "and there again", seconds=40)
    assert effects(database_url, sink, first) == (1, 1)


def test_an_order_is_lost_when_the_mail_server_is_away_for_a_moment(
    database_url: str, kafka: str, topic: str, sink: Sink
) -> None:
    lost = publish(kafka, topic)
    with naive_billing(database_url, kafka, topic, NOBODY) as billing:
        until(lambda: committed(kafka, topic) == 1, "it has a log line, and its offset is committed", seconds=40)
        billing.terminate()
    with naive_billing(database_url, kafka, topic, sink.smtp):
        kept = publish(kafka, topic)
        until(lambda: effects(database_url, sink, kept) == (1, 1), "the next one is invoiced", seconds=40)
    assert effects(database_url, sink, lost) == (0, 0)


def test_chaos_publishes_its_newest_bytes_again_though_they_are_no_event(kafka: str, topic: str) -> None:
    places = PlacesSettings(orders_database_url="", billing_database_url="", analytics_database_url="",
                            kafka_bootstrap=kafka, mail_url="", topic=topic)  # fmt: skip
    hands = faults.Hands(Docker(), places, threading.Event())
    older, newest = publish(kafka, topic), publish(kafka, topic)
    assert faults.fall(hands, Fault(0.0, "naive-duplicate", topic)) == "5 records again"
    assert on_topic(kafka, topic) == [str(older), *[str(newest)] * 6]
    assert faults.fall(hands, Fault(0.0, "naive-replay", topic)) == "7 records again"
