"""Events: strict when made, tolerant of unknown fields when read, and a clear word for everything else."""

from uuid import UUID, uuid4

import orjson
import pytest

from shared.contracts import CONTRACTS
from shared.messaging import event as events
from shared.messaging import records
from shared.messaging.errors import Invalid, Permanent, Undecodable, UnknownType
from tests.support import streams


def envelope(**changes: object) -> bytes:
    made = orjson.loads(streams.encoded(streams.order()))
    for name, value in changes.items():
        if value is ...:
            del made[name]
        else:
            made[name] = value
    return orjson.dumps(made)


def test_what_is_read_is_what_was_made() -> None:
    made = streams.order()
    assert events.decode(streams.encoded(made), CONTRACTS) == made
    assert orjson.loads(streams.encoded(made))["specversion"] == "1.0"


def test_ids_are_made_in_the_order_of_time_and_tell_it() -> None:
    ids = [streams.order().id for _ in range(1000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 1000
    assert abs((events.time_of(ids[0]) - streams.order().time).total_seconds()) < 60


def test_a_consumer_tolerates_fields_that_it_does_not_know() -> None:
    made = orjson.loads(envelope(extension="new", traceparent=5))
    made["data"]["loyalty_points"] = 5
    assert events.decode(orjson.dumps(made), CONTRACTS).traceparent is None


def test_a_producer_does_not() -> None:
    order = streams.order()
    loose = {**order.data.model_dump(mode="json"), "loyalty_points": 5}
    made = events.Event(order.id, order.type, "orders", order.subject, order.time, "1", loose)
    with pytest.raises(Invalid, match="loyalty_points"):
        events.encode(made, CONTRACTS)


def test_an_event_too_large_for_a_broker_is_refused_before_it_is_written() -> None:
    order = streams.order()
    lines = [line.model_copy(update={"name": "x" * 200}) for line in order.data.lines * 4000]
    large = order.data.model_copy(update={"lines": lines})
    with pytest.raises(Invalid):
        events.encode(events.new("orders.confirmed", source="o", subject=order.subject, data=large), CONTRACTS)
    with pytest.raises(Invalid, match="at most"):
        events.decode(b" " * (events.MAX_BYTES + 1), CONTRACTS)


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (None, Undecodable, "tombstone"),
        (b"", Undecodable, "not JSON"),
        (b"\xff\xfe", Undecodable, "not JSON"),
        (b"[]", Undecodable, "JSON list"),
        (b"[" * 2000, Undecodable, "not JSON"),
        (envelope(specversion="0.3"), Undecodable, "specversion"),
        (envelope(specversion=...), Undecodable, "specversion"),
        (envelope(id=...), Invalid, "'id'"),
        (envelope(id=5), Invalid, "'id'"),
        (envelope(id=str(uuid4())), Invalid, "not a UUIDv7"),
        (envelope(id=str(streams.order().id).upper()), Invalid, "canonical"),
        (envelope(type="orders.unheard_of"), UnknownType, "orders.unheard_of"),
        (envelope(type=""), Invalid, "'type'"),
        (envelope(source="a\0b"), Invalid, "'source'"),
        (envelope(subject="x" * 1025), Invalid, "'subject'"),
        (envelope(time="yesterday"), Invalid, "RFC 3339"),
        (envelope(time="2026-11-18T00:00:00"), Invalid, "no offset"),
        (envelope(data=...), Invalid, "orders.confirmed: data"),
        (envelope(data={"order_id": "no"}), Invalid, "problem"),
    ],
)
def test_every_malformed_event_has_its_own_clear_error(value: bytes | None, error: type[Permanent], says: str) -> None:
    with pytest.raises(error, match=says):
        events.decode(value, CONTRACTS)


def test_the_error_does_not_repeat_the_customers_data() -> None:
    made = orjson.loads(envelope())
    made["data"]["currency"] = "something-private"
    with pytest.raises(Invalid) as caught:
        events.decode(orjson.dumps(made), CONTRACTS)
    assert "something-private" not in str(caught.value)


def test_an_unreadable_event_still_tells_its_id_where_it_has_one() -> None:
    order = streams.order()
    broken = streams.encoded(order).replace(b'"EUR"', b'"euro"')
    assert records.id_of(broken) == order.id
    for nothing in (None, b"{", b"[]", b'{"id": 5}', b'{"id": "x"}'):
        assert records.id_of(nothing) is None


def test_a_day_is_a_range_of_ids() -> None:
    order = streams.order()
    assert UUID(int=order.id.int >> 80 << 80) <= order.id
