"""Where the topic ends, partition by partition."""

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from shared.messaging import kafka
from shared.messaging.kafka import KafkaSettings

PATIENCE_S = 2.0


class KafkaAway(Exception):
    """The broker does not answer."""


class Broker:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._admin: AdminClient | None = None
        self._partitions: list[int] = []

    def ends(self) -> dict[int, int]:
        if self._admin is None:
            self._admin = kafka.admin(KafkaSettings(self._bootstrap, "control-room-sampler"))
        try:
            if not self._partitions:
                known = self._admin.list_topics(self._topic, timeout=PATIENCE_S).topics[self._topic]
                self._partitions = sorted(known.partitions)
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            wanted = {TopicPartition(self._topic, number): latest for number in self._partitions}
            asked = self._admin.list_offsets(wanted, request_timeout=PATIENCE_S)
            return {place.partition: future.result(PATIENCE_S).offset for place, future in asked.items()}
        except (KafkaException, TimeoutError) as error:
            raise KafkaAway(str(error)) from error
