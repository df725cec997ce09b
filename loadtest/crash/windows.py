"""What makes a process pass each failpoint. Most are on the way of every order; a few need a little preparation."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from infra.native.stack import PROJECT
from loadtest.control_room import ControlRoom
from loadtest.customer import Customer, some_order


@dataclass
class Scene:
    room: ControlRoom
    customer: Customer
    products: list[dict[str, Any]]

    def order(self) -> str:
        order_id = self.customer.place(some_order(self.products))
        self.customer.confirm(order_id)
        return order_id


def run_in(process: str, *command: str) -> int:
    """Its exit status: a one-shot command may well be what the failpoint kills."""
    words = [str(PROJECT / "infra" / "stack.sh"), "exec", process, *command]
    return subprocess.run(words, cwd=PROJECT, capture_output=True, env=os.environ).returncode


def confirm_an_order(scene: Scene) -> None:
    scene.order()


def send_a_bad_event(scene: Scene) -> None:
    scene.room.post("/v1/faults/poison", poison="undecodable")


# As billing's own role. The order's task is forgotten on purpose, while nobody works on it.
FORGET = """
import os, psycopg, sys
with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as billing:
    billing.execute("DELETE FROM tasks WHERE key = %s AND state <> 'done'", (sys.argv[1],))
"""


def invoice_of_new_order(scene: Scene) -> Any:
    order_id = scene.order()
    return _until(lambda: _invoice(order_id))


def forget_a_task(scene: Scene) -> None:
    """The worker stands still while its task is taken away; the reconciler, run by hand, finds the invoice."""
    subprocess.run([str(PROJECT / "infra" / "stack.sh"), "stop", "billing-worker"], cwd=PROJECT, check=True)
    try:
        order_id = scene.order()
        _until(lambda: _invoice(order_id) is not None)
        run_in("billing-reconciler", "python", "-c", FORGET, order_id)
        once = ("sh", "-c", "OVERDUE_AFTER_S=0 exec python -m services.billing.reconciler --once")
        if run_in("billing-reconciler", *once) != 0:
            run_in("billing-reconciler", *once)
    finally:
        subprocess.run([str(PROJECT / "infra" / "stack.sh"), "start", "billing-worker"], cwd=PROJECT, check=True)


def redrive_a_letter(scene: Scene) -> None:
    """A bad copy of a good event is parked, repaired to the original, and applied after all: the inbox knows it."""
    scene.order()
    done = scene.room.post("/v1/faults/poison", poison="invalid")
    letter = _until(lambda: _letter_at(done["places"][0]))
    event = orjson.loads(_billing("GET", f"/v1/dead-letters/{letter['id']}")["value"])
    event["data"]["total"] = sum(line["quantity"] * line["unit_price"] for line in event["data"]["lines"])
    _billing("POST", f"/v1/dead-letters/{letter['id']}/repair", {"value": orjson.dumps(event).decode()})
    _until(lambda: _redriven(letter["id"]))


def _redriven(letter_id: int) -> bool:
    """False when the process died with the request: the letter is still open then."""
    try:
        _billing("POST", f"/v1/dead-letters/{letter_id}/redrive", {})
    except urllib.error.HTTPError as error:
        return error.code == 409  # closed: the first try had committed
    except OSError:
        return False
    return True


OLD_PARTITION = """
import os, psycopg
from datetime import date, timedelta
from shared.messaging import retention
with psycopg.connect(os.environ["ORDERS_DATABASE_URL"], autocommit=True) as orders:
    retention._create(orders, "outbox", date.today() - timedelta(days=60))
"""


def drop_a_partition(_scene: Scene) -> None:
    run_in("housekeeping", "python", "-c", OLD_PARTITION)
    if run_in("housekeeping", "python", "-m", "services.housekeeping.cron", "--once") != 0:
        run_in("housekeeping", "python", "-m", "services.housekeeping.cron", "--once")


PROVOKED_BY: dict[str, Callable[[Scene], None]] = {
    "billing.consumer.before_park": send_a_bad_event,
    "analytics.consumer.before_park": send_a_bad_event,
    "billing.reconciler.before_commit": forget_a_task,
    "billing.redrive.before_commit": redrive_a_letter,
    "housekeeping.before_commit": drop_a_partition,
}


def provoke(failpoint: str, scene: Scene) -> None:
    PROVOKED_BY.get(failpoint, confirm_an_order)(scene)


def _invoice(order_id: str) -> Any:
    try:
        return _billing("GET", f"/v1/orders/{order_id}/invoice")
    except OSError:  # 404, or billing-api's database is away
        return None


def _letter_at(place: dict[str, int]) -> Any:
    """Page by page: after many sweeps there are hundreds of open letters, and the newest is on the last page."""
    cursor: int | None = 0
    while cursor is not None:
        page = _billing("GET", f"/v1/dead-letters?limit=100&cursor={cursor}")
        for letter in page["items"]:
            if (letter["partition"], letter["offset"]) == (place["partition"], place["first_offset"]):
                return letter
        cursor = page["next_cursor"]
    return None


def _billing(method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {os.environ['OPERATOR_TOKEN']}", "Content-Type": "application/json"}
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["BILLING_URL"] + path, sent, headers, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def _until(look: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError("what was provoked did not happen")
        time.sleep(0.1)
    return found
