"""The operations ports of all processes: how each of them is, what is armed in it, and how to end it.

does    asks and tells every process through its own port; there is no Docker socket
reads   /readyz and /failpoints of every process
writes  failpoints, and an end
next    shared/runtime/ops.py, the other side
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

from shared.runtime.failpoints import CATALOGUE
from shared.runtime.probe import probe
from shared.runtime.problems import Problem

PATIENCE_S = 1.5
CONSUMERS = ("billing", "analytics")
FAILPOINTS = {
    name.replace("*", consumer): sentence
    for name, sentence in CATALOGUE.items()
    for consumer in (CONSUMERS if "*" in name else ("",))
}
"""Every failpoint by its full name, and when it strikes."""


class State(NamedTuple):
    state: Literal["up", "ill", "down"]
    why: str = ""


class OpsPorts:
    def __init__(self, ports: Mapping[str, str], token: str) -> None:
        self.ports, self._token = ports, token
        # One thread per process: one that stands still lets its questions wait, and must not hold up the others'.
        self._threads = ThreadPoolExecutor(max(1, len(ports)), "ops")

    def states(self) -> dict[str, State]:
        return dict(zip(self.ports, self._threads.map(self._state, self.ports.values()), strict=True))

    def _state(self, address: str) -> State:
        ready, said = probe(f"{address}/readyz", PATIENCE_S)
        if ready:
            return State("up")
        try:
            return State("ill", "; ".join(json.loads(said)["problems"]))
        except (ValueError, KeyError):
            # A port that refuses belongs to nobody; one that keeps silent to a process that is slow, or stopped.
            return State("ill", "does not answer in time") if "timed out" in said else State("down", "not there")

    def armed(self) -> dict[str, dict[str, str]]:
        """process → failpoint → action; only those where something is armed."""
        answers = dict(zip(self.ports, self._threads.map(self._armed, self.ports), strict=True))
        return {process: armed for process, armed in answers.items() if armed}

    def _armed(self, process: str) -> dict[str, str]:
        try:
            return dict(self._ask(process, "GET", "/failpoints")["armed"])
        except Problem:
            return {}

    def arm(self, name: str, action: str) -> str:
        """Answers in which process."""
        process = self.process_of(name)
        self._ask(process, "POST", "/failpoints", {"name": name, "action": action})
        return process

    def disarm(self, name: str | None = None) -> list[str]:
        """One, or whatever is armed anywhere."""
        processes = [self.process_of(name)] if name else list(self.armed())
        for process in processes:
            self._ask(process, "DELETE", f"/failpoints?name={name}" if name else "/failpoints")
        return processes

    def kill(self, process: str) -> None:
        if process not in self.ports:
            raise Problem(404, "no-such-process", f"There is no process {process}; there are: {', '.join(self.ports)}.")
        self._ask(process, "POST", "/kill")

    def process_of(self, failpoint: str) -> str:
        if failpoint not in FAILPOINTS:
            raise Problem(404, "no-such-failpoint", f"No failpoint is called {failpoint}: see GET /v1/failpoints.")
        service, *rest = failpoint.split(".")
        if rest[0] == "redrive":
            return f"{service}-api"
        return f"{service}-{rest[0]}" if len(rest) > 1 else service

    def _ask(self, process: str, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"http://{self.ports[process]}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise Problem(409, "refused", f"{process} refuses: {error.read().decode()[:300]}") from error
        except OSError as error:
            raise Problem(503, "process-away", f"{process} does not answer: {error}") from error
