"""The newest orders and how far each has come: the way of an order, step by step.

does    asks for a handful of orders in every place
reads   outbox, invoices and counted_orders, by key
writes  nothing
next    sampler.py

An order's id is the key to its invoice, so the stream that everybody may read shows only its beginning.
"""

import time
from typing import Any
from uuid import UUID

from services.control_room.following import Rows
from shared.messaging.event import time_of

SHOWN = 8
SINCE_S = 3600

NEWEST = """
SELECT key, event_id, published_at IS NOT NULL AS published FROM outbox
 WHERE event_id >= %(since)s ORDER BY event_id DESC LIMIT %(most)s
"""
INVOICED = "SELECT order_id::text, state FROM invoices WHERE order_id = ANY(%(orders)s)"
COUNTED = "SELECT order_id::text FROM counted_orders WHERE order_id = ANY(%(orders)s)"
PASSED = {"issued": ["invoiced"], "rendered": ["invoiced", "pdf"], "sending": ["invoiced", "pdf"]}
ARRIVED = ["invoiced", "pdf", "mailed"]
ALL = {"confirmed", "published", "counted", *ARRIVED}


class Newest:
    def __init__(self) -> None:
        self._finished: set[str] = set()
        """Asked no more: nothing can change about them."""

    def step(self, rows: Rows) -> list[dict[str, Any]]:
        since = UUID(int=int((time.time() - SINCE_S) * 1000) << 80)
        found = rows("orders", NEWEST, {"since": since, "most": SHOWN})
        open_ = [row["key"] for row in found if row["key"] not in self._finished]
        asked = {"orders": [UUID(key) for key in open_ if _is_uuid(key)]}
        states = {row["order_id"]: row["state"] for row in rows("billing", INVOICED, asked)} if open_ else {}
        counted = {row["order_id"] for row in rows("analytics", COUNTED, asked)} if open_ else set()
        shown = []
        for row in found:
            key = row["key"]
            steps = ["confirmed", *(["published"] if row["published"] else []), *PASSED.get(states.get(key, ""), [])]
            steps += ARRIVED if states.get(key) in ("sent", "undeliverable") else []
            steps += ["counted"] if key in counted else []
            if key in self._finished or set(steps) == ALL:
                self._finished.add(key)
                steps = sorted(ALL)
            shown.append({"order": key[:8], "at": time_of(row["event_id"]).timestamp(), "steps": steps})
        self._finished &= {row["key"] for row in found}
        return shown


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False
