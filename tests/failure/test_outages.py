"""A server goes away under running processes, and comes back. On servers of this file's own."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from infra.native.stack import Stack
from shared.messaging import metrics
from shared.messaging.errors import Transient
from tests.support import producing, shop, streams
from tests.support.processes import Child
from tests.support.stacks import kafka_bootstrap, messaging_servers, postgres_url
from tests.support.streams import eventually
from tests.support.wait import pass_time


@dataclass
class Chain:
    """Outbox → relay → Kafka → two consumers of one group → invoices. The relay and the consumers are processes."""

    url: str
    kafka: str
    relay: Child
    consumers: list[Child]
    topic: str
    name: str
    confirmed: list[str] = field(default_factory=list)

    def confirm(self, count: int) -> None:
        self.confirmed += shop.confirm(self.url, self.topic, count)

    def all_applied(self) -> bool:
        return shop.applied("billing", self.url) == sorted(self.confirmed)

    def is_shared_by(self, members: int) -> bool:
        """By so many, each with a partition or all of them."""
        admin = AdminClient({"bootstrap.servers": self.kafka})
        group = admin.describe_consumer_groups([self.name])[self.name].result(10)
        assignments = [len(member.assignment.topic_partitions) for member in group.members]
        return len(assignments) == members and min(assignments) > 0


@pytest.fixture(scope="module")
def own_servers() -> Iterator[Stack]:
    with messaging_servers() as stack:
        yield stack


@pytest.fixture
def chain(own_servers: Stack) -> Iterator[Chain]:
    name, kafka = streams.name("billing"), kafka_bootstrap(own_servers)
    url = postgres_url(own_servers).rsplit("/", 1)[0] + "/" + name
    with psycopg.connect(postgres_url(own_servers), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    streams.install(url, shop.TABLES["billing"])
    producing.install(url)
    topic = streams.create_topic(kafka)
    with ExitStack() as running:
        relay = running.enter_context(producing.relay_process(url, kafka))
        consumers = [running.enter_context(shop.consumer_process("billing", name, url, kafka, topic)) for _ in range(2)]
        chain = Chain(url, kafka, relay, consumers, topic, name)
        chain.confirm(50)
        eventually(lambda: chain.all_applied() and chain.is_shared_by(2), "all are at work")
        yield chain
        eventually(chain.all_applied, "everything is applied, once")
        assert streams.scalar(url, "SELECT count(*) FROM dead_letters") == 0
        producing.drained(url)
        assert chain.relay.process.poll() in (None, 0), "the relay lived through it"


def test_a_database_away_for_30_s_with_a_rebalance_in_the_middle(own_servers: Stack, chain: Chain) -> None:
    """One consumer waits with its batch in hand; it is then given the partition of the other, which died meanwhile."""
    chain.relay.stop()
    chain.confirm(200)
    chain.relay.wake()
    own_servers.stop("postgres")
    try:
        pass_time(10)
        chain.consumers[1].process.kill()
        eventually(lambda: chain.is_shared_by(1), "the group has noticed")
        pass_time(20)
    finally:
        own_servers.start("postgres")
    chain.confirm(50)
    eventually(chain.all_applied, "one consumer has done the work of both")
    assert chain.consumers[0].is_running(), "it lived through the outage"


def test_a_database_killed_and_restarted_under_relay_and_consumers(own_servers: Stack, chain: Chain) -> None:
    chain.confirm(200)
    own_servers.kill("postgres")
    own_servers.start("postgres")
    chain.confirm(50)


def test_kafka_away_and_restarted_under_relay_and_consumers(own_servers: Stack, chain: Chain) -> None:
    """Orders are taken all the while; the relay waits with the rows it could not deliver."""
    own_servers.stop("kafka")
    try:
        chain.confirm(100)
        pass_time(4)
        assert producing.unpublished(chain.url) == 100
    finally:
        own_servers.start("kafka")
    chain.confirm(50)


def test_while_kafka_is_away_the_age_of_the_oldest_event_grows(own_servers: Stack, chain: Chain) -> None:
    """The figure that tells an operator about the outage must not stand still in it."""
    chain.relay.terminate()
    chain.confirm(1)
    with producing.relay(chain.url, chain.kafka, producing.QUICK) as relay:
        producing.stepped(relay)
        own_servers.stop("kafka")
        try:
            chain.confirm(1)

            def age_s() -> float:
                with pytest.raises(Transient):
                    relay.step()
                return float(metrics.OUTBOX_AGE._value.get())

            first = age_s()
            eventually(lambda: age_s() > first + 2, "the age grows with every second of the outage")
        finally:
            own_servers.start("kafka")
        eventually(lambda: producing.stepped(relay) >= 0 and producing.unpublished(chain.url) == 0, "published")
        eventually(lambda: producing.stepped(relay) >= 0 and not relay.lateness(first)(), "on time again")


def test_kafka_killed_in_the_middle_of_the_work(own_servers: Stack, chain: Chain) -> None:
    chain.confirm(300)
    own_servers.kill("kafka")
    chain.confirm(100)
    own_servers.start("kafka")
    chain.confirm(50)
