"""The naive shop beside the real one, while `make naive` runs it: its ledger, and the same faults for it.

does    looks every two seconds, in a thread of its own; orders there, doubles an event, kills a process
reads   naive_orders and naive_billing as auditor; the operations ports of its two processes
writes  Kafka orders.naive, at the request of a person
next    services/orders/naive_api.py, services/billing/naive_consumer.py: why its ledger drifts
"""

import threading
import time
from typing import Any

import psycopg

from services.control_room import topic
from services.control_room.buying import Buyer
from services.control_room.journal import Journal
from services.control_room.ops_ports import OpsPorts
from services.control_room.questions import SHARE, Connections
from services.control_room.settings import ControlRoomSettings

EVERY_S = 2.0
QUIET_S = 20.0
"""It keeps no record of what is still to be done: what did not come for so long will not come."""
TWINS = {
    "orders-api": "naive-orders", "orders-relay": "naive-orders",
    "billing-consumer": "naive-billing", "billing-worker": "naive-billing",
}  # fmt: skip
"""Which of its two processes does what a process of the real shop does."""

ORDERED = "SELECT count(*) AS orders FROM orders"
INVOICED = "SELECT count(*) AS invoices, count(DISTINCT order_id) AS orders_invoiced FROM invoices"


class NaiveShop:
    def __init__(self, settings: ControlRoomSettings, journal: Journal) -> None:
        self._places = settings.model_copy(update={"topic": "orders.naive"})
        self._ports = OpsPorts(settings.naive_ops_ports, settings.failpoints_token)
        self._buyer = Buyer(settings.naive_orders_url, journal, confirms=False)
        urls = {"orders": settings.naive_orders_database_url, "billing": settings.naive_billing_database_url}
        self._connections = Connections(urls, "control-room-naive")
        self._changed_at = time.monotonic()
        self.latest: dict[str, Any] | None = None
        """None: it does not run."""

    def start(self) -> None:
        if self._ports.ports:
            threading.Thread(target=self._run, name="naive", daemon=True).start()

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            self._look()
            took = time.monotonic() - began
            threading.Event().wait(max(EVERY_S, took / SHARE if self.latest else 5 * EVERY_S))

    def _look(self) -> None:
        states = {name: state.state for name, state in self._ports.states().items()}
        if self.latest is None and set(states.values()) == {"down"}:
            return
        try:
            found = self._connections.ask("billing", INVOICED, {}) | self._connections.ask("orders", ORDERED, {})
        except psycopg.Error:
            return
        before = self.latest or {}
        if any(before.get(name) != value for name, value in found.items()):
            self._changed_at = time.monotonic()
        self.latest = {
            **found,
            "doubled": found["invoices"] - found["orders_invoiced"],
            "missing": found["orders"] - found["orders_invoiced"],
            "quiet": time.monotonic() - self._changed_at > QUIET_S,
            "processes": states,
        }

    def buy(self, count: int) -> None:
        self._buyer.buy(count)

    def duplicate(self, times: int) -> None:
        topic.produce(self._places, topic.last_records(self._places, 1, events_only=False)[:1] * times)

    def kill_twin_of(self, process: str) -> None:
        if twin := TWINS.get(process):
            self._ports.kill(twin)
