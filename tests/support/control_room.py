"""A control room with a whole shop behind it, the naive one too, and a program that talks to it.

TEST_CONTROL_ROOM="<the link that make up printed>" points to a shop that runs already, for a fast edit-test round.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.stacks import SECRETS, temporary_stack
from tests.support.wait import until

SETTLED_S = 120


@dataclass(frozen=True)
class Room:
    url: str
    token: str

    @property
    def link(self) -> str:
        return f"{self.url}/?token={self.token}"

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        given = {"Content-Type": "application/json"} | (headers or {})
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, sent, given, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def get(self, path: str) -> Any:
        status, answer = self.ask("GET", path, headers=self._bearer)
        assert status == 200, answer
        return answer

    def post(self, path: str, **body: Any) -> Any:
        status, answer = self.ask("POST", path, body, self._bearer)
        assert status in (200, 202), answer
        return answer

    @property
    def _bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def sample(self) -> Any:
        """The newest of the stream."""
        with urllib.request.urlopen(f"{self.url}/v1/stream", timeout=60) as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    return json.loads(line[6:])
        raise AssertionError("the stream ended")

    def ledger(self) -> Any:
        return self.sample()["ledger"]

    def settle(self) -> Any:
        """Waits until nothing is in flight and the ledger is equal; answers it."""
        until(lambda: self.sample()["verdict"]["kind"] == "equal", "settled and equal", seconds=SETTLED_S)
        return self.ledger()

    def order(self, count: int = 1) -> Any:
        """So many orders more, all of them through; answers the ledger then."""
        before = self.ledger()["orders"]
        self.post("/v1/orders", count=count)
        until(lambda: self.ledger()["orders"] >= before + count, f"{count} orders placed", seconds=SETTLED_S)
        return self.settle()


@contextmanager
def running_room() -> Iterator[Room]:
    if link := os.environ.get("TEST_CONTROL_ROOM"):
        url, _, token = link.partition("/?token=")
        yield Room(url, token)
        return
    with temporary_stack(profile="naive") as stack:
        stack.up()
        port = stack.plan.programs["control-room"].published[0]
        yield Room(f"http://127.0.0.1:{port}", SECRETS["CONTROL_ROOM_TOKEN"])
