"""Customers who order at a steady rate and have patience; what they asked and were told goes into the ledger."""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from loadtest.customer import Customer, GaveUp
from loadtest.ledger import Ledger
from loadtest.place_orders import Turns

CUSTOMERS = 24
"""At once: enough that an outage of some seconds is made good afterwards, not lost as silence."""

Buy = Callable[[Customer], str]


@dataclass
class Load:
    url: str
    rate: float
    duration_s: float
    buy: Buy
    ledger: Path
    over: threading.Event
    bought: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    _book: Ledger = field(init=False)
    _threads: list[threading.Thread] = field(default_factory=list)
    _customers: list[Customer] = field(default_factory=list)

    @property
    def retries(self) -> int:
        return sum(customer.retries for customer in self._customers)

    @property
    def wanted(self) -> int:
        return round(self.rate * self.duration_s)

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        turns, self._book = Turns(self.wanted, self.rate), Ledger(self.ledger)
        self._customers = [Customer(self.url, self._book) for _ in range(CUSTOMERS)]
        self._threads = [threading.Thread(target=self._shop, args=(c, turns)) for c in self._customers]
        for thread in self._threads:
            thread.start()

    def _shop(self, customer: Customer, turns: Turns) -> None:
        with closing(customer):
            for _turn in turns:
                if self.over.is_set():
                    return
                try:
                    self.bought.append(self.buy(customer))
                except GaveUp as error:
                    self.failed.append(str(error))
                except Exception as error:  # noqa: BLE001  who vanishes in silence proves nothing
                    self.failed.append(repr(error))

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        self._book.close()
