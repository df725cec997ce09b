"""An event: CloudEvents 1.0, structured JSON, one id for its whole life.

does    makes events, turns them into bytes once, and reads them back
reads   shared/contracts (what each type's data must look like)
writes  nothing
next    outbox.py
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from pydantic import BaseModel, ValidationError

from shared.messaging.errors import Invalid, Undecodable, UnknownType

try:
    from uuid import uuid7  # type: ignore[attr-defined]  # Python 3.14
except ImportError:
    from uuid_utils.compat import uuid7

MAX_BYTES = 512 * 1024
"""Half of what a broker takes by default (message.max.bytes), so that headers and batch framing always fit."""

Contracts = Mapping[str, type[BaseModel]]
"""Event type → the model of its data. `shared.contracts.CONTRACTS` in this shop."""


class Event(NamedTuple):
    id: UUID
    type: str
    source: str
    subject: str
    time: datetime
    dataversion: str
    data: Any
    """At the consumer, the contract's model; unknown fields are dropped there, so that producers may add some."""
    traceparent: str | None = None


def new(
    type: str,
    *,
    source: str,
    subject: str,
    data: BaseModel,
    dataversion: str = "1",
    traceparent: str | None = None,
) -> Event:
    """A UUIDv7 made here, once: a second publication carries the same id."""
    return Event(uuid7(), type, source, subject, datetime.now(UTC), dataversion, data, traceparent)


def encode(event: Event, contracts: Contracts) -> bytes:
    """Strict: what we emit obeys its contract to the letter, and has a size that every broker takes."""
    contract = _contract(event.type, contracts)
    fields = event.data.model_dump(mode="json") if isinstance(event.data, BaseModel) else event.data
    try:
        contract.model_validate(fields, extra="forbid")
    except ValidationError as error:
        raise Invalid(_first_problem(event.type, error)) from error
    envelope = {
        "specversion": "1.0",
        "id": str(event.id),
        "type": event.type,
        "source": event.source,
        "subject": event.subject,
        "time": event.time.isoformat(),
        "datacontenttype": "application/json",
        "dataversion": event.dataversion,
        **({"traceparent": event.traceparent} if event.traceparent else {}),
        "data": fields,
    }
    value = orjson.dumps(envelope)
    if len(value) > MAX_BYTES:
        raise Invalid(f"{event.type}: {len(value)} bytes; at most {MAX_BYTES} fit")
    return value


def decode(value: bytes | None, contracts: Contracts) -> Event:
    """Tolerant of unknown fields, of nothing else."""
    if value is None:
        raise Undecodable("a null value (a tombstone) is not an event")
    if len(value) > MAX_BYTES:
        raise Invalid(f"{len(value)} bytes; at most {MAX_BYTES} are read")
    try:
        envelope = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Undecodable(f"not JSON: {error}") from error
    if not isinstance(envelope, dict):
        raise Undecodable(f"a JSON {type(envelope).__name__} is not a CloudEvents object")
    return _from_envelope(envelope, contracts)


def _from_envelope(envelope: dict[str, Any], contracts: Contracts) -> Event:
    if envelope.get("specversion") != "1.0":
        raise Undecodable(f"specversion is {envelope.get('specversion')!r}, not '1.0'")
    texts = [_text(envelope, name) for name in ("type", "source", "subject", "dataversion")]
    event_type, source, subject, dataversion = texts
    identity, moment = parse_id(_text(envelope, "id")), _time(_text(envelope, "time"))
    contract = _contract(event_type, contracts)
    try:
        data = contract.model_validate(envelope.get("data"))
    except ValidationError as error:
        raise Invalid(_first_problem(event_type, error)) from error
    traceparent = envelope.get("traceparent")
    return Event(
        identity, event_type, source, subject, moment, dataversion, data,
        traceparent if isinstance(traceparent, str) else None,
    )  # fmt: skip


_CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII)


def parse_id(text: str) -> UUID:
    """Only the canonical lower-case spelling of a UUIDv7: one event must not have two spellings of its id."""
    if not _CANONICAL.fullmatch(text):
        raise Invalid(f"id {text[:60]!r} is not a UUIDv7 in canonical form")
    return UUID(text)


def time_of(event_id: UUID) -> datetime:
    """When a UUIDv7 was made: its first 48 bits are milliseconds since 1970."""
    return datetime.fromtimestamp((event_id.int >> 80) / 1000, UTC)


def _text(envelope: dict[str, Any], name: str) -> str:
    value = envelope.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 1024 or "\0" in value:
        raise Invalid(f"attribute {name!r} must be a text of 1 to 1024 characters")
    return value


def _time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(f"time {text[:60]!r} is not RFC 3339") from error
    if moment.tzinfo is None:
        raise Invalid(f"time {text!r} has no offset")
    return moment


def _contract(event_type: str, contracts: Contracts) -> type[BaseModel]:
    try:
        return contracts[event_type]
    except KeyError:
        raise UnknownType(f"no contract for {event_type[:100]!r}") from None


def _first_problem(event_type: str, error: ValidationError) -> str:
    """Where and what, not the value: a customer's data does not belong in logs."""
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "data"
    return f"{event_type}: {where}: {first['msg']} ({error.error_count()} problem(s))"
