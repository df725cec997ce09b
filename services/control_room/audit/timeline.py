"""The life of one order: every row, offset and delivery count, in the order of time."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from services.control_room.audit import mailbox
from services.control_room.settings import PlacesSettings
from services.control_room.topic import around
from shared.messaging.event import time_of


class Moment(NamedTuple):
    at: datetime | None
    where: str
    what: str


def of(places: PlacesSettings, order_id: UUID) -> list[Moment]:
    """Empty when nobody has ever heard of it."""
    in_orders, event_ids = _in_orders(places, order_id)
    moments = [*in_orders, *_in_billing(places, order_id, event_ids), *_in_analytics(places, order_id, event_ids)]
    moments += _in_mailbox(places, order_id)
    return sorted(moments, key=lambda moment: (moment.at is None, moment.at))


def _in_orders(places: PlacesSettings, order_id: UUID) -> tuple[list[Moment], list[UUID]]:
    """And the ids of its events, by which the consumers know it: also one that had no effect."""
    moments, event_ids, earliest = [], [], UUID(int=0)
    with _reading(places, "orders") as orders:
        for created_at, confirmed_at, total, currency in orders.execute(
            "SELECT created_at, confirmed_at, total, currency FROM orders WHERE id = %s", (order_id,)
        ):
            earliest, _ = around(created_at)  # so that the days before are not searched
            said = f"order placed: {total} {currency} (smallest units, before tax)"
            moments.append(Moment(created_at, "orders", said))
            if confirmed_at:
                said = "order confirmed, event written in the same transaction"
                moments.append(Moment(confirmed_at, "orders", said))
        for event_id, seq, shard, published_at in orders.execute(
            "SELECT event_id, seq, shard, published_at FROM outbox WHERE event_id >= %s AND key = %s",
            (earliest, str(order_id)),
        ):
            event_ids.append(event_id)
            moments.append(Moment(time_of(event_id), "orders outbox", f"event {event_id}, seq {seq}, shard {shard}"))
            if published_at:
                moments.append(Moment(published_at, "orders outbox", "acknowledged by Kafka and marked"))
    return moments, event_ids


INVOICES = """
SELECT id, event_id, series, number, gross, currency, issued_at, state, sent_at, unknown_outcomes, refusal
  FROM invoices WHERE order_id = %s
"""
NOT_SENT = {"issued": "e-mail waits for the PDF", "rendered": "e-mail to be sent", "sending": "e-mail is being sent"}


def _in_billing(places: PlacesSettings, order_id: UUID, event_ids: list[UUID]) -> Iterator[Moment]:
    with _reading(places, "billing") as billing:
        invoices = billing.execute(INVOICES, (order_id,)).fetchall()
        yield from _received(billing, "billing", order_id, {*event_ids, *(row[1] for row in invoices)})
        for identity, _, series, number, gross, currency, issued_at, state, sent_at, unknown, refusal in invoices:
            yield Moment(issued_at, "billing", f"invoice {series}/{number} ({identity}): {gross} {currency} with tax")
            for rendered_at, size, digest in billing.execute(
                "SELECT rendered_at, length(content), encode(sha256, 'hex') FROM invoice_pdfs WHERE invoice_id = %s",
                (identity,),
            ):
                yield Moment(rendered_at, "billing", f"PDF stored: {size} bytes, sha256 {digest[:16]}…")
            mail = f"e-mail {state}" if sent_at else NOT_SENT.get(state, f"e-mail {state}: {refusal}")
            yield Moment(sent_at, "billing", f"{mail}; unknown outcomes: {unknown}")
        for kind, state, attempts, created_at, finished_at, error in billing.execute(
            """SELECT kind, state, attempts, created_at, finished_at, last_error FROM tasks
                WHERE key = %s OR key IN (SELECT id::text FROM invoices WHERE order_id = %s)""",
            (str(order_id), order_id),
        ):
            yield Moment(created_at, "billing tasks", f"{kind} asked for")
            if finished_at:
                yield Moment(finished_at, "billing tasks", f"{kind} {state} after {attempts} attempt(s) {error or ''}")


def _in_analytics(places: PlacesSettings, order_id: UUID, event_ids: list[UUID]) -> Iterator[Moment]:
    with _reading(places, "analytics") as analytics:
        counted = analytics.execute(
            "SELECT event_id, counted_at FROM counted_orders WHERE order_id = %s", (order_id,)
        ).fetchall()
        yield from _received(analytics, "analytics", order_id, {*event_ids, *(row[0] for row in counted)})
        for _, counted_at in counted:
            yield Moment(counted_at, "analytics", "order counted")


def _received(
    database: psycopg.Connection[Any], consumer: str, order_id: UUID, event_ids: set[UUID]
) -> Iterator[Moment]:
    yield from _inbox(database, consumer, list(event_ids))
    yield from _dead_letters(database, consumer, order_id, list(event_ids))


def _inbox(database: psycopg.Connection[Any], consumer: str, event_ids: list[UUID]) -> Iterator[Moment]:
    for deliveries, outcome, partition, offset, processed_at in database.execute(
        """SELECT deliveries, outcome, from_partition, from_offset, processed_at FROM inbox
            WHERE consumer = %s AND event_id = ANY (%s)""", (consumer, event_ids),
    ):  # fmt: skip
        suppressed = f"; {deliveries - 1} repeated deliveries suppressed" if deliveries > 1 else ""
        place = f"partition {partition} offset {offset}"
        yield Moment(
            processed_at, f"{consumer} inbox", f"{outcome}, from {place}, delivered {deliveries} ×{suppressed}"
        )


LETTERS = """
SELECT id, reason, error, partition, "offset", attempts, parked_at, closed_at, outcome, note FROM dead_letters
 WHERE consumer = %s AND (event_id = ANY (%s) OR key = %s) ORDER BY id
"""


def _dead_letters(
    database: psycopg.Connection[Any], consumer: str, order_id: UUID, event_ids: list[UUID]
) -> Iterator[Moment]:
    """By the record's key too: bytes that hold no usable id were meant for this order all the same."""
    where = f"{consumer} letters"
    for identity, reason, error, partition, offset, attempts, parked_at, closed_at, outcome, note in database.execute(
        LETTERS, (consumer, event_ids, str(order_id).encode())
    ):
        place = f"partition {partition} offset {offset}"
        said = f"letter {identity}, from {place}, parked after {attempts} attempt(s): {reason}, {error}"
        yield Moment(parked_at, where, said)
        if closed_at:
            yield Moment(closed_at, where, f"letter {identity} {outcome}{f': {note}' if note else ''}")


def _in_mailbox(places: PlacesSettings, order_id: UUID) -> Iterator[Moment]:
    for mail in mailbox.of_message_id(places.mail_url, f"order-{order_id}@shop.invalid"):
        to = ", ".join(address["Address"] for address in mail["To"])
        yield Moment(datetime.fromisoformat(mail["Created"]), "mailbox", f"arrived for {to}: {mail['Subject']}")


def _reading(places: PlacesSettings, name: str) -> psycopg.Connection[Any]:
    return psycopg.connect(places.database_url(name), autocommit=True, connect_timeout=5)
