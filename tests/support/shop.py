"""Small consumers to break: like billing (gapless numbers, a task), like analytics (counters), and the inventory of the
tutorial's last chapter.

Run as real processes: `python -m tests.support.shop billing`, told the rest by the environment.
"""

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson
import psycopg
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from examples.inventory import reserve
from shared.contracts import CONTRACTS
from shared.messaging import outbox, replica_slot, tasks
from shared.messaging.consumer import SESSION, ConsumerSettings, InboxConsumer
from shared.messaging.errors import Permanent
from shared.messaging.handlers import Handlers
from shared.messaging.records import Received
from shared.runtime import database, failpoints, logs
from shared.runtime.loop import Pulse, Stop, run_forever
from tests.support import streams
from tests.support.processes import Child

BILLING_TABLES = """
CREATE TABLE series (series integer PRIMARY KEY, next_number bigint NOT NULL);
CREATE TABLE invoices (
    series integer NOT NULL, number bigint NOT NULL, order_id uuid NOT NULL UNIQUE, event_id uuid NOT NULL UNIQUE,
    customer text NOT NULL, lines jsonb NOT NULL, total bigint NOT NULL, PRIMARY KEY (series, number));
"""
ANALYTICS_TABLES = """
CREATE TABLE counted (order_id uuid PRIMARY KEY);
CREATE TABLE sales (sku text PRIMARY KEY, orders bigint NOT NULL, total bigint NOT NULL);
"""


class AlreadyInvoiced(Permanent):
    """This order has an invoice."""

    reason = "already-invoiced"


TAKE_NUMBERS = """
INSERT INTO series AS s (series, next_number) VALUES (%s, 1 + %s)
ON CONFLICT (series) DO UPDATE SET next_number = s.next_number + %s RETURNING next_number - %s
"""
INVOICE = """
INSERT INTO invoices (series, number, order_id, event_id, customer, lines, total)
SELECT * FROM unnest(%s::int[], %s::bigint[], %s::uuid[], %s::uuid[], %s::text[], %s::jsonb[], %s::bigint[])
"""


def invoice(session: Session, received: Sequence[Received]) -> None:
    """A block of numbers per series, in the transaction: a rollback burns none."""
    connection = session.connection()
    orders = [r.event.data.order_id for r in received]
    known = connection.exec_driver_sql("SELECT order_id FROM invoices WHERE order_id = ANY(%s)", (orders,))
    if known.first() or len(set(orders)) < len(orders):
        raise AlreadyInvoiced
    for r in received:
        if any(line.sku == "kill" for line in r.event.data.lines):
            os.kill(os.getpid(), 9)
        if any(line.sku == "bug" for line in r.event.data.lines):
            raise ZeroDivisionError("a bug")
    by_series = defaultdict(list)
    for r in received:
        by_series[r.partition].append(r)
    for series in sorted(by_series):
        some = by_series[series]
        count = len(some)
        first = connection.exec_driver_sql(TAKE_NUMBERS, (series, count, count, count)).scalar_one()
        connection.exec_driver_sql(
            INVOICE,
            (
                [series] * count,
                list(range(first, first + count)),
                [r.event.data.order_id for r in some],
                [r.event.id for r in some],
                [r.event.data.customer.name for r in some],
                [orjson.dumps([line.model_dump() for line in r.event.data.lines]).decode() for r in some],
                [r.event.data.total for r in some],
            ),
        )
    tasks.add(session, "invoice.render", {r.event.subject: {"order_id": r.event.subject} for r in received})


def count(session: Session, received: Sequence[Received]) -> None:
    connection = session.connection()
    orders = sorted(r.event.data.order_id for r in received)
    connection.exec_driver_sql("INSERT INTO counted SELECT * FROM unnest(%s::uuid[])", (orders,))
    number: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for r in received:
        for line in r.event.data.lines:
            number[line.sku] += 1
            total[line.sku] += line.quantity * line.unit_price
    skus = sorted(number)
    connection.exec_driver_sql(
        """INSERT INTO sales AS s SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[])
           ON CONFLICT (sku) DO UPDATE SET orders = s.orders + excluded.orders, total = s.total + excluded.total""",
        (skus, [number[sku] for sku in skus], [total[sku] for sku in skus]),
    )


IMPATIENT_S = 2
"""How long a process that is silent keeps its place in the group, and its replica slot."""
INVENTORY_TABLES = Path(reserve.__file__).with_name("tables.sql").read_text()
TABLES = {"billing": BILLING_TABLES, "analytics": ANALYTICS_TABLES, "inventory": INVENTORY_TABLES}
HANDLERS: dict[str, Handlers] = {
    "billing": {"orders.confirmed": invoice},
    "analytics": {"orders.confirmed": count},
    "inventory": reserve.HANDLERS,
}
BILLING_HANDLERS = HANDLERS["billing"]


def applied(kind: str, url: str) -> list[str]:
    """The orders whose effect is there, after checking that the effects agree with each other."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # one moment for all questions
        if kind == "billing":
            rows = connection.execute("SELECT order_id, series, number FROM invoices").fetchall()
            for series in {row[1] for row in rows}:
                numbers = sorted(row[2] for row in rows if row[1] == series)
                assert numbers == list(range(1, len(numbers) + 1)), f"series {series} has gaps: {numbers}"
            asked = connection.execute("SELECT key FROM tasks").fetchall()
            assert sorted(str(row[0]) for row in rows) == sorted(row[0] for row in asked), "a task per invoice"
        elif kind == "inventory":
            rows = connection.execute("SELECT order_id FROM reservations").fetchall()
            reserved = connection.execute("SELECT coalesce(sum(reserved), 0) FROM stock").fetchone()
            assert reserved == (len(rows),), "a unit of stock per order"
        else:
            rows = connection.execute("SELECT order_id FROM counted").fetchall()
            counted = connection.execute("SELECT coalesce(sum(orders), 0) FROM sales").fetchone()
            assert counted == (len(rows),), "the counter agrees with the orders counted"
    return sorted(str(row[0]) for row in rows)


def confirm(url: str, topic: str, count: int) -> list[str]:
    """What Orders does, in small: events in its outbox, committed. The orders' ids."""
    engine = database.engine(url, "tests")
    events = [streams.order() for _ in range(count)]
    with Session(engine) as session, session.begin():
        for event in events:
            outbox.add(session, event, topic=topic, key=event.subject, contracts=CONTRACTS)
    engine.dispose()
    return [event.subject for event in events]


def consumer(kind: str, name: str, engine: Engine, kafka: str, topic: str, **settings: object) -> InboxConsumer:
    given = ConsumerSettings(name, (topic,), kafka, **{"poll_ms": 100, **settings})  # type: ignore[arg-type]
    return InboxConsumer(given, engine, HANDLERS[kind], CONTRACTS)


def make_impatient(url: str) -> None:
    """What the roles of the services say in minutes and seconds, in less: a stopped process is soon given up."""
    limits = {"idle_in_transaction_session_timeout": "1s", "lock_timeout": "1s", "transaction_timeout": "10s"}
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in limits.items():
            connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {name} = '{value}'".encode())


@contextmanager
def consumer_process(
    kind: str, name: str, url: str, kafka: str, topic: str, *, failpoints: str = "", max_attempts: int = 5
) -> Iterator[Child]:
    environment = {"CONSUMER": name, "DATABASE_URL": url, "KAFKA": kafka, "TOPIC": topic}
    environment |= {"FAILPOINTS": failpoints, "MAX_ATTEMPTS": str(max_attempts)}
    with Child.started("tests.support.shop", kind, **environment) as child:
        yield child


def main() -> None:
    kind, environment = sys.argv[1], os.environ
    name = environment["CONSUMER"]
    logs.configure(name)
    failpoints.configure(environment.get("FAILPOINTS", ""), environment.get("FAILPOINTS_DIR", ""))
    stop = Stop.on_signals()
    replica_slot.IDLE_LIMIT_S = IMPATIENT_S
    running = consumer(
        kind, name, database.engine(environment["DATABASE_URL"], name, options=SESSION), environment["KAFKA"],
        environment["TOPIC"], batch_size=10, session_timeout_ms=1000 * IMPATIENT_S, retry_limit_s=0.5,
        max_attempts=int(environment["MAX_ATTEMPTS"]),
    )  # fmt: skip
    with running:
        run_forever(running.step, stop, Pulse(60), idle_s=0)


if __name__ == "__main__":
    main()
