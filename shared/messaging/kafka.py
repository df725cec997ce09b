"""How we talk to Kafka: the one place with client settings, and why each is what it is.

does    makes producers and admin clients; asks for a topic's configuration
reads   nothing
writes  nothing
next    relay.py
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from shared.messaging.errors import TopicAway, Transient
from shared.runtime import logs

BATCH_BYTES = 256 * 1024
"""How much the producer puts into one request per partition."""


MAX_MESSAGE_BYTES = 1_000_000
"""A topic may take more; this producer does not send more."""

TOPIC_AWAY = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION)


@dataclass(frozen=True)
class KafkaSettings:
    bootstrap: str
    client_id: str = "effectively-once"
    extra: Mapping[str, str] = field(default_factory=dict)
    """Whatever else the cluster asks for: security.protocol, sasl.*, …"""

    def common(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            "error_cb": _say,
            "log_level": 3,  # what matters comes through error_cb, into our own log
            # A broker that comes back is found again within a second, not within ten.
            "reconnect.backoff.max.ms": 1000,
            "socket.keepalive.enable": True,
            **self.extra,
        }


def producer(settings: KafkaSettings) -> Producer:
    return Producer(
        {
            **settings.common(),
            # Retries neither repeat nor reorder what this producer sends…
            "enable.idempotence": True,
            "acks": "all",
            # …and go on until the broker answers: a time limit would turn an outage into a gap.
            "message.timeout.ms": 0,
            "retry.backoff.max.ms": 1000,
            # If a message does fail for good, everything behind it fails too instead of overtaking it.
            "enable.gapless.guarantee": True,
            # The relay collects batches itself; waiting here would only add to the latency.
            "linger.ms": 0,
            "batch.size": BATCH_BYTES,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "compression.type": "lz4",
            # The same partition for a key as Java's producers choose.
            "partitioner": "murmur2_random",
        }
    )


def admin(settings: KafkaSettings) -> AdminClient:
    return AdminClient(settings.common())


def topic_config(admin: AdminClient, topic: str, *, timeout_s: float = 10.0) -> dict[str, str]:
    """Transient while the broker is away; of those, TopicAway while the topic does not exist, or is not for us."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        entries = admin.describe_configs([resource], request_timeout=timeout_s)[resource].result(timeout_s + 1)
    except KafkaException as error:
        away = error.args[0].code() in TOPIC_AWAY
        raise (TopicAway if away else Transient)(f"topic {topic}: {error.args[0].str()}") from error
    except TimeoutError as error:
        raise Transient(f"topic {topic}: {error}") from error
    return {name: str(entry.value) for name, entry in entries.items()}


def _say(error: KafkaError) -> None:
    """The client goes on by itself; whoever reads the log should know why nothing moves."""
    logs.get().warning("kafka client reports", error=str(error))
