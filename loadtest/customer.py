"""A customer with patience: asks again under the same Idempotency-Key until there is an answer."""

import http.client
import json
import random
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from loadtest.ledger import Ledger

ASK_AGAIN = (409, 500, 502, 503, 504)
"""409 to a POST means: your first request is still being worked on."""
NAMES = ("Ada Lovelace", "Łukasz Żółć", "عائشة بنت طلحة", "李小龍", "Søren Kierkegård", "Zoë O’Hara", "Δήμητρα")


class GaveUp(Exception):
    """No answer within the patience, or one that asking again cannot mend."""


@dataclass
class Customer:
    """One thread's: a connection, and what it has seen."""

    url: str
    ledger: Ledger
    patience_s: float = 60.0
    retries: int = 0
    seconds: list[float] = field(default_factory=list)
    """How long each answered request took."""
    _connection: http.client.HTTPConnection | None = None

    def products(self) -> list[dict[str, Any]]:
        status, answer = self._ask("GET", "/v1/products", b"", {})
        if status != 200:
            raise GaveUp(f"GET /v1/products: {status}")
        items: list[dict[str, Any]] = answer["items"]
        return items

    def place(self, wanted: dict[str, Any]) -> str:
        return str(self._until_answered("/v1/orders", wanted, 201)["id"])

    def confirm(self, order_id: str) -> None:
        self._until_answered(f"/v1/orders/{order_id}/confirm", {}, 200)

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _until_answered(self, path: str, body: dict[str, Any], good: int) -> dict[str, Any]:
        key, deadline, pause_s = uuid4().hex, time.monotonic() + self.patience_s, 0.05
        sent = json.dumps(body).encode()
        while True:
            status, answer = self._recorded(key, path, sent)
            if status == good:
                return answer
            if status is not None and status not in ASK_AGAIN:
                raise GaveUp(f"POST {path}: {status} {answer.get('detail', '')}")
            if time.monotonic() > deadline:
                raise GaveUp(
                    f"POST {path}: no answer within {self.patience_s:.0f} s (last: {status or 'no connection'})"
                )
            self.retries += 1
            time.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311  not a secret
            pause_s = min(2 * pause_s, 2.0)

    def _recorded(self, key: str, path: str, body: bytes) -> tuple[int | None, dict[str, Any]]:
        self.ledger.intent(key, "POST", path, body)
        started = time.monotonic()
        status, answer = self._ask("POST", path, body, {"Idempotency-Key": key, "Content-Type": "application/json"})
        if status is not None:
            self.seconds.append(time.monotonic() - started)
        self.ledger.answer(key, "POST", path, status, answer.get("id"))
        return status, answer

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int | None, dict[str, Any]]:
        """The status and the JSON; None when the connection broke: then nobody knows what happened."""
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=15)
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            return None, {}


def some_order(products: list[dict[str, Any]]) -> dict[str, Any]:
    name, n = random.choice(NAMES), random.randrange(10**6)  # noqa: S311
    chosen = random.sample(products, random.randint(1, 4))  # noqa: S311
    return {
        "currency": random.choice(["EUR", "EUR", "USD", "JPY"]),  # noqa: S311
        "customer": {
            "name": name,
            "email": f"customer-{n}@example.org",
            "address": [f"{n % 99 + 1} High Street", "Town"],
        },
        "lines": [{"sku": product["sku"], "quantity": random.randint(1, 5)} for product in chosen],  # noqa: S311
    }
