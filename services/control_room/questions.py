"""What the page wants to know, asked so that it costs next to nothing however many orders there are.

does    asks the three databases; keeps every answer until it is worth asking again
reads   as auditor: counters, partial indexes, and now and then a whole table
writes  nothing
next    sampler.py

Three rules keep the cost down:

    where a number is kept, it is read, not counted   invoices are numbered without gaps, so the counters of the series
                                                      are their number; sales figures are sums already
    what cannot have changed is not asked             an inbox changes only when its consumer has stored offsets
    every question has its share of one core          one that took 20 ms is not asked again for 2 s: the cost has a
                                                      limit at any size, what gives way is freshness

The confirmed orders are counted once, at the start; after that only the last two minutes are. That is exact, because a
transaction of Orders ends within 30 s (transaction_timeout of its role), so older rows of the outbox are final.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg.errors import QueryCanceled

from shared.runtime import logs

SHARE = 0.0075
"""Of one core, for each question."""
LONGEST_S = 30.0
"""Between two times that a question is asked; after one that took too long (statement_timeout) too."""

UNSENT = """
SELECT count(*) AS unsent, count(*) FILTER (WHERE state = 'issued') AS unrendered FROM invoices
 WHERE sent_at IS NULL AND refusal IS NULL
"""
UNPUBLISHED = """
SELECT count(*) AS unpublished,
       coalesce(extract(epoch FROM now() - min(uuid_extract_timestamp(event_id))), 0)::float AS oldest_s
  FROM outbox WHERE published_at IS NULL
"""
# A topic that was deleted and created again has another id: the newest row of a partition is today's topic.
OFFSETS = """
SELECT coalesce(jsonb_object_agg(partition, next_offset), '{{}}') AS offsets, max(updated_at) AS updated_at
  FROM (SELECT DISTINCT ON (partition) partition, next_offset, updated_at FROM consumer_offsets
         WHERE consumer = '{0}' ORDER BY partition, updated_at DESC) AS newest
"""
DELIVERED = """
SELECT coalesce(sum(deliveries), 0)::bigint AS delivered, coalesce(sum(deliveries - 1), 0)::bigint AS duplicates
  FROM inbox WHERE consumer = '{0}'
"""
LETTERS = "SELECT count(*) AS letters FROM dead_letters WHERE consumer = '{0}' AND closed_at IS NULL"


@dataclass(frozen=True)
class Question:
    database: str
    sql: str
    unless_same: tuple[str, ...] = ()
    """Not asked again while the answers to these are the same as last time."""


QUESTIONS = {
    "outbox": Question("orders", UNPUBLISHED),
    "billing_offsets": Question("billing", OFFSETS.format("billing")),
    "invoices": Question("billing", "SELECT coalesce(sum(next_number - 1), 0)::bigint AS invoices FROM invoice_series"),
    "unsent": Question("billing", UNSENT),
    "pdfs": Question("billing", "SELECT count(*) AS pdfs FROM invoice_pdfs", ("invoices", "unsent")),
    "outcomes": Question(
        "billing",
        """SELECT count(refusal) AS undeliverable, coalesce(sum(unknown_outcomes), 0)::bigint AS unknown_outcomes
             FROM invoices WHERE refusal IS NOT NULL OR unknown_outcomes > 0""",
        ("invoices", "unsent"),
    ),
    "billing_inbox": Question("billing", DELIVERED.format("billing"), ("billing_offsets",)),
    "billing_letters": Question("billing", LETTERS.format("billing")),
    "analytics_offsets": Question("analytics", OFFSETS.format("analytics")),
    "counted": Question("analytics", "SELECT coalesce(sum(orders), 0)::bigint AS counted FROM daily_sales"),
    "analytics_inbox": Question("analytics", DELIVERED.format("analytics"), ("analytics_offsets",)),
    "analytics_letters": Question("analytics", LETTERS.format("analytics")),
}

Ask = Callable[[str, str, dict[str, Any]], dict[str, Any]]
"""database, statement, parameters → the one row of the answer"""


class Answers:
    """The latest answer to every question."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        self._seen: dict[str, Any] = {}
        self._due: dict[str, float] = {}
        self._took: dict[str, deque[float]] = {}
        self._confirmed = Confirmed()

    def refresh(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> dict[str, dict[str, Any]] | None:
        """Offsets before what depends on them: what changes in between is seen next time. The orders last: then there
        are never more effects than orders, only because time went by between two questions. None: a question has never
        been answered yet, and figures need all of them."""
        for name, question in QUESTIONS.items():
            depends = [self._known.get(other) for other in question.unless_same]
            if clock() < self._due.get(name, 0.0) or (depends and depends == self._seen.get(name)):
                continue
            began = clock()
            if self._answered(name, lambda question=question: ask(question.database, question.sql, {}), clock):  # type: ignore[misc]
                self._seen[name] = depends
                self._put_off(name, began, clock())
        if clock() >= self._due.get("confirmed", 0.0):
            self._answered("confirmed", lambda: {"orders": self._confirmed.count(ask)}, clock)
        return self._known if self._known.keys() >= {*QUESTIONS, "confirmed"} else None

    def _answered(self, name: str, question: Callable[[], dict[str, Any]], clock: Callable[[], float]) -> bool:
        """One that takes too long keeps its old answer and costs no other its turn."""
        try:
            self._known[name] = question()
        except QueryCanceled:
            self._due[name] = clock() + LONGEST_S
            logs.get().warning("a question took too long; its last answer stands", question=name, again_in_s=LONGEST_S)
            return False
        return True

    def _put_off(self, name: str, began: float, now: float) -> None:
        took = self._took.setdefault(name, deque(maxlen=5))
        took.append(now - began)
        # The quickest of the last five: what a busy machine adds is not what the question costs.
        self._due[name] = now + min(LONGEST_S, min(took) / SHARE)


# One statement, so one snapshot: all confirmed orders, and how many of them have an event from after the line.
ALL = """
SELECT (SELECT count(*) FROM orders WHERE status = 'confirmed')
     - (SELECT count(*) FROM outbox WHERE event_id >= %(line)s AND topic = 'orders.confirmed') AS below
"""
NEWER = "SELECT count(*) AS newer FROM outbox WHERE event_id >= %(line)s AND topic = 'orders.confirmed'"
BETWEEN = f"{NEWER} AND event_id < %(until)s"


class Confirmed:
    """Confirmed orders: below a line in time, which moves up once a minute, they are remembered; above it, counted."""

    def __init__(self) -> None:
        self._line: UUID | None = None
        self._below = 0

    def count(self, ask: Ask) -> int:
        line = _first_id(time.time() - 60)
        if self._line is None:
            self._below, self._line = int(ask("orders", ALL, {"line": line})["below"]), line
        elif line.int - self._line.int > 60_000 << 80:
            self._below += int(ask("orders", BETWEEN, {"line": self._line, "until": line})["newer"])
            self._line = line
        return self._below + int(ask("orders", NEWER, {"line": self._line})["newer"])


def _first_id(moment: float) -> UUID:
    """The smallest UUIDv7 of a moment."""
    return UUID(int=int(moment * 1000) << 80)


class Connections:
    """One connection per database, opened again after it was lost. Used by one thread."""

    def __init__(self, urls: dict[str, str], application_name: str) -> None:
        self._urls, self._name = urls, application_name
        self._open: dict[str, psycopg.Connection[Any]] = {}

    def ask(self, database: str, statement: str, parameters: dict[str, Any]) -> dict[str, Any]:
        rows = self.rows(database, statement, parameters)
        return rows[0] if rows else {}

    def rows(self, database: str, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            cursor = self._connected(database).execute(statement.encode(), parameters or None, prepare=True)
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor]
        except QueryCanceled:
            raise  # the connection is as good as before
        except psycopg.OperationalError:
            self._open.pop(database).close() if database in self._open else None
            raise

    def _connected(self, database: str) -> psycopg.Connection[Any]:
        if database not in self._open:
            self._open[database] = psycopg.connect(
                self._urls[database], autocommit=True, connect_timeout=3, application_name=self._name,
                options="-c statement_timeout=5s",
            )  # fmt: skip
        return self._open[database]
