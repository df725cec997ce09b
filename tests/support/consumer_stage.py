"""What a consumer is broken on: a topic with orders and one bad event, a database, and processes to come and go."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from shared.messaging.event import Event
from tests.support import shop, streams
from tests.support.processes import Child

WINDOWS = ("after_receive", "after_claim", "before_commit", "after_commit", "after_offset", "before_park")
KINDS = ("billing", "analytics", "inventory")


@dataclass
class ConsumerStage:
    kind: str
    url: str
    kafka: str
    topic: str
    name: str
    orders: list[Event] = field(default_factory=list)

    def publish(self, count: int) -> None:
        orders = [streams.order() for _ in range(count)]
        streams.publish(self.kafka, self.topic, orders)
        self.orders += orders

    def consumer(self, window: str = "", action: str = "") -> AbstractContextManager[Child]:
        failpoints = f"{self.name}.consumer.{window}={action}" if window else ""
        return shop.consumer_process(self.kind, self.name, self.url, self.kafka, self.topic, failpoints=failpoints)

    def all_applied(self) -> bool:
        return shop.applied(self.kind, self.url) == sorted(order.subject for order in self.orders)

    def is_settled(self) -> bool:
        return self.all_applied() and self.count("dead_letters") == 1

    def count(self, table: str) -> int:
        return streams.scalar(self.url, f"SELECT count(*) FROM {table}")

    def slots_held(self) -> int:
        return streams.scalar(
            self.url, "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", f"{self.name}-slot"
        )


@contextmanager
def staged(kind: str, url: str, kafka: str) -> Iterator[ConsumerStage]:
    """At the end, nothing half done is left."""
    streams.install(url, shop.TABLES[kind])
    shop.make_impatient(url)
    stage = ConsumerStage(kind, url, kafka, streams.create_topic(kafka), streams.name(kind))
    stage.publish(12)
    streams.publish(kafka, stage.topic, [b"{not an event"], partition=0)
    stage.publish(12)
    yield stage
    assert stage.count("handling_attempts") == 0
    assert stage.count("inbox") == len(stage.orders)
