"""How fast the Order API is: placing and confirming, each against a bare endpoint that inserts one row.

All three run under the same gunicorn settings, are asked over as many kept connections, and take turns.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from uuid import uuid4

import orjson
import psycopg

from infra.native.stack import PROJECT
from loadtest.bench import bare_app
from loadtest.bench.figures import Figure, in_turn, ratio
from loadtest.bench.servers import Bench
from shared.messaging import retention
from shared.runtime import migrate
from shared.runtime.probe import probe

CONNECTIONS = 8
SERVER = {"HTTP_WORKERS": "2", "HTTP_THREADS": "4"}
BARE_TABLE = "CREATE TABLE entries (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, amount bigint)"
ENTRY = orjson.dumps({"name": "Ada Lovelace", "amount": 7160})
ORDER = orjson.dumps(
    {
        "currency": "EUR",
        "customer": {"name": "Ada Lovelace", "email": "ada@example.org", "address": ["12 St James's Square", "London"]},
        "lines": [{"sku": "teapot", "quantity": 1}, {"sku": "assam", "quantity": 3}],
    }
)
DRAFTS = """
WITH drafts AS (
    INSERT INTO orders (id, currency, customer_name, customer_email, customer_address, total)
    SELECT gen_random_uuid(), 'EUR', 'Ada Lovelace', 'ada@example.org', '{London}', 5380
    FROM generate_series(1, %s) RETURNING id
), lines AS (
    INSERT INTO order_lines (order_id, sku, position, name, quantity, unit_price, tax_basis_points)
    SELECT id, sku, position, name, 1, 890, tax_basis_points FROM drafts, products WHERE sku IN ('teapot', 'assam')
)
SELECT id FROM drafts
"""


def measure(bench: Bench) -> list[Figure]:
    count = 400 if bench.quick else 3000
    bench.say(f"Order API, {count} requests each over {CONNECTIONS} connections")
    with bench.database() as orders, bench.database(BARE_TABLE) as bare:
        _prepare(orders)
        with (
            serving("services.orders.api:create_app()", orders) as shop,
            serving(f"{bare_app.__name__}:create_app()", bare) as plain,
        ):
            ways: dict[str, Callable[[], float]] = {
                "bare: one row by Flask and SQLAlchemy": lambda: rate(plain, [post("/entries", ENTRY)] * count),
                "place an order": lambda: rate(shop, [post("/v1/orders", ORDER) for _ in range(count)]),
                "confirm an order": lambda: rate(shop, [post(path) for path in _drafts(orders, count)]),
            }
            for warm_up in ways.values():
                warm_up()
            bare_rate, place, confirm = in_turn(ways, rounds=bench.rounds, unit="requests/s", say=bench.say).values()
    return [
        ratio("order API", "place, against a bare insert", place, bare_rate, at_least=0.5),
        ratio("order API", "confirm, against a bare insert", confirm, bare_rate, at_least=0.5),
    ]


def post(path: str, body: bytes = b"") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nIdempotency-Key: {uuid4().hex}\r\n"
    )
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


def rate(address: str, requests: Sequence[bytes]) -> float:
    """Requests per second. A plain socket, because a comfortable client would be slower than what it measures."""
    threads = [
        threading.Thread(target=_ask_all, args=(address, requests[number::CONNECTIONS]))
        for number in range(CONNECTIONS)
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(requests) / (time.perf_counter() - started)


def _ask_all(address: str, requests: Sequence[bytes]) -> None:
    host, _, port = address.rpartition(":")
    with closing(socket.create_connection((host, int(port)), timeout=30)) as connection:
        answers = connection.makefile("rb")
        for request in requests:
            connection.sendall(request)
            status = answers.readline()
            if status.split(b" ", 2)[1][:1] != b"2":
                raise RuntimeError(f"a request failed: {status!r}")
            length = 0
            while (line := answers.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            answers.read(length)


@contextmanager
def serving(app: str, database_url: str) -> Iterator[str]:
    with closing(socket.socket()) as one, closing(socket.socket()) as two:
        for found in (one, two):
            found.bind(("127.0.0.1", 0))
        http, ops = (f"127.0.0.1:{found.getsockname()[1]}" for found in (one, two))
    told = {
        "PROCESS": "bench",
        "HTTP_BIND": http,
        "OPS_BIND": ops,
        "DATABASE_URL": database_url,
        "LOG_LEVEL": "warning",
    }
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "-c",
        "shared/runtime/gunicorn_config.py",
        "--log-level",
        "warning",
        app,
    ]
    server = subprocess.Popen(command, env={**os.environ, **SERVER, **told}, cwd=PROJECT)
    try:
        deadline = time.monotonic() + 60
        while "refused" in probe(f"{http}/healthz", 1.0)[1]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{app} does not answer")
            time.sleep(0.1)
        yield http
    finally:
        server.terminate()
        server.wait(20)


def _prepare(url: str) -> None:
    command = [sys.executable, "-m", migrate.__name__, "services/orders"]
    subprocess.run(command, env={**os.environ, "DATABASE_URL": url}, cwd=PROJECT, check=True, capture_output=True)
    with psycopg.connect(url, autocommit=True) as connection:
        retention.create_partitions(connection, "outbox")


def _drafts(url: str, count: int) -> list[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        return [f"/v1/orders/{order_id}/confirm" for (order_id,) in connection.execute(DRAFTS, (count,)).fetchall()]
