"""Putting aside what cannot be applied, so that the rest can go on.

does    writes a dead letter per bad event; knows which ids have one
reads   dead_letters, inbox
writes  dead_letters, handling_attempts (in the caller's transaction)
next    dead_letters.py, where a person decides
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from shared.messaging import metrics
from shared.messaging.errors import PayloadMismatch, Permanent
from shared.messaging.records import Received, Record, Unreadable
from shared.runtime import logs

# No inbox row: that is what lets a redrive apply it. One letter per event and payload (or per place, where there is no
# id), open or closed: a redelivery finds it and moves on. READ COMMITTED: the unique index decides between two writers.
# An event that was applied meanwhile, with the same bytes, by a consumer that had no trouble with it, needs no letter.
PARK = """
INSERT INTO dead_letters
       (consumer, event_id, payload_hash, value, key, topic_id, topic, partition, "offset", reason, error, attempts)
SELECT %(consumer)s, %(event_id)s, %(hash)s, %(value)s, %(key)s, %(topic_id)s, %(topic)s, %(partition)s, %(offset)s,
       %(reason)s, %(error)s, %(attempts)s
 WHERE NOT EXISTS (SELECT FROM inbox
                    WHERE consumer = %(consumer)s AND event_id = %(event_id)s AND payload_hash = %(hash)s)
ON CONFLICT DO NOTHING
"""


def park(
    session: Session, consumer: str, bad: Sequence[tuple[Record, Permanent]], *, reason: str = "", attempts: int = 1
) -> None:
    for record, problem in bad:
        event_id = _id(record)
        parked = session.connection().exec_driver_sql(
            PARK,
            {
                "consumer": consumer, "event_id": event_id, "hash": record.payload_hash,
                "value": record.value, "key": record.key,
                "topic_id": record.topic_id, "topic": record.topic,
                "partition": record.partition, "offset": record.offset,
                "reason": reason or problem.reason, "error": printable(str(problem)), "attempts": attempts,
            },
        ).rowcount  # fmt: skip
        if parked:
            _announce(consumer, record, event_id, reason or problem.reason, problem)


def _announce(consumer: str, record: Record, event_id: UUID | None, reason: str, problem: Permanent) -> None:
    metrics.PARKED.labels(consumer, reason).inc()
    if isinstance(problem, PayloadMismatch):
        metrics.MISMATCHES.labels(consumer).inc()
    logs.get().error(
        "event parked", consumer=consumer, reason=reason, error=str(problem), event_id=str(event_id),
        topic=record.topic, partition=record.partition, offset=record.offset,
    )  # fmt: skip


def printable(text: str) -> str:
    """PostgreSQL's text takes no NUL, and a repr of somebody's megabyte belongs nowhere."""
    return text.replace("\0", "\\0")[:2000]


def _id(record: Record) -> UUID | None:
    if isinstance(record, Received):
        return record.event.id
    return record.event_id if isinstance(record, Unreadable) else None


@dataclass(frozen=True, slots=True)
class Letter:
    payload_hash: bytes
    repaired_hash: bytes | None
    reason: str
    outcome: str | None

    def has(self, payload_hash: bytes) -> bool:
        return payload_hash in (self.payload_hash, self.repaired_hash)


class Known(defaultdict[UUID, list[Letter]]):
    """The letters, open and closed, about the ids of a batch. There are none for nearly every batch."""

    def is_parked(self, event_id: UUID, payload_hash: bytes) -> bool:
        """Open, or decided against: either way a delivery must not apply it."""
        return any(letter.has(payload_hash) and letter.outcome != "redriven" for letter in self.get(event_id, ()))

    def is_parked_otherwise(self, event_id: UUID, payload_hash: bytes) -> bool:
        """The id waits for a decision with other bytes. (A letter about a mismatch says nothing about the original.)"""
        return any(
            letter.outcome is None and letter.reason != PayloadMismatch.reason and not letter.has(payload_hash)
            for letter in self.get(event_id, ())
        )

    def same_event(self, event_id: UUID, one: bytes, other: bytes) -> bool:
        """A repaired letter has two payloads, and both are the event."""
        return any(letter.has(one) and letter.has(other) for letter in self.get(event_id, ()))


def known(session: Session, consumer: str, received: Sequence[Received]) -> Known:
    letters = Known(list)
    if not received:
        return letters
    rows = session.connection().exec_driver_sql(
        """SELECT event_id, payload_hash, repaired_hash, reason, outcome FROM dead_letters
            WHERE consumer = %s AND event_id = ANY(%b)""",
        (consumer, [r.event.id for r in received]),
    )
    for event_id, *letter in rows:
        letters[event_id].append(Letter(*letter))
    return letters


def open_letters(session: Session, consumer: str) -> int:
    return int(
        session.connection()
        .exec_driver_sql("SELECT count(*) FROM dead_letters WHERE consumer = %s AND closed_at IS NULL", (consumer,))
        .scalar_one()
    )


# The count is committed before the try, in a transaction of its own: what kills the process is counted too.
COUNT_ATTEMPT = """
INSERT INTO handling_attempts AS a (consumer, topic_id, partition, "offset", attempts) VALUES (%s, %s, %s, %s, 1)
ON CONFLICT (consumer, topic_id, partition, "offset") DO UPDATE SET attempts = a.attempts + 1, last_at = now()
RETURNING attempts
"""


def count_attempt(session: Session, consumer: str, record: Record) -> int:
    place = (consumer, record.topic_id, record.partition, record.offset)
    return int(session.connection().exec_driver_sql(COUNT_ATTEMPT, place).scalar_one())


def forget_attempts(session: Session, consumer: str) -> None:
    """Of all records that are settled: alone, or among others in the end."""
    session.connection().exec_driver_sql(
        """DELETE FROM handling_attempts AS a USING consumer_offsets AS o
            WHERE a.consumer = %s AND o.consumer = a.consumer AND o.topic_id = a.topic_id
              AND o.partition = a.partition AND a."offset" < o.next_offset""",
        (consumer,),
    )
