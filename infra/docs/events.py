"""What crosses a service boundary. An event is a CloudEvents 1.0 object in structured JSON, the value of a Kafka
record whose key is the subject. Consumers drop unknown fields and refuse everything else that breaks the contract;
producers add nothing.
"""

from typing import Any

from infra.docs.markdown import code, table
from shared.contracts import CONTRACTS
from shared.messaging.event import MAX_BYTES

ENVELOPE = [
    ("specversion", "`1.0`"),
    ("id", "a UUIDv7 in canonical form, made once; the same in every publication"),
    ("type", "one of the types below"),
    ("source", "the service, e.g. `/orders`"),
    ("subject", "the aggregate's id; also the record's key"),
    ("time", "RFC 3339, with an offset"),
    ("datacontenttype", "`application/json`"),
    ("dataversion", "the edition of the data, for people; consumers decide by type"),
    ("traceparent", "W3C trace context, optional"),
    ("data", "what the contract says"),
]


def body() -> str:
    envelope = table(["attribute", ""], ([code(name), text] for name, text in ENVELOPE))
    size = f"At most {MAX_BYTES // 1024} KiB. Money is a whole number of the currency's smallest unit."
    return "\n\n".join([f"## Envelope\n\n{envelope}\n\n{size}", *(_contract(each) for each in CONTRACTS)])


def _contract(event_type: str) -> str:
    model = CONTRACTS[event_type]
    schema = model.model_json_schema()
    told = (__import__(model.__module__, fromlist=["_"]).__doc__ or "").partition(": ")[2]
    parts = [f"## {event_type}", told, f"Schema: `shared/contracts/{event_type}.schema.json`.", _fields(schema)]
    for name, definition in schema.get("$defs", {}).items():
        parts.append(f"**{name}**\n\n{_fields(definition)}")
    return "\n\n".join(parts)


def _fields(definition: dict[str, Any]) -> str:
    required = definition.get("required", [])
    rows = [
        [code(name), _type(field), "" if name in required else "optional"]
        for name, field in definition["properties"].items()
    ]
    return table(["field", "type", ""], rows)


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}{_limits(field, 'minItems', 'maxItems')}"
    name = str(field.get("format") or field.get("type", "any"))
    return name + _limits(field, "minimum", "maximum") + _limits(field, "minLength", "maxLength") + _pattern(field)


def _limits(field: dict[str, Any], low: str, high: str) -> str:
    if low not in field and high not in field:
        return ""
    return f", {field.get(low, 0):,} to {field[high]:,}" if high in field else f", at least {field[low]:,}"


def _pattern(field: dict[str, Any]) -> str:
    return f", {code(field['pattern'])}" if "pattern" in field else ""
