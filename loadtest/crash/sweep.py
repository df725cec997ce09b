"""One crash, from arming to verdict.

does    arms a failpoint, provokes it, lets another process take over where one sleeps, waits for all to settle, audits
reads   the control room; everything the audit reads
writes  an order or whatever else provokes the failpoint
next    windows.py
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

from infra.control import Control
from loadtest.crash import windows
from loadtest.crash.windows import Scene
from services.control_room.audit import audit, settling
from services.control_room.audit.verdicts import Verdicts
from services.control_room.settings import PlacesSettings

# A zombie must sleep longer than everything that others wait for before they take over: its session in the group (6 s)
# and its slot (20 s), a relay's lease (15 s), a worker's lease (30 s), a transaction that stands still (5 s).
SLEEPS_S = {"consumer": 25, "relay": 20, "worker": 36}
SHORT_SLEEP_S = 8
TAKEN_OVER = ("consumer", "relay", "worker")

Say = Callable[[str], None]


@dataclass
class Outcome:
    failpoint: str
    action: str
    process: str
    fired: bool
    away_s: float
    settled: bool
    verdicts: Verdicts

    @property
    def good(self) -> bool:
        return self.fired and self.settled and self.verdicts.hold


class Sweep:
    def __init__(self, scene: Scene, control: Control, places: PlacesSettings, say: Say) -> None:
        self._scene, self._control, self._places, self._say = scene, control, places, say
        known = scene.room.get("/v1/failpoints")["failpoints"]
        self.failpoints: dict[str, dict[str, str]] = {entry["name"]: entry for entry in known}

    def crash(self, failpoint: str, action: str) -> Outcome:
        fired, away_s = self.open(failpoint, action)
        settled = settling.settle(self._places, 120, lambda _now: None)
        verdicts = audit.run(self._places)
        process = self.failpoints[failpoint]["process"]
        return Outcome(failpoint, self._exact(failpoint, action), process, fired, away_s, settled, verdicts)

    def open(self, failpoint: str, action: str) -> tuple[bool, float]:
        """Whether it fired, and for how long the process was away."""
        process, exact = self.failpoints[failpoint]["process"], self._exact(failpoint, action)
        self._scene.room.post("/v1/faults/failpoint", name=failpoint, action=exact)
        self._say(f"{failpoint} is armed in {process}: {exact}, {self.failpoints[failpoint]['when']}")
        with ThreadPoolExecutor(1) as aside:
            provoked = aside.submit(windows.provoke, failpoint, self._scene)
            fired, away_s = self._watch(failpoint, process, action, provoked)
            provoked.result(120)
        return fired, away_s

    def order_comes_through(self) -> float:
        """Seconds until an order that is placed now has its invoice: API, databases and Kafka are there."""
        began = time.monotonic()
        windows.invoice_of_new_order(self._scene)
        return time.monotonic() - began

    def _exact(self, failpoint: str, action: str) -> str:
        return f"pause:{self.sleep_s(failpoint)}" if action == "pause" else action

    def sleep_s(self, failpoint: str) -> int:
        return SLEEPS_S.get(failpoint.split(".")[1], SHORT_SLEEP_S)

    def _watch(self, failpoint: str, process: str, action: str, provoked: "Future[None]") -> tuple[bool, float]:
        if not self._until(lambda: not self._is_armed(failpoint, process), 60):
            self._scene.room.post("/v1/faults/disarm", name=failpoint)
            return False, 0.0
        began = time.monotonic()
        self._say(f"it fired: {process} is {'asleep' if action == 'pause' else 'dead'}")
        takes_over = action == "pause" and process.rpartition("-")[2] in TAKEN_OVER
        with self._control.replica(process) if takes_over else nullcontext():
            if action == "pause":
                self._until(lambda: time.monotonic() - began > self.sleep_s(failpoint), 120)
            self._until(lambda: self._is_up(process) and provoked.done(), 120)
        away_s = time.monotonic() - began
        self._say(f"{process} is back after {away_s:.1f} s")
        return not self._is_armed(failpoint, process), away_s

    def _is_armed(self, failpoint: str, process: str) -> bool:
        armed: dict[str, dict[str, str]] = self._scene.room.get("/v1/failpoints")["armed"]
        return failpoint in armed.get(process, {})

    def _is_up(self, process: str) -> bool:
        return bool(self._scene.room.get("/v1/processes")["processes"][process]["state"] == "up")

    def _until(self, done: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True
