"""What comes out of Kafka: an event and where it was, or bytes that are no event and why.

does    turns a Kafka message into a Received or an Unreadable; never raises for bad bytes
reads   Kafka messages
writes  nothing
next    inbox.py
"""

import hashlib
from dataclasses import dataclass
from uuid import UUID

import orjson
from confluent_kafka import Message

from shared.messaging import event as events
from shared.messaging.errors import Invalid, Permanent
from shared.messaging.event import Contracts, Event


@dataclass(slots=True, eq=False)
class Record:
    """Bytes and their coordinates."""

    topic_id: str
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    payload_hash: bytes
    timestamp_ms: int


@dataclass(slots=True, eq=False)
class Received(Record):
    """What a handler gets: the event, and its place for the few that need it."""

    event: Event


@dataclass(slots=True, eq=False)
class Unreadable(Record):
    event_id: UUID | None
    problem: Permanent


Delivered = Received | Unreadable


def read(message: Message, topic_id: str, contracts: Contracts) -> Delivered:
    value = message.value()
    return parse(
        Record(
            topic_id, message.topic() or "", message.partition() or 0, message.offset() or 0,
            message.key(), value, digest(value), message.timestamp()[1],
        ),
        contracts,
    )  # fmt: skip


def parse(record: Record, contracts: Contracts) -> Delivered:
    r = record
    place = (r.topic_id, r.topic, r.partition, r.offset, r.key, r.value, r.payload_hash, r.timestamp_ms)
    try:
        return Received(*place, events.decode(r.value, contracts))
    except Permanent as problem:
        return Unreadable(*place, id_of(r.value), problem)
    except Exception as error:  # noqa: BLE001  a contract with a bug must not stand in the way of the other events
        return Unreadable(*place, id_of(r.value), Permanent(f"reading it failed: {error!r}"))


def digest(value: bytes | None) -> bytes:
    return hashlib.sha256(value or b"").digest()


def id_of(value: bytes | None) -> UUID | None:
    """The id of an event that is otherwise unusable, so that its letter can be found by it."""
    try:
        envelope = orjson.loads(value or b"")
        return events.parse_id(envelope["id"]) if isinstance(envelope, dict) else None
    except (orjson.JSONDecodeError, KeyError, TypeError, Invalid):
        return None
