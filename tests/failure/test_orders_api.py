"""orders-api dies before or after its commit: the client asks again with its key and there is one order, one event."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from infra.native.stack import PROJECT
from loadtest import ledger
from loadtest.customer import Customer
from loadtest.ledger import Ledger
from shared.runtime.probe import probe
from tests.support.orders import rows, wanted
from tests.support.wait import until


@contextmanager
def gunicorn(url: str, folder: Path) -> Iterator[str]:
    """The service as docker-compose.yml starts it: one worker, which its master replaces when it dies."""
    http, ops = (f"127.0.0.1:{_free_port()}" for _ in range(2))
    environment = os.environ | {
        "PROCESS": "orders-api",
        "HTTP_BIND": http,
        "OPS_BIND": ops,
        "DATABASE_URL": url,
        "FAILPOINTS_DIR": str(folder),
    }
    command = [sys.executable, "-m", "gunicorn", "-c", "shared/runtime/gunicorn_config.py"]
    master = subprocess.Popen([*command, "services.orders.api:create_app()"], env=environment, cwd=PROJECT)
    try:
        until(lambda: probe(f"{http}/readyz", 1.0)[0], "orders-api answers", seconds=60)
        yield f"http://{http}"
    finally:
        master.terminate()
        master.wait(20)


def _free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("window", ["before_commit", "after_commit"])
def test_a_crash_around_the_commit_leaves_one_order_and_one_event(window: str, orders_url: str, tmp_path: Path) -> None:
    failpoint = tmp_path / f"orders.api.{window}"
    with gunicorn(orders_url, tmp_path) as url, closing(Ledger(tmp_path / "ledger")) as book:
        customer = Customer(url, book)
        failpoint.write_text("kill")
        order_id = customer.place(wanted())
        assert customer.retries >= 1, "the worker died, and the customer asked again"
        assert not failpoint.exists()
        first_retries = customer.retries
        failpoint.write_text("kill")
        customer.confirm(order_id)
        assert customer.retries > first_retries
        customer.close()
    assert [str(found) for (found,) in rows(orders_url, "SELECT id FROM orders")] == [order_id]
    assert rows(orders_url, "SELECT key FROM outbox") == [(order_id,)]
    entries = list(ledger.read(tmp_path / "ledger"))
    assert [entry["status"] for entry in entries if entry["entry"] == "answer"].count(None) >= 2
    assert sum(entry["entry"] == "intent" for entry in entries) * 2 == len(entries)


def test_an_injected_error_is_a_500_and_nothing_is_written(orders_url: str, tmp_path: Path) -> None:
    (tmp_path / "orders.api.before_commit").write_text("error")
    with gunicorn(orders_url, tmp_path) as url, closing(Ledger(tmp_path / "ledger")) as book:
        customer = Customer(url, book)
        order_id = customer.place(wanted())
        customer.close()
    statuses = [entry["status"] for entry in ledger.read(tmp_path / "ledger") if entry["entry"] == "answer"]
    assert statuses == [500, 201]
    assert [str(found) for (found,) in rows(orders_url, "SELECT id FROM orders")] == [order_id]
