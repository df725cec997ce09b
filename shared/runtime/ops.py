"""The operations port of a process: is it alive, is it ready, what has it counted, and which faults are armed.

GET  /healthz      200 while the loop comes round, 503 and the reason otherwise
GET  /readyz       200 when it is healthy and can do its work, 503 and every reason otherwise
GET  /metrics      Prometheus text
GET  /failpoints   what is armed; POST {"name", "action"} arms, DELETE ?name= disarms. Needs the token.
POST /kill         SIGKILL to the process, now, wherever it is. Needs the token.
"""

import hmac
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from shared.runtime import failpoints, metrics

Check = Callable[[], str | None]
"""A check answers None, or in one sentence what is wrong."""

MAX_BODY_BYTES = 4096


class Ops:
    """Serves the port from a thread of the process until it ends."""

    def __init__(
        self,
        bind: str,
        *,
        alive: Check,
        ready: Sequence[Check] = (),
        failpoints_token: str = "",
        shared_by_workers: bool = False,
    ) -> None:
        self.alive, self.ready, self.token = alive, ready, failpoints_token
        # Of a web server the master: a worker that dies is replaced before anybody notices.
        self.pid = os.getppid() if shared_by_workers else os.getpid()
        host, _, port = bind.rpartition(":")
        self._server = _Server((host, int(port)), _Handler, bind_and_activate=False)
        self._server.ops = self
        self._server.allow_reuse_port = shared_by_workers
        self._server.server_bind()
        self._server.server_activate()

    def start(self) -> "Ops":
        threading.Thread(target=self._server.serve_forever, name="ops", daemon=True).start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def problems(self, path: str) -> list[str]:
        checks = [self.alive] if path == "/healthz" else [self.alive, *self.ready]
        return [problem for check in checks if (problem := _answer(check))]


def _answer(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  a check that fails is itself the finding
        return f"{type(error).__name__}: {error}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    ops: Ops

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A probe that lost patience and hung up is not news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path in ("/healthz", "/readyz"):
            problems = self.server.ops.problems(path)
            self._json(503 if problems else 200, {"status": "ill" if problems else "ok", "problems": problems})
        elif path == "/metrics":
            self._answer(200, metrics.exposition(), "text/plain; version=0.0.4; charset=utf-8")
        elif path == "/failpoints" and self._may_break_things():
            self._json(200, {"armed": failpoints.armed(), "known": failpoints.CATALOGUE})
        else:
            self._json(404, {"error": "not found"})

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        if path not in ("/failpoints", "/kill") or not self._may_break_things():
            return self._json(404, {"error": "not found"})
        if path == "/kill":
            self._json(202, {"killed": self.server.ops.pid})
            return os.kill(self.server.ops.pid, signal.SIGKILL)
        try:
            wanted = json.loads(self._body())
            failpoints.arm(str(wanted["name"]), str(wanted["action"]))
        except (ValueError, KeyError, TypeError) as error:
            return self._json(400, {"error": f'expected {{"name": …, "action": …}}: {error}'})
        return self._json(200, {"armed": failpoints.armed()})

    def do_DELETE(self) -> None:
        url = urlsplit(self.path)
        if url.path != "/failpoints" or not self._may_break_things():
            return self._json(404, {"error": "not found"})
        for name in parse_qs(url.query).get("name", list(failpoints.armed())):
            failpoints.disarm(name)
        return self._json(200, {"armed": failpoints.armed()})

    def _may_break_things(self) -> bool:
        """Without the token the door looks as if it were not there."""
        token, given = self.server.ops.token, self.headers.get("Authorization", "")
        return bool(token) and hmac.compare_digest(given.encode(), f"Bearer {token}".encode())

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= MAX_BODY_BYTES:
            raise ValueError(f"a body of at most {MAX_BODY_BYTES} bytes")
        return self.rfile.read(length)

    def _json(self, status: int, answer: object) -> None:
        self._answer(status, json.dumps(answer).encode() + b"\n", "application/json")

    def _answer(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds; they are not news."""
