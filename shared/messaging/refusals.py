"""Rows that Kafka would refuse for good, because they are too large for their topic.

does    finds them before they are sent, and holds back everything behind them that has the same key
reads   the topic's max.message.bytes
writes  an alarm: relay_rows_refused and an error in the log, again and again until somebody acts
next    relay.py
"""

import time
from typing import Protocol
from uuid import UUID

from shared.messaging import kafka, metrics
from shared.messaging.errors import Misuse
from shared.messaging.kafka import KafkaSettings
from shared.runtime import logs

OVERHEAD_BYTES = 1024
"""Headers and framing of a record, generously."""


class Row(Protocol):
    @property
    def event_id(self) -> UUID: ...
    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> bytes: ...


class Refusals:
    """`outbox.add` refuses such sizes first; what is found here came in another way, or the topic was changed."""

    def __init__(self, settings: KafkaSettings, recheck_every_s: float) -> None:
        self._admin, self._recheck_every_s = kafka.admin(settings), recheck_every_s
        self.forget()

    def forget(self) -> None:
        """Ask Kafka again and try the rows again: a person may have raised the limit or removed the row."""
        self._limits: dict[str, int] = {}
        self._held_back: dict[str, UUID] = {}
        self._forget_at = time.monotonic() + self._recheck_every_s
        metrics.ROWS_REFUSED.set(0)

    def keys(self) -> list[str]:
        if self._held_back and time.monotonic() > self._forget_at:
            self.forget()
        return list(self._held_back)

    def refuses(self, row: Row) -> bool:
        """Too large, or behind a row of its key that is: overtaking it would break the order of the key."""
        if row.key in self._held_back:
            return True
        size, limit = len(row.value) + len(row.key) + OVERHEAD_BYTES, self._limit(row.topic)
        if size <= limit:
            return False
        self._held_back[row.key] = row.event_id
        self._forget_at = time.monotonic() + self._recheck_every_s
        metrics.ROWS_REFUSED.set(len(self._held_back))
        logs.get().error(
            "a row is too large for its topic: its key stands still until somebody acts",
            event_id=str(row.event_id), topic=row.topic, key=row.key, bytes=size, limit=limit,
        )  # fmt: skip
        return True

    def _limit(self, topic: str) -> int:
        if topic not in self._limits:
            limit = int(kafka.topic_config(self._admin, topic)["max.message.bytes"])
            if limit < kafka.BATCH_BYTES + OVERHEAD_BYTES:
                raise Misuse(f"topic {topic} takes {limit} bytes, the producer sends batches of {kafka.BATCH_BYTES}")
            self._limits[topic] = min(limit, kafka.MAX_MESSAGE_BYTES)
        return self._limits[topic]
