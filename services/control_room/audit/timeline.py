"""The life of one order: every row, offset and delivery count, in the order of time."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from services.control_room.audit import mailbox
from services.control_room.settings import PlacesSettings
from shared.messaging.event import time_of


class Moment(NamedTuple):
    at: datetime | None
    where: str
    what: str


def of(places: PlacesSettings, order_id: UUID) -> list[Moment]:
    """Empty when nobody has ever heard of it."""
    moments = [*_in_orders(places, order_id), *_in_billing(places, order_id), *_in_analytics(places, order_id)]
    moments += _in_mailbox(places, order_id)
    return sorted(moments, key=lambda moment: (moment.at is None, moment.at))


def _in_orders(places: PlacesSettings, order_id: UUID) -> Iterator[Moment]:
    with _reading(places, "orders") as orders:
        for created_at, confirmed_at, total, currency in orders.execute(
            "SELECT created_at, confirmed_at, total, currency FROM orders WHERE id = %s", (order_id,)
        ):
            yield Moment(created_at, "orders", f"order placed: {total} {currency} (smallest units, before tax)")
            if confirmed_at:
                yield Moment(confirmed_at, "orders", "order confirmed, event written in the same transaction")
        for event_id, seq, shard, published_at in orders.execute(
            "SELECT event_id, seq, shard, published_at FROM outbox WHERE key = %s", (str(order_id),)
        ):
            yield Moment(time_of(event_id), "orders outbox", f"event {event_id}, seq {seq}, shard {shard}")
            if published_at:
                yield Moment(published_at, "orders outbox", "acknowledged by Kafka and marked")


def _in_billing(places: PlacesSettings, order_id: UUID) -> Iterator[Moment]:
    with _reading(places, "billing") as billing:
        for identity, event_id, series, number, gross, currency, issued_at, state, sent_at, unknown in billing.execute(
            """SELECT id, event_id, series, number, gross, currency, issued_at, state, sent_at, unknown_outcomes
                 FROM invoices WHERE order_id = %s""", (order_id,),
        ):  # fmt: skip
            yield from _inbox(billing, "billing", event_id)
            yield Moment(issued_at, "billing", f"invoice {series}/{number} ({identity}): {gross} {currency} with tax")
            for rendered_at, size, digest in billing.execute(
                "SELECT rendered_at, length(content), encode(sha256, 'hex') FROM invoice_pdfs WHERE invoice_id = %s",
                (identity,),
            ):
                yield Moment(rendered_at, "billing", f"PDF stored: {size} bytes, sha256 {digest[:16]}…")
            if sent_at:
                yield Moment(sent_at, "billing", f"e-mail {state}; unknown outcomes: {unknown}")
        for kind, state, attempts, created_at, finished_at, error in billing.execute(
            """SELECT kind, state, attempts, created_at, finished_at, last_error FROM tasks
                WHERE key = %s OR key IN (SELECT id::text FROM invoices WHERE order_id = %s)""",
            (str(order_id), order_id),
        ):
            yield Moment(created_at, "billing tasks", f"{kind} asked for")
            if finished_at:
                yield Moment(finished_at, "billing tasks", f"{kind} {state} after {attempts} attempt(s) {error or ''}")


def _in_analytics(places: PlacesSettings, order_id: UUID) -> Iterator[Moment]:
    with _reading(places, "analytics") as analytics:
        for event_id, counted_at in analytics.execute(
            "SELECT event_id, counted_at FROM counted_orders WHERE order_id = %s", (order_id,)
        ):
            yield from _inbox(analytics, "analytics", event_id)
            yield Moment(counted_at, "analytics", "order counted")


def _inbox(database: psycopg.Connection[Any], consumer: str, event_id: UUID) -> Iterator[Moment]:
    for deliveries, outcome, partition, offset, processed_at in database.execute(
        """SELECT deliveries, outcome, from_partition, from_offset, processed_at FROM inbox
            WHERE consumer = %s AND event_id = %s""", (consumer, event_id),
    ):  # fmt: skip
        suppressed = f"; {deliveries - 1} repeated deliveries suppressed" if deliveries > 1 else ""
        place = f"partition {partition} offset {offset}"
        yield Moment(
            processed_at, f"{consumer} inbox", f"{outcome}, from {place}, delivered {deliveries} ×{suppressed}"
        )


def _in_mailbox(places: PlacesSettings, order_id: UUID) -> Iterator[Moment]:
    for mail in mailbox.of_message_id(places.mail_url, f"order-{order_id}@shop.invalid"):
        to = ", ".join(address["Address"] for address in mail["To"])
        yield Moment(datetime.fromisoformat(mail["Created"]), "mailbox", f"arrived for {to}: {mail['Subject']}")


def _reading(places: PlacesSettings, name: str) -> psycopg.Connection[Any]:
    return psycopg.connect(places.database_url(name), autocommit=True, connect_timeout=5)
