"""The promises, a function each. A function gets what all places know about one event or one order, and judges it.

does    compares; says which id breaks which promise and why
reads   the merged rows of lives.py
writes  verdicts
next    audit.py
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from services.control_room.audit.lives import Rows
from services.control_room.audit.verdicts import Verdicts
from shared.messaging.event import time_of


@dataclass
class Letters:
    """Dead letters: (consumer, event id) → hashes; and the places of those that have no id."""

    by_event: dict[tuple[str, UUID], set[bytes]] = field(default_factory=dict)
    by_place: set[tuple[str, int, int]] = field(default_factory=set)
    unapplied: dict[tuple[str, UUID, bytes], str] = field(default_factory=dict)
    """Open or discarded: of these bytes no effect is expected, and this is why. A bad copy says nothing about the event
    itself."""
    discarded: set[tuple[str, UUID]] = field(default_factory=set)

    def has(self, consumer: str, event_id: UUID, payload_hash: bytes) -> bool:
        return payload_hash in self.by_event.get((consumer, event_id), ())


@dataclass
class Known:
    """What every promise may look at besides the rows in hand."""

    before: datetime
    """Of what happened later, the effects may still be on their way."""
    outbox_floor: UUID
    inbox_floor: dict[str, UUID]
    topic_first: dict[int, int]
    letters: Letters
    minutes_since: datetime
    """Orders per minute are kept for a while only."""
    expired: int = 0
    expected_sales: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    """(day, minute or SKU; currency; what is counted)"""

    def is_settled(self, event_id: UUID) -> bool:
        return time_of(event_id) < self.before


# --- by event ---


def on_topic(event_id: UUID, rows: Rows, known: Known, verdicts: Verdicts) -> None:
    """What Kafka's retention has removed is proven by the inboxes, which say where it was; what they have forgotten too
    is not asked about: the outbox may be kept for longer than both. Nor is what was published when the topic's end had
    been read, or perhaps had: however old the event is."""
    for _, _, _, published_at in rows["outbox"]:
        if published_at is None or rows["topic"]:
            verdicts.on_topic.check(True, event_id)
            continue
        if all(event_id < floor for floor in known.inbox_floor.values()):
            continue
        seen = [(row[4], row[5]) for consumer in ("billing", "analytics") for row in rows[f"{consumer}_inbox"]]
        expired = bool(seen) and all(offset < known.topic_first.get(partition, 0) for partition, offset in seen)
        known.expired += expired
        too_late = published_at >= known.before
        verdicts.on_topic.check(expired or too_late, event_id, "published, but not on the topic")


def same_bytes(event_id: UUID, rows: Rows, known: Known, verdicts: Verdicts) -> None:
    written = {row[2] for row in rows["outbox"]}
    for payload_hash in {row[1] for row in rows["topic"]} - written:
        parked = all(known.letters.has(consumer, event_id, payload_hash) for consumer in ("billing", "analytics"))
        verdicts.same_bytes.check(parked, event_id, "bytes on the topic that Orders never wrote, and nobody parked")
    verdicts.same_bytes.checked += len(written)


def remembered_once(consumer: str, event_id: UUID, rows: Rows, known: Known, verdicts: Verdicts) -> None:
    verdict = verdicts.billing_inbox if consumer == "billing" else verdicts.analytics_inbox
    inbox, outbox = rows[f"{consumer}_inbox"], rows["outbox"]
    if not outbox:
        ours = not inbox or event_id < known.outbox_floor or (consumer, event_id) in known.letters.by_event
        verdict.check(ours, event_id, "in the inbox, but never emitted")
        return
    published = outbox[0][3] is not None
    if not published or event_id < known.inbox_floor[consumer] or not known.is_settled(event_id):
        return
    parked = (consumer, event_id, outbox[0][2]) in known.letters.unapplied
    if verdict.check(len(inbox) == 1 or parked, event_id, f"{len(inbox)} rows in the inbox") and inbox:
        same = inbox[0][1] == outbox[0][2] or known.letters.has(consumer, event_id, outbox[0][2])
        verdict.check(same, event_id, "applied with other bytes than Orders wrote")


def discarded_by_letter(consumer: str, event_id: UUID, rows: Rows, known: Known, verdicts: Verdicts) -> None:
    for row in rows[f"{consumer}_inbox"]:
        if row[3] == "discarded" and (consumer, event_id) not in known.letters.discarded:
            verdicts.parked.check(False, event_id, f"discarded by {consumer}, and no letter says why")


# --- by order ---


def one_event(order_id: UUID, rows: Rows, known: Known, verdicts: Verdicts) -> None:
    for _, status, _, _, confirmed_at in rows["orders"]:
        if status == "confirmed" and confirmed_at < time_of(known.outbox_floor):
            continue
        expected = 1 if status == "confirmed" else 0
        verdicts.one_event.check(len(rows["outbox"]) == expected, order_id, f"{status}, {len(rows['outbox'])} events")


def one_invoice(order_id: UUID, rows: Rows, known: Known, verdicts: Verdicts) -> None:
    if _is_settled_order(rows, known):
        count = len(rows["invoices"])
        right = count == 1 or (
            count == 0 and _parked(f"order {order_id} has no invoice", "billing", rows, known, verdicts)
        )
        verdicts.one_invoice.check(right, order_id, f"{count} invoices")


def amounts(order_id: UUID, rows: Rows, _known: Known, verdicts: Verdicts) -> None:
    for (_, _, currency, total, _), invoice in zip(rows["orders"], rows["invoices"], strict=False):
        _, _, _, invoiced_currency, net, tax, gross, invoiced_lines, _, _ = invoice
        lines = sorted((sku, quantity, price, rate) for _, sku, quantity, price, rate in rows["lines"])
        invoiced = sorted((x["sku"], x["quantity"], x["unit_price"], x["tax_basis_points"]) for x in invoiced_lines)
        owed = sum((quantity * price * rate + 5000) // 10000 for _, quantity, price, rate in lines)
        same = (currency, total, owed, total + owed, lines) == (invoiced_currency, net, tax, gross, invoiced)
        verdicts.amounts.check(same, order_id, f"ordered {total} {currency}, invoiced {net} {invoiced_currency}")


def one_pdf(order_id: UUID, rows: Rows, known: Known, verdicts: Verdicts) -> None:
    invoices, pdfs = len(rows["invoices"]), len(rows["pdfs"])
    if invoices and _is_settled_order(rows, known):
        verdicts.one_pdf.check(pdfs == invoices, order_id, f"{invoices} invoice(s), {pdfs} PDF(s)")
    for _, unchanged in rows["pdfs"]:
        verdicts.one_pdf.check(unchanged, order_id, "the PDF is not what its sha256 says")


def mailed(order_id: UUID, rows: Rows, known: Known, verdicts: Verdicts) -> None:
    for invoice in rows["invoices"]:
        state, unknown = invoice[8], invoice[9]
        message_ids = {row[1] for row in rows["mails"]}
        if state == "undeliverable":
            verdicts.mailed.note(f"undeliverable, and said so: order {order_id}")
        elif _is_settled_order(rows, known):
            arrived = state == "sent" and len(message_ids) == 1
            verdicts.mailed.check(arrived, order_id, f"state {state}, {len(message_ids)} Message-IDs in the mailbox")
        allowed = 1 + unknown
        verdicts.copies.check(
            len(rows["mails"]) <= allowed, order_id, f"{len(rows['mails'])} copies, {allowed} allowed"
        )


def counted(order_id: UUID, rows: Rows, known: Known, verdicts: Verdicts) -> None:
    if _is_settled_order(rows, known):
        count = len(rows["counted"])
        right = count == 1 or (
            count == 0 and _parked(f"order {order_id} is not counted", "analytics", rows, known, verdicts)
        )
        verdicts.counted.check(right, order_id, f"counted {count} times")
    if rows["counted"] and rows["orders"]:
        _, _, currency, total, confirmed_at = rows["orders"][0]
        if confirmed_at is not None:
            minute = confirmed_at.astimezone(UTC).replace(second=0, microsecond=0)
            for period in (minute.date(), minute) if minute >= known.minutes_since else (minute.date(),):
                known.expected_sales.update({(period, currency, "orders"): 1, (period, currency, "revenue"): total})
        for _, sku, quantity, price, _ in rows["lines"]:
            products = {(sku, currency, "units"): quantity, (sku, currency, "revenue"): quantity * price}
            known.expected_sales.update(products)


def orphans(order_id: UUID, rows: Rows, _known: Known, verdicts: Verdicts) -> None:
    confirmed = any(row[1] == "confirmed" for row in rows["orders"])
    found = [name for name in ("invoices", "mails", "counted") if rows[name]]
    verdicts.orphans.check(confirmed or not found, order_id, f"no confirmed order, but {', '.join(found)}")


def acknowledged(order_id: UUID, rows: Rows, _known: Known, verdicts: Verdicts) -> None:
    status = rows["orders"][0][1] if rows["orders"] else None
    for _, told in rows["ledger"]:
        there = status == "confirmed" if told == "confirmed" else status is not None
        verdicts.acknowledged.check(
            there, order_id, f"the client was told {told}; the order is {status or 'not there'}"
        )


def _is_settled_order(rows: Rows, known: Known) -> bool:
    return any(row[1] == "confirmed" and row[4] < known.before for row in rows["orders"])


def _parked(missing: str, consumer: str, rows: Rows, known: Known, verdicts: Verdicts) -> bool:
    """True if it is the event itself, as Orders wrote it, that is parked. It is named: excused is not forgotten."""
    for _, event_id, written in rows["outbox"]:
        if why := known.letters.unapplied.get((consumer, event_id, written)):
            verdicts.parked.note(f"{missing}: {why}")
            return True
    return False


BY_EVENT = (on_topic, same_bytes)
BY_ORDER = (one_event, one_invoice, amounts, one_pdf, mailed, counted, orphans, acknowledged)
