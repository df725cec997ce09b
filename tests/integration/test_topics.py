"""Topics follow their settings, or the difference is refused in words."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from infra.kafka.topics import Refused, TopicSettings, ensure


@pytest.fixture
def admin(kafka: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka})


@pytest.fixture
def topic(admin: AdminClient) -> Iterator[str]:
    name = f"test.{uuid4().hex}"
    yield name
    admin.delete_topics([name])[name].result(30)


def wanted(**changes: int) -> TopicSettings:
    return TopicSettings(kafka_bootstrap="unused", **changes)  # type: ignore[arg-type]


def test_a_topic_is_created_once(admin: AdminClient, topic: str) -> None:
    assert ensure(admin, topic, wanted()) == f"{topic}: created with 3 partitions"
    assert ensure(admin, topic, wanted()) == f"{topic}: as it should be"


def test_a_changed_setting_is_applied(admin: AdminClient, topic: str) -> None:
    ensure(admin, topic, wanted())
    said = ensure(admin, topic, wanted(topic_retention_hours=24, topic_partitions=4))
    assert said == f"{topic}: retention.ms 604800000 → 86400000, partitions 3 → 4"
    assert ensure(admin, topic, wanted(topic_retention_hours=24, topic_partitions=4)).endswith("as it should be")


def test_partitions_are_never_taken_away(admin: AdminClient, topic: str) -> None:
    ensure(admin, topic, wanted())
    with pytest.raises(Refused, match="Kafka cannot take partitions away"):
        ensure(admin, topic, wanted(topic_partitions=2, topic_retention_hours=1))
    assert ensure(admin, topic, wanted()).endswith("as it should be"), "a refused change must change nothing"


def test_another_replication_factor_is_refused(admin: AdminClient, topic: str) -> None:
    ensure(admin, topic, wanted())
    with pytest.raises(Refused, match="replication factor"):
        ensure(admin, topic, wanted(topic_replication_factor=3))
