"""Creates the topics, or brings them to what the settings say: `python -m infra.kafka.topics [TOPIC …]`.

A changed setting is applied. One that cannot be applied (fewer partitions, another replication factor) is refused in
words and nothing is changed: a topic that silently differs from its description is how events are lost.
"""

import sys

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pydantic import Field
from pydantic_settings import BaseSettings

from shared.contracts import CONTRACTS
from shared.runtime import settings

HOUR_MS = 3_600_000
PATIENCE_S = 30


class TopicSettings(BaseSettings):
    kafka_bootstrap: str
    topic_partitions: int = Field(3, ge=1)
    topic_replication_factor: int = Field(1, ge=1)
    topic_min_insync_replicas: int = Field(1, ge=1)
    topic_retention_hours: int = Field(168, ge=1)
    topic_segment_hours: int = Field(24, ge=1)

    def config(self) -> dict[str, str]:
        return {
            "cleanup.policy": "delete",
            "min.insync.replicas": str(self.topic_min_insync_replicas),
            "retention.ms": str(self.topic_retention_hours * HOUR_MS),
            "segment.ms": str(self.topic_segment_hours * HOUR_MS),
        }


class Refused(Exception):
    """A setting that a topic which exists cannot be given."""


def ensure(admin: AdminClient, topic: str, wanted: TopicSettings) -> str:
    """What was done, in a sentence."""
    known = admin.list_topics(timeout=PATIENCE_S).topics.get(topic)
    if known is None or known.error is not None:
        return _create(admin, topic, wanted)
    partitions = len(known.partitions)
    replicas = {len(partition.replicas) for partition in known.partitions.values()}
    if wanted.topic_partitions < partitions:
        raise Refused(
            f"{topic} has {partitions} partitions and TOPIC_PARTITIONS is {wanted.topic_partitions}: "
            "Kafka cannot take partitions away, and their events would be lost"
        )
    if replicas != {wanted.topic_replication_factor}:
        raise Refused(
            f"{topic} has replication factor {replicas} and TOPIC_REPLICATION_FACTOR is "
            f"{wanted.topic_replication_factor}: move the replicas with kafka-reassign-partitions first"
        )
    changes = _apply_config(admin, topic, wanted.config())
    if wanted.topic_partitions > partitions:
        admin.create_partitions([NewPartitions(topic, wanted.topic_partitions)])[topic].result(PATIENCE_S)
        changes.append(f"partitions {partitions} → {wanted.topic_partitions}")
    return f"{topic}: " + (", ".join(changes) or "as it should be")


def _create(admin: AdminClient, topic: str, wanted: TopicSettings) -> str:
    new = NewTopic(topic, wanted.topic_partitions, wanted.topic_replication_factor, config=wanted.config())
    try:
        admin.create_topics([new])[topic].result(PATIENCE_S)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":  # another run was quicker: check what it made
            raise
        return ensure(admin, topic, wanted)
    return f"{topic}: created with {wanted.topic_partitions} partitions"


def _apply_config(admin: AdminClient, topic: str, wanted: dict[str, str]) -> list[str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    current = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    changes = {name: value for name, value in wanted.items() if current[name].value != value}
    if changes:
        resource = ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()
            ],
        )
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    return [f"{name} {current[name].value} → {value}" for name, value in changes.items()]


def main() -> None:
    wanted = settings.load(TopicSettings)
    admin = AdminClient({"bootstrap.servers": wanted.kafka_bootstrap, "log_level": 3})
    try:
        for topic in sys.argv[1:] or CONTRACTS:
            print(ensure(admin, topic, wanted))
    except (Refused, KafkaException) as error:
        sys.exit(f"topics: {error}")


if __name__ == "__main__":
    main()
