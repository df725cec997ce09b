"""A customer for demonstrations: places and confirms orders through the API of Orders, like everybody else.

does    so many orders, one after the other, in a thread of its own
reads   the catalogue, over HTTP
writes  nothing itself: orders-api does
next    journal.py
"""

import http.client
import json
import random
import threading
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from services.control_room.journal import Journal
from shared.runtime.loop import Backoff, Stop
from shared.runtime.problems import Problem

NAMES = ("Ada Lovelace", "Grace Hopper", "Edsger Dijkstra", "Barbara Liskov", "Leslie Lamport", "Jim Gray")
PATIENCE = 20
"""So often one request is tried again: an orders-api that was killed is back within seconds."""


class Buyer:
    """One errand at a time: a second one is refused until the first is done."""

    def __init__(self, orders_url: str, journal: Journal, *, confirms: bool = True) -> None:
        """`confirms`: the naive shop has no drafts."""
        self._address, self._confirms = urlsplit(orders_url).netloc, confirms
        self._journal, self._busy = journal, threading.Lock()
        self.placed: list[str] = []
        """The orders of the last errand, as they come."""

    def buy(self, count: int) -> None:
        if not self._busy.acquire(blocking=False):
            raise Problem(409, "busy", "The last orders are still being placed.")
        self.placed = []
        threading.Thread(target=self._errand, args=(count,), name="buyer", daemon=True).start()

    def _errand(self, count: int) -> None:
        try:
            products = self._ask("GET", "/v1/products")["items"]
            for _ in range(count):
                self.placed.append(self._order(products))
            self._journal.note(
                "order", f"{count} order(s) placed" + (" and confirmed" if self._confirms else " in the naive shop")
            )
        except Problem as problem:
            self._journal.note("fault", f"{len(self.placed)} of {count} order(s) placed, then: {problem.detail}")
        finally:
            self._busy.release()

    def _order(self, products: list[dict[str, Any]]) -> str:
        """The key is made once and sent with every attempt: however often it is asked, it is one order."""
        chosen = random.sample(products, k=random.randint(1, 3))  # noqa: S311
        name = random.choice(NAMES)  # noqa: S311
        wanted = {
            "currency": "EUR",
            "customer": {
                "name": name,
                "email": f"{name.lower().replace(' ', '.')}@example.org",
                "address": ["1 Once Street", "10001 Sampletown"],
            },
            "lines": [{"sku": p["sku"], "quantity": random.randint(1, 3)} for p in chosen],  # noqa: S311
        }
        order = self._ask("POST", "/v1/orders", wanted, {"Idempotency-Key": f"control-room-{uuid4()}"})
        if self._confirms:
            self._ask("POST", f"/v1/orders/{order['id']}/confirm")
        return str(order["id"])

    def _ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        backoff, said = Backoff(0.1, 2.0), ""
        for _ in range(PATIENCE):
            try:
                status, answer = self._request(method, path, body, headers or {})
            except (OSError, http.client.HTTPException) as error:
                said = str(error)
            else:
                if status < 400:
                    return answer
                said = str(answer.get("detail", answer))
                if status not in (409, 503):
                    break
            Stop().wait(backoff.next_s())
        raise Problem(503, "orders-away", f"Orders did not take it: {said}")

    def _request(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self._address, timeout=10)
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"} | headers
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            connection.close()
