"""What is seen of one run, from the first shopper to the last; at the end a file for afterwards.py."""

import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loadtest.shapes import Step, Window


@dataclass
class Asked:
    """One kind of request, in Locust's figures."""

    name: str
    count: int
    failed: int
    per_s: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    longest_ms: float


@dataclass
class Sample:
    """The control room's look at the pipeline."""

    at_s: float
    orders: int
    invoices: int
    mails: int
    counted: int
    to_publish: int
    lag: int
    """Events that are not published, and records that the slower consumer has not read."""
    queue: int
    """Invoices without their mail: documents to make, mails to send."""
    duplicates: int
    mail_p50_s: float | None = None


@dataclass
class Run:
    shape: str
    rate: float
    shoppers: int
    minutes: float
    drain_s: float
    started: float = field(default_factory=time.time)
    ended: float = 0.0
    bought: list[tuple[float, float]] = field(default_factory=list)
    """(second of the run, seconds of place + confirm)"""
    read: list[float] = field(default_factory=list)
    """Seconds from the answer to the confirmation until a customer has read that the invoice is there."""
    failures: dict[str, int] = field(default_factory=dict)
    failed_at: list[float] = field(default_factory=list)
    asked_again: int = 0
    asked: list[Asked] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    maximum: float | None = None
    first_failed: float | None = None
    half_since_s: float | None = None
    """Of a search for the limit: from then on it ran at half of the highest rate that holds."""

    @property
    def now_s(self) -> float:
        return time.time() - self.started

    @property
    def lasted_s(self) -> float:
        return self.ended - self.started

    @property
    def lag(self) -> int:
        return self.samples[-1].lag if self.samples else 0

    def since(self, at_s: float) -> Window:
        took = [seconds for at, seconds in self.bought if at >= at_s]
        failed = sum(at >= at_s for at in self.failed_at)
        return Window(max(self.now_s - at_s, 0.001), len(took), failed, percentile(took, 0.99))

    def failed(self, what: str) -> None:
        self.failures[what] = self.failures.get(what, 0) + 1
        self.failed_at.append(self.now_s)

    def took_note(self, told: dict[str, Any]) -> Sample | None:
        """Of a sample of the control room; while a database is away it has no figures."""
        if "flight" not in told:
            return None
        ledger, flight = told["ledger"], told["flight"]
        behind = flight["to_publish"] + max(flight["to_bill"], flight["to_count"])
        queue = flight["to_render"] + flight["to_mail"]
        sample = Sample(
            round(self.now_s, 1), ledger["orders"], ledger["invoices"], ledger["mails"], ledger["counted"],
            flight["to_publish"], behind, queue, ledger["duplicates"] + ledger["duplicates_in_analytics"],
            told["latency"]["mail_p50"],
        )  # fmt: skip
        self.samples.append(sample)
        return sample

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)))
        return path


def read(path: Path) -> Run:
    told = json.loads(path.read_text())
    made = Run(**told)
    made.bought = [(at, seconds) for at, seconds in told["bought"]]
    made.asked = [Asked(**asked) for asked in told["asked"]]
    made.samples = [Sample(**sample) for sample in told["samples"]]
    made.steps = [Step(**step) for step in told["steps"]]
    return made


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def stream(control_room: str) -> Iterator[dict[str, Any]]:
    """A sample a second, as the control room's page sees them, until the stream ends."""
    with urllib.request.urlopen(f"{control_room}/v1/stream", timeout=60) as lines:  # noqa: S310  our own address
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
