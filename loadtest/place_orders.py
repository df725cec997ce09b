"""Places and confirms orders from the terminal, through the same HTTP API as everybody: `make order N=100`.

Every request is written to .run/ledger.jsonl before it is sent, and so is its outcome.
"""

import argparse
import os
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from loadtest.customer import Customer, GaveUp, some_order
from loadtest.ledger import Ledger


@dataclass
class Fared:
    placed: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    took_s: float = 0.0
    customers: list[Customer] = field(default_factory=list)


def run(url: str, count: int, *, at_once: int, rate: float | None, console: Console) -> Fared:
    fared, started, turns = Fared(), time.monotonic(), Turns(count, rate)
    columns = (TextColumn("orders"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with closing(Ledger()) as ledger, Progress(*columns, console=console) as bar:
        fared.customers = [Customer(url, ledger) for _ in range(max(1, min(at_once, count)))]
        products = fared.customers[0].products()
        shown = bar.add_task("orders", total=count)

        def buy(customer: Customer) -> None:
            while next(turns, None) is not None:
                try:
                    order_id = customer.place(some_order(products))
                    fared.placed.append(order_id)
                    customer.confirm(order_id)
                    fared.confirmed.append(order_id)
                except GaveUp as error:
                    fared.failed.append(str(error))
                bar.advance(shown)
            customer.close()

        with ThreadPoolExecutor(len(fared.customers)) as pool:
            list(pool.map(buy, fared.customers))
    fared.took_s = time.monotonic() - started
    return fared


class Turns:
    """Numbers for the threads, each at its time. (A generator could not be shared.)"""

    def __init__(self, count: int, rate: float | None) -> None:
        self._lock, self._numbers = threading.Lock(), iter(range(count))
        self._rate, self._started = rate, time.monotonic()

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        with self._lock:
            number = next(self._numbers)
        if self._rate:
            time.sleep(max(0.0, self._started + number / self._rate - time.monotonic()))
        return number


def report(fared: Fared, url: str, console: Console) -> None:
    seconds = sorted(second for customer in fared.customers for second in customer.seconds)
    retried = sum(customer.retries for customer in fared.customers)
    console.print(
        f"{len(fared.placed)} placed, {len(fared.confirmed)} confirmed, {retried} requests retried,"
        f" {len(fared.failed)} failed in {fared.took_s:.1f} s ({len(fared.confirmed) / fared.took_s:.0f} orders/s)"
    )
    if len(seconds) > 1:
        p99 = statistics.quantiles(seconds, n=100, method="inclusive")[98]
        console.print(f"per request: p50 {statistics.median(seconds) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms")
    for sentence in sorted(set(fared.failed))[:5]:
        console.print(f"[red]{sentence}[/]")
    if fared.confirmed:
        console.print(f"The last one: {url}/orders/{fared.confirmed[-1]}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loadtest.place_orders", description=__doc__)
    parser.add_argument("--count", type=int, default=1, help="how many orders (default: 1)")
    parser.add_argument("--rate", type=float, help="orders per second (default: as fast as they are answered)")
    parser.add_argument("--at-once", type=int, default=8, help="customers at the same time (default: 8)")
    parser.add_argument("--url", default=os.environ.get("ORDERS_URL"), help="of orders-api (default: ORDERS_URL)")
    given = parser.parse_args()
    if not given.url:
        parser.error("where is orders-api? --url or ORDERS_URL; make order knows")
    console, url = Console(), given.url.rstrip("/")
    try:
        fared = run(url, given.count, at_once=given.at_once, rate=given.rate, console=console)
    except GaveUp:
        raise SystemExit(f"{url} does not answer: make up") from None
    report(fared, url, console)
    raise SystemExit(1 if fared.failed else 0)


if __name__ == "__main__":
    main()
