"""The naive shop, judged by the same promises: those that it makes too, over its own two databases and its mails.

does    gives its rows the shape of the real shop's and hands them to the same functions
reads   naive_orders, naive_billing, the mailbox, the ledger of its clients
writes  nothing
next    promises.py
"""

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import psycopg

from services.control_room.audit import audit, ledger, mailbox, promises, streams
from services.control_room.audit.lives import merged
from services.control_room.audit.promises import Known, Letters
from services.control_room.audit.verdicts import Verdicts
from services.control_room.settings import PlacesSettings

ORDERS = "SELECT id, 'confirmed', currency, total, ordered_at FROM orders ORDER BY id"
ORDER_LINES = """SELECT id, x.* FROM orders, jsonb_to_recordset(lines) AS x
                        (sku text, quantity integer, unit_price bigint, tax_basis_points integer) ORDER BY id"""
INVOICES = "SELECT order_id, id, id, currency, net, tax, gross, lines, 'sent', 0 FROM invoices ORDER BY order_id"
PDFS = "SELECT order_id, substr(pdf, 1, 4) = '%PDF' FROM invoices ORDER BY order_id"
OF_ORDER = re.compile(r"order-([0-9a-f-]{36})\.[0-9a-f]+@naive\.invalid")

BY_ORDER = (promises.one_invoice, promises.amounts, promises.one_pdf, promises.mailed, promises.orphans,
            promises.acknowledged)  # fmt: skip
JUDGED = ("one_invoice", "amounts", "one_pdf", "mailed", "copies", "orphans", "acknowledged", "one_order_per_key")
QUIET_S = 15.0
"""Longer than a consumer's session and the interval of its commits: who has been silent so long has nothing to do."""


def run(places: PlacesSettings) -> Verdicts:
    verdicts = Verdicts(judged=JUDGED)
    with ExitStack() as closing:
        now, asked = datetime.now(UTC), Asked.of(places.naive_ledger)
        known = Known(now, UUID(int=0), {}, {}, Letters(), now)
        told = streams.acknowledged(places.naive_ledger, closing, verdicts)
        mails = streams.mails(places.mail_url, closing, of_order=OF_ORDER)
        billing = closing.enter_context(streams.snapshot(places.naive_billing_database_url, "naive-billing"))
        orders = closing.enter_context(streams.snapshot(places.naive_orders_database_url, "naive-orders"))
        rows = {
            "orders": streams.rows(orders, ORDERS),
            "lines": streams.rows(orders, ORDER_LINES),
            "invoices": streams.rows(billing, INVOICES),
            "pdfs": streams.rows(billing, PDFS),
            "mails": mails,
            "ledger": told,
            "outbox": (),
            "counted": (),
        }
        lost = doubled = 0
        untold: list[UUID] = []
        for order_id, found in merged(rows):
            for promise in BY_ORDER:
                promise(order_id, found, known, verdicts)
            lost += bool(found["orders"]) and not found["invoices"]
            doubled += len(found["invoices"]) > 1
            untold += [order_id for row in found["orders"] if not found["ledger"] and asked.since <= row[4] < now]
        for order_id in untold[: asked.doubled(len(untold))]:
            verdicts.one_order_per_key.check(False, order_id, "or another one that no client was told of: asked twice")
        verdicts.one_invoice.note(f"{lost} order(s) lost, {doubled} doubled")
    return verdicts


@dataclass
class Asked:
    """What its clients asked for, by Idempotency-Key, to which it does not listen."""

    since: datetime
    requests: int = 0
    keys: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, path: str) -> "Asked":
        asked = cls(datetime.max.replace(tzinfo=UTC))
        for line in ledger.lines(path, []):
            if line.get("entry") == "intent":
                asked.since = min(asked.since, datetime.fromisoformat(line["at"]))
                asked.requests += 1
                asked.keys.add(line["key"])
            elif line.get("status") == 201:
                asked.answered.add(line["key"])
        return asked

    def doubled(self, untold: int) -> int:
        """An order that no client was told of is rightly there once for a key without an answer. More of them come from
        asking again, as far as anybody has: somebody else may have ordered too."""
        return max(0, min(untold - len(self.keys - self.answered), self.requests - len(self.keys)))


def counts(places: PlacesSettings) -> tuple[int, int, int]:
    """Orders, invoices, mails; all mails, also those of the real shop."""
    asked = []
    for url, table in ((places.naive_orders_database_url, "orders"), (places.naive_billing_database_url, "invoices")):
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()  # noqa: S608  our own names
            asked.append(int(row[0]) if row else 0)
    return asked[0], asked[1], mailbox.count(places.mail_url)


def settle(places: PlacesSettings, limit_s: float, say: Callable[[str], None]) -> bool:
    """It keeps no record of what is still to be done: one can only wait until nothing has happened for a while."""
    last, since, deadline = (0, 0, 0), time.monotonic(), time.monotonic() + limit_s
    while time.monotonic() < min(deadline, since + QUIET_S):
        try:
            now = counts(places)
        except audit.AWAY:
            now = (0, 0, 0)  # something is just coming back
        if now != last:
            last, since = now, time.monotonic()
        say(f"{now[0]} orders, {now[1]} invoices, {now[2]} mails")
        time.sleep(0.5)
    return time.monotonic() < deadline
