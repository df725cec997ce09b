"""What is put under stress: how its customers order, what may break, and how far everything has come."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtest.chaos.schedule import Kind
from loadtest.customer import Customer, some_order
from loadtest.ledger import Ledger
from services.control_room.audit import audit, naive, settling
from services.control_room.audit.verdicts import Verdicts
from services.control_room.settings import PlacesSettings

SESSION_S = (8.0, 10.0)
"""A sleep longer than the consumers' session time-out of 6 s, and than the limits of the database's roles."""
MAIL = (
    Kind("kill-mail", ("mail",), weight=2),
    Kind("mail-refuses", ("mail",), weight=2, lasts_s=(4.0, 8.0)),
    Kind("mail-drops", ("mail",), weight=2, lasts_s=(4.0, 8.0)),
)
SERVERS = (
    Kind("kill-postgres", ("postgres",), weight=1),
    Kind("kill-kafka", ("kafka",), weight=1),
)
PROCESSES = ("orders-api", "orders-relay", "billing-consumer", "billing-worker", "billing-reconciler", "billing-api",
             "analytics-consumer", "analytics-api", "housekeeping", "control-room")  # fmt: skip
KINDS = (
    Kind("kill", PROCESSES, weight=10),
    Kind("pause", ("orders-relay", "billing-consumer", "billing-worker", "analytics-consumer"), 4, SESSION_S),
    Kind("hiccup", ("orders-api",), weight=2, lasts_s=(1.0, 3.0)),
    Kind("replica", ("orders-relay", "billing-consumer", "billing-worker", "analytics-consumer"), 4, (8.0, 14.0)),
    Kind("duplicate", ("orders.confirmed",)),
    Kind("replay", ("orders.confirmed",), weight=2),
    *MAIL,
    *SERVERS,
)


@dataclass(frozen=True)
class Progress:
    """How far the orders have come, since the beginning of time."""

    ordered: int
    invoiced: int
    mailed: int
    counted: int
    in_flight: int


@dataclass(frozen=True)
class Shop:
    name: str
    option: str
    """Of make chaos: what asks for this shop."""
    url: str
    places: PlacesSettings
    ledger: Path
    kinds: tuple[Kind, ...]
    buy: Callable[[Customer], str]
    progress: Callable[[], Progress]
    settle: Callable[[float, Callable[[str], None]], bool]
    audit: Callable[[], Verdicts]


def the_shop(url: str, places: PlacesSettings) -> Shop:
    ledger = Path(places.ledger)
    products = _products(url, ledger)

    def buy(customer: Customer) -> str:
        order_id = customer.place(some_order(products))
        customer.confirm(order_id)
        return order_id

    def progress() -> Progress:
        now = settling.counts(places)
        return Progress(now.confirmed, now.invoiced, now.invoiced - now.unsent, now.counted, now.in_flight.total)

    return Shop(
        "shop", "", url, places, ledger, KINDS, buy, progress,
        settle=lambda limit_s, say: settling.settle(places, limit_s, lambda now: say(f"in flight: {now}")),
        audit=lambda: audit.run(places),
    )  # fmt: skip


def _products(url: str, ledger: Path) -> list[dict[str, Any]]:
    with closing(Ledger(ledger)) as book, closing(Customer(url, book)) as customer:
        return customer.products()


NAIVE_TOPIC = "orders.naive"
NAIVE_KINDS = (
    Kind("kill", ("naive-orders", "naive-billing"), weight=8),
    Kind("pause", ("naive-billing",), weight=3, lasts_s=SESSION_S),
    Kind("hiccup", ("naive-orders",), weight=2, lasts_s=(1.0, 3.0)),
    Kind("replica", ("naive-billing",), weight=3, lasts_s=(8.0, 14.0)),
    Kind("naive-duplicate", (NAIVE_TOPIC,)),
    Kind("naive-replay", (NAIVE_TOPIC,), weight=2),
    *MAIL,
    *SERVERS,
)


def the_naive_shop(url: str, places: PlacesSettings) -> Shop:
    """It has one step fewer: an order is confirmed when it is placed. And nobody counts."""
    ledger = Path(places.naive_ledger)
    products = _products(url, ledger)
    mails_before = naive.counts(places)[2]

    def progress() -> Progress:
        orders, invoices, mails = naive.counts(places)
        return Progress(orders, invoices, mails - mails_before, 0, max(0, orders - invoices))

    return Shop(
        "naive shop", "NAIVE=1 ", url, places.model_copy(update={"topic": NAIVE_TOPIC}), ledger, NAIVE_KINDS,
        buy=lambda customer: customer.place(some_order(products)),
        progress=progress,
        settle=lambda limit_s, say: naive.settle(places, limit_s, say),
        audit=lambda: naive.run(places),
    )  # fmt: skip
