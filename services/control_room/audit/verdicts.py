"""What the audit has to say: one verdict per promise, with counts, the first offenders, and how many more there are."""

from collections.abc import Iterator
from dataclasses import dataclass, field

KEPT = 1000
"""Offenders, and notes, of a promise: memory stays flat whatever is broken, and `broken` and `noted` count on."""
TOLD = 10


@dataclass
class Verdict:
    promise: str
    checked: int = 0
    broken: int = 0
    offenders: list[str] = field(default_factory=list)
    noted: int = 0
    notes: list[str] = field(default_factory=list)

    def check(self, holds: bool, offender: object, why: str = "") -> bool:
        self.checked += 1
        if not holds:
            self.broken += 1
            if len(self.offenders) < KEPT:
                self.offenders.append(f"{offender} {why}".strip())
        return holds

    def note(self, sentence: str) -> None:
        """No broken promise, but somebody should know."""
        self.noted += 1
        if len(self.notes) < KEPT:
            self.notes.append(sentence)

    def told(self, *, notes: int = 2 * TOLD) -> list[str]:
        """For a person: the first of each, and how many more there are."""
        return [*_first(self.offenders, self.broken, TOLD), *_first(self.notes, self.noted, notes)]

    @property
    def holds(self) -> bool:
        return self.broken == 0


def _first(lines: list[str], count: int, most: int) -> list[str]:
    return [*lines[:most], *([f"and {count - most:,} more"] if count > most else [])]


@dataclass
class Verdicts:
    """The promises, in the order in which an order meets them."""

    one_event: Verdict = field(default_factory=lambda: Verdict("a confirmed order has one event, a draft none"))
    published: Verdict = field(default_factory=lambda: Verdict("nothing waits to be published"))
    on_topic: Verdict = field(default_factory=lambda: Verdict("every published event is on the topic"))
    same_bytes: Verdict = field(default_factory=lambda: Verdict("the topic holds what Orders wrote, or it is parked"))
    billing_inbox: Verdict = field(default_factory=lambda: Verdict("Billing knows every event, once"))
    analytics_inbox: Verdict = field(default_factory=lambda: Verdict("Analytics knows every event, once"))
    one_invoice: Verdict = field(default_factory=lambda: Verdict("a confirmed order has one invoice"))
    amounts: Verdict = field(default_factory=lambda: Verdict("invoice and order agree in every amount"))
    gapless: Verdict = field(default_factory=lambda: Verdict("invoice numbers have no gap"))
    one_pdf: Verdict = field(default_factory=lambda: Verdict("an invoice has one PDF, and it is unchanged"))
    mailed: Verdict = field(default_factory=lambda: Verdict("an invoice was mailed under one Message-ID"))
    copies: Verdict = field(default_factory=lambda: Verdict("copies in the mailbox ≤ 1 + unknown outcomes"))
    counted: Verdict = field(default_factory=lambda: Verdict("a confirmed order is counted once"))
    sums: Verdict = field(default_factory=lambda: Verdict("sales figures equal the orders' sums"))
    orphans: Verdict = field(default_factory=lambda: Verdict("no invoice, mail or count without an order"))
    acknowledged: Verdict = field(default_factory=lambda: Verdict("what a client was told is there"))
    one_order_per_key: Verdict = field(default_factory=lambda: Verdict("no Idempotency-Key has two orders"))
    tasks: Verdict = field(default_factory=lambda: Verdict("no task is dead or leased for ever"))
    parked: Verdict = field(default_factory=lambda: Verdict("whatever is parked is named"))

    judged: tuple[str, ...] = ()
    """Empty: all of them."""

    def __iter__(self) -> Iterator[Verdict]:
        yield from self.named.values()

    @property
    def named(self) -> dict[str, Verdict]:
        promises = {name: verdict for name, verdict in vars(self).items() if isinstance(verdict, Verdict)}
        return {name: promises[name] for name in self.judged or promises}

    @property
    def hold(self) -> bool:
        return all(verdict.holds for verdict in self)
