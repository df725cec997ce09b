"""Shoppers for Locust: they browse, place and confirm, ask again under the same key, and look for their invoice.

does    keeps up a rate of orders in a shape; notes every request in the ledger; at the end starts afterwards.py
reads   HTTP: orders-api, billing-api, the control room's stream
writes  .run/ledger.jsonl, .run/reports/load-*.json
next    load/afterwards.py
"""

import json
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import gevent
from locust import FastHttpUser, LoadTestShape, events, task

from loadtest import shapes
from loadtest.customer import ASK_AGAIN, some_order
from loadtest.load import watch
from loadtest.load.group_ledger import GroupLedger
from loadtest.load.run import Asked, Run

REPORTS = Path(os.environ.get("REPORTS", ".run/reports"))
BROWSE, AGAIN, TOGETHER, READ = 0.3, 0.05, 0.05, 0.1
"""The share of orders before which a shopper looks at the products, after which the same request is sent again, which
are sent twice at the same moment, and whose shopper waits for the invoice."""
PATIENCE_S = 30.0
INVOICED_WITHIN_S = 10.0
LOOK_EVERY_S = (0.005, 0.1)
"""How long between two looks for the invoice: at first, and at the most."""
HOST_FOR_INVOICES = os.environ.get("BILLING_URL", "")

ledger: GroupLedger
present: Run
"""The run that Locust is at, or has been."""


@events.init_command_line_parser.add_listener
def options(parser: Any) -> None:
    """Also shown as fields on Locust's page."""
    parser.add_argument("--shape", default="steady", choices=shapes.NAMES, help="how the rate goes")
    parser.add_argument("--rate", type=float, default=20.0, help="orders per second (limit: the first rate)")
    parser.add_argument("--shoppers", type=int, default=0, help="who share the rate (0: one for each order per second)")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long")
    parser.add_argument("--drain", type=float, default=900.0, help="seconds that the settling may take afterwards")


@events.init.add_listener
def open_ledger(**_: Any) -> None:
    global ledger
    ledger = GroupLedger()


class Shopper(FastHttpUser):
    host = os.environ.get("ORDERS_URL", "")

    def on_start(self) -> None:
        self.products = self.client.get("/v1/products").json()["items"]
        self.due = time.monotonic() + random.uniform(0, _pace_s())  # noqa: S311  not all at the same moment
        gevent.sleep(self.due - time.monotonic())

    def wait_time(self) -> float:
        """By the clock: how long the last order took is part of the pause, so a slower shop is asked as often."""
        self.due = max(time.monotonic(), self.due + _pace_s() * random.uniform(0.5, 1.5))  # noqa: S311
        return self.due - time.monotonic()

    @task
    def buy(self) -> None:
        if _happens(BROWSE):
            self.client.get("/v1/products")
        wanted, key = json.dumps(some_order(self.products)).encode(), uuid4().hex
        twin = gevent.spawn(self._until_answered, "place", "/v1/orders", wanted, key) if _happens(TOGETHER) else None
        order, placing_s = self._until_answered("place", "/v1/orders", wanted, key)
        if order is None:
            return
        path, confirming = f"/v1/orders/{order['id']}/confirm", uuid4().hex
        confirmed, confirming_s = self._until_answered("confirm", path, b"{}", confirming)
        if confirmed is None:
            return
        answered = time.monotonic()
        present.bought.append((present.now_s, placing_s + confirming_s))
        watch.figure(self.environment, "ORDER", "place + confirm", 1000 * (placing_s + confirming_s))
        if _happens(READ):
            self._read_until_invoiced(order["id"], answered)
        if twin:
            self._same_order(order["id"], twin.get()[0])
        elif _happens(AGAIN):
            self._same_order(order["id"], self._until_answered("place", "/v1/orders", wanted, key)[0])
            self._until_answered("confirm", path, b"{}", confirming)

    def _same_order(self, order_id: str, answer: dict[str, Any] | None) -> None:
        present.asked_again += 1
        if answer is not None and answer["id"] != order_id:
            present.failed("one key, two orders")

    def _until_answered(self, name: str, path: str, body: bytes, key: str) -> tuple[dict[str, Any] | None, float]:
        """The answer, and how long the shop took for it: the ledger's disk is not the shop's."""
        spent_s, pause_s = 0.0, 0.05
        while True:
            ledger.intent(key, "POST", path, body)
            began = time.monotonic()
            status, answer = self._post(name, path, body, key)
            spent_s += time.monotonic() - began
            ledger.answer(key, "POST", path, status, answer.get("id"))
            if status in (200, 201):
                return answer, spent_s
            if status not in (None, *ASK_AGAIN) or spent_s > PATIENCE_S:
                return None, spent_s
            gevent.sleep(pause_s)
            spent_s, pause_s = spent_s + pause_s, min(2 * pause_s, 2.0)

    def _post(self, name: str, path: str, body: bytes, key: str) -> tuple[int | None, dict[str, Any]]:
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        with self.client.post(path, data=body, headers=headers, name=name, catch_response=True) as response:
            status = response.status_code or None
            if status == 409:
                response.success()  # its twin is still being worked on: ask again
            try:
                return status, response.json() if status else {}
            except ValueError:
                return status, {}

    def _read_until_invoiced(self, order_id: str, answered: float) -> None:
        path, pause_s = f"{HOST_FOR_INVOICES}/v1/orders/{order_id}/invoice", LOOK_EVERY_S[0]
        while time.monotonic() - answered < INVOICED_WITHIN_S:
            with self.client.get(path, name="invoice (until it is there)", catch_response=True) as response:
                if response.status_code == 404:
                    response.success()
                if response.status_code == 200:
                    took_s = time.monotonic() - answered
                    present.read.append(took_s)
                    return watch.figure(self.environment, "PIPELINE", "confirm → invoice read", 1000 * took_s)
            gevent.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_EVERY_S[1])
        present.failed(f"no invoice within {INVOICED_WITHIN_S:.0f} s")
        return None


class Rate(LoadTestShape):
    """Locust counts users. Each buys at the same pace, so their number is the rate."""

    def reset_time(self) -> None:
        """Called when a run begins, before the first tick; the event test_start comes after it."""
        super().reset_time()
        _begin(self.runner.environment)

    def tick(self) -> tuple[int, float] | None:
        rate = _shape()(self.get_run_time())
        if rate is None:
            return None
        users = max(round(rate * _pace_s()), 1 if rate else 0)
        return users, max(1.0, users)


def _begin(environment: Any) -> None:
    global present, _chosen
    given = environment.parsed_options
    present = Run(given.shape, given.rate, given.shoppers or max(1, round(given.rate)), given.minutes, given.drain)
    _chosen = None
    gevent.spawn(watch.watch, environment, present)


@events.request.add_listener
def note_failure(name: str, exception: Exception | None, **_: Any) -> None:
    if exception is not None:
        present.failed(f"{name}: {exception}"[:200])


@events.test_stop.add_listener
def end(environment: Any, **_: Any) -> None:
    """Settling and the audit are another process's: here they would stop Locust's page."""
    present.ended = time.time()
    present.asked = [_asked(entry) for entry in environment.stats.entries.values() if entry.num_requests]
    if isinstance(_chosen, shapes.Limit):
        search = _chosen.search
        present.maximum, present.first_failed = search.maximum, search.failed
        present.half_since_s = _chosen.half_since_s if search.maximum else None
    stamp = datetime.fromtimestamp(present.started, UTC).strftime("%Y%m%d-%H%M%S")
    record = present.write(REPORTS / f"load-{stamp}.json")
    done = subprocess.run([sys.executable, "-m", "loadtest.load.afterwards", str(record)], check=False)
    environment.process_exit_code = done.returncode


_chosen: shapes.Shape | None = None


def _shape() -> shapes.Shape:
    global _chosen
    if _chosen is None:
        seconds = present.minutes * 60
        if present.shape == "limit":
            _chosen = shapes.Limit(shapes.Search(present.rate), present, seconds, steps=present.steps)
        else:
            _chosen = getattr(shapes, present.shape)(present.rate, seconds)
    return _chosen


def _pace_s() -> float:
    return present.shoppers / present.rate


def _happens(share: float) -> bool:
    return random.random() < share  # noqa: S311


def _asked(entry: Any) -> Asked:
    p50, p95, p99 = (entry.get_response_time_percentile(share) for share in (0.5, 0.95, 0.99))
    return Asked(
        f"{entry.method} {entry.name}", entry.num_requests, entry.num_failures, entry.total_rps,
        p50, p95, p99, entry.max_response_time,
    )  # fmt: skip
