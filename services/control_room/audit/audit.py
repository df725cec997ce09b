"""One audit, from the first stream to the last verdict.

does    opens a snapshot of every place, runs the promises over the merged streams, then the sums
reads   three databases, the topic, the mailbox, the ledger
writes  nothing
next    promises.py
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from confluent_kafka import KafkaException

from services.control_room.audit import promises, streams, topic
from services.control_room.audit.lives import merged
from services.control_room.audit.promises import Known, Letters
from services.control_room.audit.streams import Row
from services.control_room.audit.verdicts import Verdicts
from services.control_room.settings import PlacesSettings
from shared.messaging import retention

T = TypeVar("T")
Progress = Callable[[str, int], None]
Connections = dict[str, psycopg.Connection[Row]]
AWAY = (psycopg.OperationalError, KafkaException, topic.TopicUnreadable, OSError, HTTPException, json.JSONDecodeError)
"""Something that the audit reads is not there, or stops in the middle: there is no verdict. (Time-outs and urllib's
errors are OSErrors.)"""


def run(places: PlacesSettings, progress: Progress = lambda _what, _count: None) -> Verdicts:
    """Downstream first, Orders last: whatever has had an effect, or was told to a client, is then among the orders. In
    the other direction, only what was confirmed before the audit began is asked for its effects."""
    verdicts = Verdicts()
    with ExitStack() as closing:
        before = datetime.now(UTC)
        told = streams.acknowledged(places.ledger, closing, verdicts)
        records, mails = _unsorted(places, closing, progress)
        opened: Connections = {
            name: closing.enter_context(streams.snapshot(places.database_url(name), name))
            for name in ("analytics", "billing", "orders")
        }
        letters = _letters(opened, verdicts)
        known = Known(
            before, _outbox_floor(opened["orders"]), _floors(opened), records.first, letters,
            _minutes_since(opened["analytics"], before),
        )  # fmt: skip
        _no_id_is_parked(records.without_id, letters, verdicts)
        _by_event(opened, records.by_event, known, verdicts, progress)
        _by_order(opened, mails, told, known, verdicts, progress)
        _sums(opened["analytics"], known, verdicts)
        _gapless(opened["billing"], verdicts)
        _unpublished(opened["orders"], before, verdicts)
        _tasks(opened["billing"], verdicts)
        _without_key(opened["orders"], verdicts)
    return verdicts


class _Records:
    def __init__(self, places: PlacesSettings, closing: ExitStack, progress: Progress) -> None:
        opened = topic.Topic(places.kafka_bootstrap, places.topic)
        closing.callback(opened.close)
        self.first, self.without_id = opened.first, list[topic.Record]()
        self.by_event = streams.records_by_event(_counted("topic", self._sifted(opened), progress), closing)

    def _sifted(self, opened: topic.Topic) -> Iterator[topic.Record]:
        for record in opened.records():
            if record.event_id is None:
                self.without_id.append(record)
            yield record


def _unsorted(places: PlacesSettings, closing: ExitStack, progress: Progress) -> tuple[_Records, Iterator[Row]]:
    mails = streams.mails(places.mail_url, closing, lambda rows: _counted("mailbox", rows, progress))
    return _Records(places, closing, progress), mails


def _by_event(opened: Connections, records: Iterator[Row], known: Known, to: Verdicts, progress: Progress) -> None:
    places = {
        "outbox": streams.rows(opened["orders"], streams.OUTBOX_BY_EVENT),
        "topic": records,
        "billing_inbox": streams.rows(opened["billing"], streams.INBOX.format("billing")),
        "analytics_inbox": streams.rows(opened["analytics"], streams.INBOX.format("analytics")),
    }
    for event_id, rows in _counted("events", merged(places), progress):
        for promise in promises.BY_EVENT:
            promise(event_id, rows, known, to)
        for consumer in ("billing", "analytics"):
            promises.remembered_once(consumer, event_id, rows, known, to)
            promises.discarded_by_letter(consumer, event_id, rows, known, to)
    if known.expired:
        to.on_topic.note(f"{known.expired} expired from the topic, proven by the inboxes")


def _by_order(
    opened: Connections, mails: Iterator[Row], told: Iterator[Row], known: Known, to: Verdicts, progress: Progress
) -> None:
    places = {
        "orders": streams.rows(opened["orders"], streams.ORDERS),
        "lines": streams.rows(opened["orders"], streams.ORDER_LINES),
        "outbox": streams.by_uuid(streams.rows(opened["orders"], streams.OUTBOX_BY_ORDER)),
        "invoices": streams.rows(opened["billing"], streams.INVOICES),
        "pdfs": streams.rows(opened["billing"], streams.PDFS),
        "mails": mails,
        "counted": streams.rows(opened["analytics"], streams.COUNTED),
        "ledger": told,
    }
    for order_id, rows in _counted("orders", merged(places), progress):
        for promise in promises.BY_ORDER:
            promise(order_id, rows, known, to)


LETTERS = """
SELECT id, event_id, payload_hash, repaired_hash, partition, "offset", reason, outcome, note
  FROM dead_letters ORDER BY id
"""


def _letters(opened: Connections, verdicts: Verdicts) -> Letters:
    letters = Letters()
    for consumer in ("billing", "analytics"):
        for row in opened[consumer].execute(LETTERS):
            _file(consumer, row, letters, verdicts)
    return letters


def _file(consumer: str, row: Row, letters: Letters, verdicts: Verdicts) -> None:
    identity, event_id, digest, repaired, partition, offset, reason, outcome, note = row
    name = f"{consumer} letter {identity}"
    explained = outcome != "discarded" or bool((note or "").strip())
    verdicts.parked.check(explained, name, "was discarded, and nobody said why")
    if outcome is None:
        verdicts.parked.note(f"{name}: {reason}, event {event_id or 'without id'}")
    if event_id is None:
        letters.by_place.add((consumer, partition, offset))
        return
    letters.by_event.setdefault((consumer, event_id), set()).add(digest)
    if outcome == "discarded":
        letters.discarded.add((consumer, event_id))
    if outcome != "redriven":
        why = f"{name} was discarded: {note}" if outcome else f"{name} is open"
        # What a bad copy was repaired into may be the event itself, which then waits for the redrive.
        letters.unapplied.update({(consumer, event_id, known): why for known in (digest, repaired) if known})


def _outbox_floor(orders: psycopg.Connection[Row]) -> Any:
    return retention.partitions(orders, "outbox")[0].first


def _floors(opened: Connections) -> dict[str, Any]:
    asked = {
        name: opened[name].execute("SELECT floor FROM inbox_floor").fetchone() for name in ("billing", "analytics")
    }
    return {name: row[0] for name, row in asked.items() if row}


def _minutes_since(analytics: psycopg.Connection[Row], before: datetime) -> datetime:
    """Housekeeping deletes the oldest, but none of the last hour: from the second oldest on they are whole."""
    oldest = analytics.execute("SELECT min(minute) FROM minute_sales").fetchone()
    last_hour = before - timedelta(minutes=50)
    return min(last_hour, oldest[0] + timedelta(minutes=1)) if oldest and oldest[0] else last_hour


def _no_id_is_parked(records: Iterable[topic.Record], letters: Letters, verdicts: Verdicts) -> None:
    for record in records:
        place = record.partition, record.offset
        parked = all((consumer, *place) in letters.by_place for consumer in ("billing", "analytics"))
        verdicts.same_bytes.check(parked, f"partition {place[0]} offset {place[1]}", "no event, and nobody parked it")


SALES = (
    ("orders", "SELECT day, currency, orders, revenue FROM daily_sales"),
    ("orders", "SELECT minute, currency, orders, revenue FROM minute_sales WHERE minute >= %(minutes_since)s"),
    ("units", "SELECT sku, currency, units, revenue FROM product_sales"),
)


def _sums(analytics: psycopg.Connection[Row], known: Known, verdicts: Verdicts) -> None:
    """Of the orders that Analytics has counted, in the same snapshot: exact, also while orders come in."""
    found, expected = Counter[tuple[Any, ...]](), known.expected_sales
    for number, query in SALES:
        for key, currency, count, revenue in analytics.execute(query, {"minutes_since": known.minutes_since}):
            found.update({(key, currency, number): count, (key, currency, "revenue"): revenue})
    for figure in found.keys() | expected.keys():
        why = f"Analytics says {found[figure]}, the orders {expected[figure]}"
        verdicts.sums.check(found[figure] == expected[figure], " ".join(map(str, figure)), why)


def _gapless(billing: psycopg.Connection[Row], verdicts: Verdicts) -> None:
    query = """SELECT s.series, s.next_number - 1, count(i.number), min(i.number), max(i.number)
                 FROM invoice_series s LEFT JOIN invoices i USING (series) GROUP BY s.series ORDER BY s.series"""
    for series, taken, count, low, high in billing.execute(query):
        whole = count == taken and (count == 0 or (low, high) == (1, count))
        verdicts.gapless.check(whole, f"series {series}", f"{taken} numbers taken, {count} invoices, {low}…{high}")
        verdicts.gapless.checked += max(0, count - 1)


def _unpublished(orders: psycopg.Connection[Row], before: datetime, verdicts: Verdicts) -> None:
    query = "SELECT event_id FROM outbox WHERE published_at IS NULL AND event_id < %s ORDER BY event_id"
    for (event_id,) in streams.rows(orders, query, UUID(int=int(before.timestamp() * 1000) << 80)):
        verdicts.published.check(False, event_id, "unpublished")
    verdicts.published.checked += 1


def _tasks(billing: psycopg.Connection[Row], verdicts: Verdicts) -> None:
    """A lease that has run out waits in line like everybody: it lasts for ever only if younger tasks overtake it. And a
    mail that its address has refused for good has got as far as it ever will."""
    query = """SELECT kind, key, state, last_error FROM tasks AS t
                WHERE (state = 'dead' AND NOT (kind = 'invoice.email' AND key IN
                                               (SELECT order_id::text FROM invoices WHERE refusal IS NOT NULL)))
                   OR (state = 'leased' AND due_at < now() - interval '5 minutes'
                      AND NOT EXISTS (SELECT FROM tasks AS o WHERE o.kind = t.kind AND o.state = 'queued'
                                                               AND o.due_at < t.due_at))"""
    for kind, key, state, error in streams.rows(billing, query):
        verdicts.tasks.check(False, f"{kind} {key}", f"{state}: {error}")
    verdicts.tasks.checked += 1


def _without_key(orders: psycopg.Connection[Row], verdicts: Verdicts) -> None:
    """If a key has two orders, its stored answer names one of them, and perhaps the client has heard of no other.

    Order and key are of one transaction, so of one now(). Keys are deleted oldest first, by default after 24 hours and
    never within the first: an order of yesterday, or from before the oldest key, may have lost its own."""
    query = """SELECT id FROM orders AS o
                WHERE created_at > greatest(now() - interval '23 hours', least(now() - interval '59 minutes',
                                            (SELECT min(created_at) FROM idempotency_keys)))
                  AND NOT EXISTS (SELECT FROM idempotency_keys WHERE (answer::json->>'id')::uuid = o.id)"""
    for (order_id,) in streams.rows(orders, query):
        verdicts.one_order_per_key.check(False, order_id, "named by no Idempotency-Key")


def _counted(what: str, rows: Iterable[T], progress: Progress) -> Iterator[T]:
    for count, row in enumerate(rows, 1):
        if count % 5000 == 0:
            progress(what, count)
        yield row
