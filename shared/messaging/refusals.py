"""Rows that Kafka would refuse for good: too large for their topic, or for a topic that takes nothing from us.

does    finds them before they are sent; holds back what is behind them with the same key, or is for the same topic
reads   the topic's max.message.bytes
writes  an alarm: relay_rows_refused and an error in the log, again and again until somebody acts
next    relay.py
"""

import time
from typing import TYPE_CHECKING

from shared.messaging import kafka, metrics
from shared.messaging.errors import Misuse, TopicAway
from shared.messaging.kafka import KafkaSettings
from shared.runtime import logs

if TYPE_CHECKING:
    from shared.messaging.relay import Row

OVERHEAD_BYTES = 1024
"""Headers and framing of a record, generously."""


class Refusals:
    """`outbox.add` refuses such sizes first; what is found here came in another way, or the topic was changed."""

    def __init__(self, settings: KafkaSettings, recheck_every_s: float) -> None:
        self._admin, self._recheck_every_s = kafka.admin(settings), recheck_every_s
        self.forget()

    def forget(self) -> None:
        """Ask Kafka again and try the rows again: a person may have raised the limit or removed the row."""
        self._limits: dict[str, int] = {}
        self._keys: set[str] = set()
        self._topics: set[str] = set()
        metrics.ROWS_REFUSED.set(0)

    def standing(self) -> dict[str, list[str]]:
        """For the relay's SELECT: what is held back."""
        if (self._keys or self._topics) and time.monotonic() > self._forget_at:
            self.forget()
        return {"held_back": list(self._keys), "topics_away": list(self._topics)}

    def refuses(self, row: "Row") -> bool:
        """Too large, or behind a row of its key that is: overtaking it would break the order of the key."""
        if row.key in self._keys or row.topic in self._topics:
            return True
        try:
            size, limit = len(row.value) + len(row.key.encode()) + OVERHEAD_BYTES, self._limit(row.topic)
        except (TopicAway, Misuse) as error:
            self._stand_still(self._topics, row.topic, row, str(error))
            return True
        if size > limit:
            self._stand_still(self._keys, row.key, row, f"{size} bytes, the topic takes {limit}")
        return size > limit

    def _stand_still(self, held: set[str], name: str, row: "Row", why: str) -> None:
        if not (self._keys or self._topics):  # a later refusal must not put off the next look at the first
            self._forget_at = time.monotonic() + self._recheck_every_s
        held.add(name)
        metrics.ROWS_REFUSED.set(len(self._keys) + len(self._topics))
        logs.get().error(
            "a row cannot be published: its key or topic stands still until somebody acts",
            event_id=str(row.event_id), topic=row.topic, key=row.key, error=why,
        )  # fmt: skip

    def _limit(self, topic: str) -> int:
        if topic not in self._limits:
            limit = int(kafka.topic_config(self._admin, topic)["max.message.bytes"])
            if limit < kafka.BATCH_BYTES + OVERHEAD_BYTES:
                raise Misuse(f"topic {topic} takes {limit} bytes, the producer sends batches of {kafka.BATCH_BYTES}")
            self._limits[topic] = min(limit, kafka.MAX_MESSAGE_BYTES)
        return self._limits[topic]
