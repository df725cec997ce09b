"""What each place knows, as sorted streams.

does    reads three databases (one snapshot each), the topic, the mailbox and the clients' ledger
reads   everything, as `auditor`
writes  nothing but temporary files
next    lives.py
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any
from uuid import UUID

import psycopg

from services.control_room.audit import ledger, mailbox, sorting, topic
from services.control_room.audit.verdicts import Verdicts

Row = tuple[Any, ...]

# By event id: what Orders has emitted, what the topic holds, what each consumer remembers.
OUTBOX_BY_EVENT = """SELECT event_id, key, sha256(value), published_at FROM outbox
                      WHERE topic = 'orders.confirmed' ORDER BY event_id"""
INBOX = """SELECT event_id, payload_hash, deliveries, outcome, from_partition, from_offset FROM inbox
            WHERE consumer = '{}' ORDER BY event_id"""

# By order id. Texts of UUIDs in lower case sort like the UUIDs themselves.
ORDERS = "SELECT id, status, currency, total, confirmed_at FROM orders ORDER BY id"
ORDER_LINES = "SELECT order_id, sku, quantity, unit_price, tax_basis_points FROM order_lines ORDER BY order_id, sku"
OUTBOX_BY_ORDER = "SELECT key, event_id, sha256(value) FROM outbox WHERE topic = 'orders.confirmed' ORDER BY key"
INVOICES = """SELECT order_id, id, event_id, currency, net, tax, gross, lines, state, unknown_outcomes
                FROM invoices ORDER BY order_id"""
PDFS = """SELECT order_id, p.sha256 = sha256(p.content) FROM invoice_pdfs p JOIN invoices i ON i.id = p.invoice_id
           ORDER BY order_id"""
COUNTED = "SELECT order_id, event_id FROM counted_orders ORDER BY order_id"


@contextmanager
def snapshot(url: str, name: str) -> Iterator[psycopg.Connection[Row]]:
    """Everything this connection reads is of one moment. The limits of the role are for short transactions."""
    limits = "-c transaction_timeout=0 -c idle_in_transaction_session_timeout=0 -c work_mem=64MB"
    with psycopg.connect(url, application_name=f"audit-{name}", options=limits, connect_timeout=5) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute("SELECT 1")
        yield connection


def rows(connection: psycopg.Connection[Row], query: str, *parameters: object) -> Iterator[Row]:
    """Through a cursor on the server, a few thousand at a time."""
    with connection.cursor(f"audit_{abs(hash(query))}", withhold=False) as cursor:
        cursor.itersize = 5000
        cursor.execute(query.encode(), parameters or None, binary=True)
        yield from cursor


def by_uuid(stream: Iterator[Row]) -> Iterator[Row]:
    """The first column is a UUID's text. What is none comes from elsewhere and is not ours to judge."""
    for first, *rest in stream:
        try:
            yield UUID(first), *rest
        except ValueError:
            continue


OF_ORDER = re.compile(r"order-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})@")


def mails(
    url: str,
    closing: ExitStack,
    watched: Callable[[Iterator[Row]], Iterator[Row]] = lambda rows: rows,
    of_order: re.Pattern[str] = OF_ORDER,
) -> Iterator[Row]:
    """(order id, message id, mail's own id), every copy once, however often a page was read."""
    found = (
        (UUID(match[1]), message_id, identity)
        for identity, message_id in watched(mailbox.all_mails(url))
        if (match := of_order.match(message_id))
    )
    # Read now, not while it is merged: the order of every mail is then in the snapshots that are opened later.
    in_order = sorting.on_disk(found, closing)
    return (row for row, _copies in groupby(in_order))


def records_by_event(records: Iterator[topic.Record], closing: ExitStack) -> Iterator[Row]:
    """(event id, hash, partition, offset) of every record that has an id."""
    with_id = ((r.event_id, r.payload_hash, r.partition, r.offset) for r in records if r.event_id is not None)
    return sorting.on_disk(with_id, closing)


def acknowledged(path: str, closing: ExitStack, verdicts: Verdicts) -> Iterator[Row]:
    """(order id, acknowledged as) of what the clients were told. Read now, like the mailbox."""
    torn: list[int] = []
    by_key = sorting.on_disk(ledger.acknowledged(path, torn), closing)
    judged = ledger.one_order_per_key(by_key, verdicts.one_order_per_key)
    in_order = sorting.on_disk(((order_id, told) for _, order_id, told in judged), closing)
    if torn:
        verdicts.acknowledged.note(f"{len(torn)} torn line(s) of the ledger skipped, the first is line {torn[0]}")
    return by_uuid(in_order)
