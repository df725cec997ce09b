"""The ledger: are there as many effects as orders? And if not yet, what is still on its way?"""

from dataclasses import dataclass
from typing import Literal

PATIENCE_S = 20.0
"""The figures are asked at different moments: only a difference that stays, with nothing in flight, is one."""


@dataclass(frozen=True)
class Ledger:
    orders: int
    delivered: int
    duplicates: int
    delivered_to_analytics: int
    duplicates_in_analytics: int
    invoices: int
    pdfs: int
    mails: int
    undeliverable: int
    counted: int

    def is_equal(self) -> bool:
        """An address that refuses mail for good has got as far as it ever will."""
        return self.orders == self.invoices == self.pdfs == self.mails + self.undeliverable == self.counted


@dataclass(frozen=True)
class InFlight:
    to_publish: int
    to_bill: int
    """Records on the topic that Billing has not settled; they may be copies."""
    to_count: int
    to_render: int
    to_mail: int

    def words(self) -> list[str]:
        """In the order of the way."""
        parts = (
            (self.to_publish, "to publish"),
            (self.to_bill, "to read by Billing"),
            (self.to_count, "to read by Analytics"),
            (self.to_render, "to render"),
            (self.to_mail, "to mail"),
        )
        return [f"{number:,} {name}" for number, name in parts if number]


Kind = Literal["equal", "flight", "counting", "parked", "differs"]


def verdict(ledger: Ledger, flight: InFlight, letters: int, settled_for_s: float) -> tuple[Kind, str]:
    """What the page says in large letters."""
    if words := flight.words():
        return "flight", "In flight: " + " · ".join(words)
    if ledger.is_equal():
        if ledger.orders == 0:
            return "equal", "No orders yet"
        return "equal", "Settled, and equal"
    if settled_for_s < PATIENCE_S:
        return "counting", "Settled; counting once more"
    if letters:
        return "parked", f"Settled; {letters:,} event(s) wait in dead letters for a decision"
    return "differs", "Settled, but not equal: something was lost or doubled. make audit names it"
