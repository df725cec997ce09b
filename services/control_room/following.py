"""How long an order takes, from its confirmation to its invoice and to its mail: of a sample, followed one by one.

does    takes new invoices (at most 200 are followed at a time) and asks for them until they are mailed
reads   invoices, by number and by id: only what is new
writes  nothing
next    sampler.py

Numbers are gapless and taken in the order of commits, so "greater than the last one seen" misses no invoice.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any
from uuid import UUID

from shared.messaging.event import time_of

Rows = Callable[[str, str, dict[str, Any]], list[dict[str, Any]]]

FOLLOWED = 200
PATIENCE_S = 900.0
WINDOW_S = 30.0
"""A percentile is about the orders of the last half minute."""

SERIES = "SELECT series, next_number FROM invoice_series"
NEW = """
SELECT id, event_id, issued_at, sent_at FROM invoices
 WHERE series = %(series)s AND number >= %(number)s ORDER BY number LIMIT %(most)s
"""
SENT = "SELECT id, sent_at FROM invoices WHERE id = ANY(%(ids)s) AND sent_at IS NOT NULL"


class Followed:
    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._started = False
        self._waiting: dict[UUID, float] = {}
        """invoice → when its order was confirmed"""
        self._invoiced: deque[tuple[float, float]] = deque()
        self._mailed: deque[tuple[float, float]] = deque()
        """(when it was seen, how many seconds it took)"""

    def step(self, rows: Rows) -> dict[str, float | None]:
        now = time.time()
        for series, number in ((row["series"], row["next_number"]) for row in rows("billing", SERIES, {})):
            first = self._next.get(series, number if not self._started else 1)
            if number > first:
                self._take(rows, series, first, now)
            self._next[series] = number
        self._started = True
        self._look_for_mails(rows, now)
        for seen in (self._invoiced, self._mailed):
            while seen and seen[0][0] < now - WINDOW_S:
                seen.popleft()
        return {
            "invoice_p50": _percentile(self._invoiced, 0.5), "invoice_p99": _percentile(self._invoiced, 0.99),
            "mail_p50": _percentile(self._mailed, 0.5), "mail_p99": _percentile(self._mailed, 0.99),
        }  # fmt: skip

    def _take(self, rows: Rows, series: int, first: int, now: float) -> None:
        room = max(0, FOLLOWED - len(self._waiting))
        for row in rows("billing", NEW, {"series": series, "number": first, "most": FOLLOWED}):
            confirmed = time_of(row["event_id"]).timestamp()
            self._invoiced.append((now, max(0.0, row["issued_at"].timestamp() - confirmed)))
            if room > 0:
                self._waiting[row["id"]] = confirmed
                room -= 1

    def _look_for_mails(self, rows: Rows, now: float) -> None:
        self._waiting = {id_: confirmed for id_, confirmed in self._waiting.items() if now - confirmed < PATIENCE_S}
        if not self._waiting:
            return
        for row in rows("billing", SENT, {"ids": list(self._waiting)}):
            self._mailed.append((now, max(0.0, row["sent_at"].timestamp() - self._waiting.pop(row["id"]))))


def _percentile(seen: deque[tuple[float, float]], share: float) -> float | None:
    if not seen:
        return None
    values = sorted(seconds for _, seconds in seen)
    return round(values[min(len(values) - 1, int(share * len(values)))], 3)
