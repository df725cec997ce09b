"""Faults on request: what goes wrong on a bad day, one function each. Every one answers what it did.

does    puts onto the topic what a healthy shop would not
reads   the outbox, the topic
writes  Kafka
next    faults_api.py, which also arms failpoints and kills processes

No fault invents an order: bad events are bad copies of good ones, so that even a person who repairs and redrives one
ends with as many invoices as orders.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson

from services.control_room import topic
from services.control_room.settings import PlacesSettings
from services.control_room.topic import Produced, Published, Record
from shared.messaging.event import MAX_BYTES

LATE = timedelta(days=400)
"""Far beyond any dedupe window."""

Done = dict[str, Any]


def duplicate(places: PlacesSettings, order_id: UUID | None = None, times: int = 100) -> Done:
    """The relay's own bytes and key: to a consumer nothing tells the copy from the original."""
    original = topic.published(places, order_id)
    return _done(original, topic.produce(places, [_copy(original, original.value)] * times))


def replay(places: PlacesSettings, last: int = 1000) -> Done:
    produced = topic.produce(places, topic.last_records(places, last))
    return {"records": len(produced), "places": _ranges(produced)}


def tamper(places: PlacesSettings, order_id: UUID | None = None) -> Done:
    """The same id, another amount: somebody, or a bug, has changed an event on its way."""
    original = topic.published(places, order_id)
    envelope = orjson.loads(original.value)
    envelope["data"]["total"] += 1
    return _done(original, topic.produce(places, [_copy(original, orjson.dumps(envelope))]))


def late(places: PlacesSettings, order_id: UUID | None = None) -> Done:
    """A second event about an order, with an id so old that no inbox can say whether it has seen it."""
    original = topic.published(places, order_id)
    then = datetime.now(UTC) - LATE
    identity = _id_at(then)
    value = _changed(original, id=str(identity), time=then.isoformat())
    return _done(original, topic.produce(places, [_copy(original, value)])) | {"event_id": str(identity)}


def poison(places: PlacesSettings, kind: str = "invalid") -> Done:
    original = topic.published(places)
    value = POISONS[kind](original)
    return _done(original, topic.produce(places, [_copy(original, value)])) | {"poison": kind}


def _invalid(original: Published) -> bytes:
    """A bad copy of a real event: the repaired letter is that event again, and the inbox knows it."""
    envelope = orjson.loads(original.value)
    envelope["data"]["total"] = -1
    return orjson.dumps(envelope)


POISONS: dict[str, Callable[[Published], bytes | None]] = {
    "undecodable": lambda _original: b"\x00\xffthis is not JSON{",
    "invalid": _invalid,
    "too-large": lambda original: _changed(original, id=str(_id_at(datetime.now(UTC))), padding="x" * MAX_BYTES),
    "unknown-type": lambda original: _changed(original, id=str(_id_at(datetime.now(UTC))), type="orders.teleported"),
    "null": lambda _original: None,
}


def _id_at(moment: datetime) -> UUID:
    """A UUIDv7 of any time: milliseconds, version, and the rest at random."""
    return UUID(int=int(moment.timestamp() * 1000) << 80 | 7 << 76 | uuid4().int & ~(0xF << 76) & ((1 << 80) - 1))


def _changed(original: Published, **attributes: Any) -> bytes:
    return orjson.dumps({**orjson.loads(original.value), **attributes})


def _copy(original: Published, value: bytes | None) -> Record:
    headers = [(name, str(text).encode()) for name, text in original.headers.items()]
    return Record(value, original.key.encode(), headers)


def _done(original: Published, produced: Sequence[Produced]) -> Done:
    return {
        "event_id": str(original.event_id),
        "order_id": original.key,
        "records": len(produced),
        "places": _ranges(produced),
    }


def _ranges(produced: Sequence[Produced]) -> list[dict[str, int]]:
    """First and last offset per partition: a thousand offsets are no answer for a person."""
    offsets: dict[int, list[int]] = {}
    for partition, offset in produced:
        offsets.setdefault(partition, []).append(offset)
    return [
        {"partition": partition, "first_offset": min(found), "last_offset": max(found)}
        for partition, found in sorted(offsets.items())
    ]
