"""One run: load, faults and a look at everything once a second, together until the time is over.

Nothing that a fault did outlasts the run: each undoes itself, whether its time was over or Ctrl-C came.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from infra.control import Control
from loadtest.chaos import faults
from loadtest.chaos.load import Load
from loadtest.chaos.schedule import Fault, schedule
from loadtest.chaos.shops import Progress, Shop
from services.control_room.audit.audit import AWAY

SAMPLE_S = 1.0


@dataclass
class Fallen:
    fault: Fault
    began_s: float
    ended_s: float | None = None
    said: str = "…"
    missed: bool = False


@dataclass
class Sample:
    at_s: float
    progress: Progress | None
    """None: a database, or the mailbox, was away."""


@dataclass
class Campaign:
    shop: Shop
    control: Control
    seed: int
    duration_s: float
    rate: float
    over: threading.Event = field(default_factory=threading.Event)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    fallen: list[Fallen] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    ended_s: float = 0.0
    """When no more orders were begun: as planned, or earlier because of Ctrl-C."""
    load: Load = field(init=False)
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.load = Load(self.shop.url, self.rate, self.duration_s, self.shop.buy, self.shop.ledger, self.over)

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def kinds(self) -> Counter[str]:
        return Counter(fallen.fault.kind for fallen in self.fallen if not fallen.missed)

    def run(self, look: Callable[[], None]) -> None:
        """`look` is called a few times a second, in this thread."""
        planned = schedule(self.seed, self.duration_s, self.shop.kinds)
        self._began, self.started_at = time.monotonic(), datetime.now(UTC)
        self.load.start()
        threads = [threading.Thread(target=self._fall, args=(fault,)) for fault in planned]
        watcher = threading.Thread(target=self._watch)
        for thread in (*threads, watcher):
            thread.start()
        while self.now_s < self.duration_s and not self.over.is_set():
            look()
            self.over.wait(0.25)
        self.over.set()
        self.ended_s = self.now_s
        for thread in (*threads, watcher):
            thread.join()
        self.load.join()
        look()

    def watch_once(self) -> None:
        try:
            progress = self.shop.progress()
        except AWAY:
            progress = None
        self.samples.append(Sample(self.now_s, progress))

    def _watch(self) -> None:
        while not self.over.is_set():
            self.watch_once()
            self.over.wait(SAMPLE_S)

    def _fall(self, fault: Fault) -> None:
        if self.over.wait(max(0.0, fault.at_s - self.now_s)):
            return
        fallen = Fallen(fault, self.now_s)
        self.fallen.append(fallen)
        try:
            fallen.said = faults.fall(faults.Hands(self.control, self.shop.places, self.over), fault)
        except (faults.Missed, *faults.AWAY) as why:  # or the thread would end, and the fault count as fallen
            fallen.said, fallen.missed = f"missed: {why}", True
        fallen.ended_s = self.now_s
