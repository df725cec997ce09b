"""The operations port, asked over HTTP as a probe or a person would."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.runtime import failpoints
from shared.runtime.ops import Ops

WINDOW = "billing.worker.after_smtp"


@pytest.fixture
def health() -> dict[str, str | None]:
    return {"alive": None, "ready": None}


@pytest.fixture
def address(health: dict[str, str | None], tmp_path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        bind = f"127.0.0.1:{free.getsockname()[1]}"
    failpoints.configure("", str(tmp_path))
    ops = Ops(bind, alive=lambda: health["alive"], ready=[lambda: health["ready"]], failpoints_token="token").start()
    yield bind
    ops.stop()
    failpoints.configure()


def ask(url: str, method: str = "GET", body: bytes | None = None, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://{url}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_process_whose_loop_hangs_is_ill(address: str, health: dict[str, str | None]) -> None:
    assert ask(f"{address}/healthz")[0] == 200
    health["alive"] = "the loop has not come round for 31 s"
    status, said = ask(f"{address}/healthz")
    assert (status, json.loads(said)["problems"]) == (503, [health["alive"]])


def test_a_process_that_cannot_work_is_healthy_but_not_ready(address: str, health: dict[str, str | None]) -> None:
    health["ready"] = "database orders: connection refused"
    assert ask(f"{address}/healthz")[0] == 200
    assert ask(f"{address}/readyz")[0] == 503


def test_metrics_are_prometheus_text(address: str) -> None:
    assert "# TYPE python_info gauge" in ask(f"{address}/metrics")[1]


@pytest.mark.parametrize("token", ["", "wrong", "tokens"])
def test_without_the_token_there_are_no_failpoints(address: str, token: str) -> None:
    order = json.dumps({"name": WINDOW, "action": "kill"}).encode()
    for method, body in (("GET", None), ("POST", order), ("DELETE", None)):
        assert ask(f"{address}/failpoints", method, body, token)[0] == 404
    assert failpoints.armed() == {}


def test_failpoints_are_armed_and_disarmed_with_the_token(address: str) -> None:
    order = json.dumps({"name": WINDOW, "action": "kill"}).encode()
    assert ask(f"{address}/failpoints", "POST", order, "token")[0] == 200
    assert json.loads(ask(f"{address}/failpoints", token="token")[1])["armed"] == {WINDOW: "kill"}
    assert ask(f"{address}/failpoints", "DELETE", token="token")[0] == 200
    assert failpoints.armed() == {}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"name": "x"}', b'{"name":"x","action":"kill"}', b"a" * 9000])
def test_nonsense_is_refused_in_words(address: str, body: bytes) -> None:
    status, said = ask(f"{address}/failpoints", "POST", body, "token")
    assert status == 400
    assert "expected" in said


ENDLESS = """
import sys, threading
from shared.runtime.ops import Ops
Ops(sys.argv[1], alive=lambda: None, failpoints_token="token").start()
print("started", flush=True)
threading.Event().wait()
"""


def test_kill_needs_the_token_and_is_immediate() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with subprocess.Popen([sys.executable, "-c", ENDLESS, address], stdout=subprocess.PIPE) as victim:
        assert victim.stdout
        assert victim.stdout.readline() == b"started\n"
        assert ask(f"{address}/kill", "POST", b"", "wrong")[0] == 404
        assert victim.poll() is None
        assert ask(f"{address}/kill", "POST", b"", "token")[0] == 202
        assert victim.wait(10) == -signal.SIGKILL
