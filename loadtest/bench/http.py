"""How fast the Order API is: placing and confirming, each against a bare endpoint that inserts one row.

All three run under the same gunicorn settings, are asked over as many kept connections, and take turns. They are asked
twice: by Locust, which takes as much of the machine as what it asks, and by a client that takes next to nothing.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
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
LONGEST_S = 300
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
            return [
                figure
                for client, ask in (("", rate), (" (Locust)", rate_by_locust))
                for figure in _figures(bench, client, _ways(ask, plain, shop, orders, count))
            ]


def _ways(ask: "Ask", plain: str, shop: str, orders: str, count: int) -> dict[str, Callable[[], float]]:
    return {
        "bare: one row by Flask and SQLAlchemy": lambda: ask(plain, [Request("/entries", ENTRY)] * count),
        "place an order": lambda: ask(shop, [Request("/v1/orders", ORDER) for _ in range(count)]),
        "confirm an order": lambda: ask(shop, [Request(path) for path in _drafts(orders, count)]),
    }


def _figures(bench: Bench, client: str, ways: dict[str, Callable[[], float]]) -> list[Figure]:
    for warm_up in ways.values():
        warm_up()
    named = {f"{name}{client}": way for name, way in ways.items()}
    bare, place, confirm = in_turn(named, rounds=bench.rounds, unit="requests/s", say=bench.say).values()
    return [
        ratio("order API", f"place, against a bare insert{client}", place, bare, at_least=0.5),
        ratio("order API", f"confirm, against a bare insert{client}", confirm, bare, at_least=0.5),
    ]


@dataclass(frozen=True)
class Request:
    path: str
    body: bytes = b""
    key: str = field(default_factory=lambda: uuid4().hex)

    def over_http(self) -> bytes:
        return (
            f"POST {self.path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Idempotency-Key: {self.key}\r\nContent-Length: {len(self.body)}\r\n\r\n"
        ).encode() + self.body


Ask = Callable[[str, Sequence[Request]], float]
"""Sends all requests to an address, and answers how many came through per second. A request that fails is an error."""


def rate_by_locust(address: str, requests: Sequence[Request]) -> float:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        asked, answered = Path(folder, "requests.json"), Path(folder, "answers.json")
        asked.write_text(json.dumps([(r.path, r.key, r.body.decode()) for r in requests]))
        command = [
            sys.executable, "-m", "locust", "-f", "loadtest/bench/shoppers.py", "--headless", "--only-summary",
            "--users", str(CONNECTIONS), "--spawn-rate", str(CONNECTIONS), "--host", f"http://{address}",
        ]  # fmt: skip
        places = {"REQUESTS": str(asked), "ANSWERS": str(answered)}
        done = subprocess.run(
            command, env={**os.environ, **places}, cwd=PROJECT, capture_output=True, text=True, timeout=LONGEST_S
        )
        if not answered.exists():
            raise RuntimeError(f"Locust did not come to its end:\n{done.stdout}{done.stderr}")
        told = json.loads(answered.read_text())
    if told["failures"]:
        raise RuntimeError(f"{len(told['failures'])} requests failed, first {told['failures'][0]}")
    return len(requests) / float(told["seconds"])


def rate(address: str, requests: Sequence[Request]) -> float:
    """A plain socket, because a comfortable client is slower than what it measures."""
    sent = [request.over_http() for request in requests]
    threads = [threading.Thread(target=_ask_all, args=(address, sent[n::CONNECTIONS])) for n in range(CONNECTIONS)]
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
