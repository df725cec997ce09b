"""One look a second at everything, for everybody who watches.

does    a thread of the server samples, keeps the last 15 minutes, and hands each sample to the hub
reads   three databases, the topic's ends, the mailbox's count, every process's operations port
writes  nothing
next    hub.py (to the browsers), questions.py (what a sample costs)
"""

import threading
import time
from collections import deque
from typing import Any

import psycopg

from services.control_room import figures
from services.control_room.audit import mailbox
from services.control_room.broker import Broker, KafkaAway
from services.control_room.figures import Answered
from services.control_room.following import Followed
from services.control_room.hub import Hub
from services.control_room.journal import Journal
from services.control_room.ledger import Ledger, verdict
from services.control_room.naive import NaiveShop
from services.control_room.newest import Newest
from services.control_room.processes import Processes
from services.control_room.questions import Answers, Connections
from services.control_room.settings import PlacesSettings
from shared.runtime import logs

EVERY_S = 1.0
HISTORY_S = 900
RATE_OVER_S = 5.0
COUNTERS = ("orders", "published", "read_by_billing", "read_by_analytics", "invoices", "pdfs", "mails", "counted")

Sample = dict[str, Any]


class Sampler:
    def __init__(
        self, places: PlacesSettings, processes: Processes, journal: Journal, hub: Hub, naive: NaiveShop
    ) -> None:
        self._places, self._processes, self._journal, self._hub, self._naive = places, processes, journal, hub, naive
        urls = {name: places.database_url(name) for name in ("orders", "billing", "analytics")}
        self._connections = Connections(urls, "control-room-sampler")
        self._broker = Broker(places.kafka_bootstrap, places.topic)
        self._answers, self._followed, self._newest = Answers(), Followed(), Newest()
        self._servers: dict[str, str] = {}
        self._ends: dict[int, int] = {}
        self._mailbox = 0
        self._known: Sample = {}
        self._unsettled_at = time.monotonic()
        self._counted: deque[tuple[float, dict[str, int]]] = deque()
        self.history: deque[list[Any]] = deque(maxlen=HISTORY_S)

    def start(self) -> None:
        threading.Thread(target=self._run, name="sampler", daemon=True).start()

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self._hub.publish(self.sample())
            except Exception as error:  # noqa: BLE001  a page that stands still must not be the last that is heard
                logs.get().error("sample failed", exc_info=error)
            self._hub.wait(max(0.1, EVERY_S - (time.monotonic() - began)))

    def sample(self) -> Sample:
        self._processes.look()
        self._ask_kafka()
        self._ask_mailbox()
        self._ask_databases()
        sample = {
            "at": round(time.time(), 1),
            "processes": self._processes.shown(),
            "servers": dict(self._servers),
            "journal": self._journal.entries()[-30:],
            "naive": self._naive.latest,
            **self._known,
        }
        self._remember(sample)
        return sample

    def _ask_kafka(self) -> None:
        try:
            self._ends = self._broker.ends()
            self._servers["kafka"] = "up"
        except KafkaAway:
            self._servers["kafka"] = "down"

    def _ask_mailbox(self) -> None:
        try:
            self._mailbox = mailbox.count(self._places.mail_url)
            self._servers["mail"] = "up"
        except (OSError, ValueError, KeyError):
            self._servers["mail"] = "down"

    def _ask_databases(self) -> None:
        """While a database is away the last figures stand, and the page says that they are old."""
        try:
            answers = self._answers.refresh(self._connections.ask)
            latency = self._followed.step(self._connections.rows)
            newest = self._newest.step(self._connections.rows)
            self._servers["postgres"] = "up"
        except psycopg.Error:
            self._servers["postgres"] = "down"
            return
        if answers is not None:
            self._known = self._figures(answers) | {"latency": latency, "newest": newest}

    def _figures(self, answers: Answered) -> Sample:
        ledger, partitions = figures.ledger(answers), figures.partitions(answers, self._ends)
        lag, letters = figures.lag(partitions), figures.letters(answers)
        flight = figures.in_flight(answers, lag)
        if flight.words():
            self._unsettled_at = time.monotonic()
        kind, says = verdict(ledger, flight, sum(letters.values()), time.monotonic() - self._unsettled_at)
        return {
            "verdict": {"kind": kind, "says": says},
            "ledger": vars(ledger),
            "flight": vars(flight),
            "partitions": partitions,
            "lag": lag,
            "letters": letters,
            "oldest_s": round(answers["outbox"]["oldest_s"], 1),
            "mailbox": {"copies": self._mailbox, "unknown_outcomes": answers["outcomes"]["unknown_outcomes"]},
            "rates": self._rates(ledger, partitions),
        }

    def _rates(self, ledger: Ledger, partitions: list[dict[str, int]]) -> dict[str, float]:
        """What was read is told by the offsets, which are asked every second; the inbox is summed up less often."""
        now = time.monotonic()
        ends, billing, analytics = (sum(p[name] for p in partitions) for name in ("end", "billing", "analytics"))
        counts = {**vars(ledger), "published": ends, "read_by_billing": billing, "read_by_analytics": analytics}
        self._counted.append((now, counts))
        while now - self._counted[0][0] > RATE_OVER_S:
            self._counted.popleft()
        then, before = self._counted[0]
        elapsed = max(now - then, EVERY_S)
        return {name: round(max(0, counts[name] - before[name]) / elapsed, 1) for name in COUNTERS}

    def _remember(self, sample: Sample) -> None:
        if "ledger" not in sample:
            return
        rates, latency, lag = sample["rates"], sample["latency"], sample["lag"]
        row = [
            sample["at"],
            rates["orders"],
            rates["read_by_billing"],
            rates["mails"],
            lag["billing"],
            lag["analytics"],
        ]
        self.history.append(
            [*row, latency["invoice_p50"], latency["invoice_p99"], latency["mail_p50"], latency["mail_p99"]]
        )


COLUMNS = ("at", "orders", "read_by_billing", "mails", "lag_billing", "lag_analytics",
           "invoice_p50", "invoice_p99", "mail_p50", "mail_p99")  # fmt: skip
