"""The whole native stack: up, broken on purpose, healthy again by itself, down without a trace."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy.orm import Session

from infra.native import preflight
from infra.native.stack import CannotStart, Stack
from infra.native.supervise import leftovers
from shared.contracts import CONTRACTS
from shared.messaging import outbox
from shared.runtime import database
from tests.support import streams
from tests.support.stacks import SECRETS, temporary_stack

pytestmark = pytest.mark.timeout(420)
HEALTHY_AGAIN_S = 30


CALLERS = {"CALLERS_SECRET": "not-a-secret-in-a-test", "GUNICORN_CMD_ARGS": "--threads 1", "REPLICA": "7"}
"""What somebody has exported who starts the stack: a key, and names that our processes would listen to."""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with temporary_stack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in CALLERS.items():
                patch.setenv(name, value)
            stack.up()
        yield stack


def ill(stack: Stack) -> dict[str, str]:
    running = [program for program in stack.plan.programs.values() if not program.is_step]
    return {program.name: problem for program in running if (problem := stack.problem(program))}


def eventually(what: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.2)


def all_healthy_within(stack: Stack, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while problems := ill(stack):
        assert time.monotonic() < deadline, f"after {seconds} s: {problems}"


def test_every_process_is_healthy(stack: Stack) -> None:
    assert ill(stack) == {}


def test_no_process_sees_what_its_caller_has_exported(stack: Stack) -> None:
    processes = leftovers(stack.run)
    assert len(processes) > len(stack.plan.programs) / 2
    seen = {(" ".join(process.cmdline()), name) for process in processes for name in CALLERS.keys() & process.environ()}
    assert seen == set()


def url_of(stack: Stack, database: str) -> str:
    port = stack.plan.programs["postgres"].published[0]
    return f"postgresql://{database}:{SECRETS[f'{database.upper()}_DB_PASSWORD']}@127.0.0.1:{port}/{database}"


def confirm(stack: Stack, count: int) -> list[str]:
    """Orders' transaction, in small: the events in its outbox, committed."""
    engine = database.engine(url_of(stack, "orders"), "tests")
    confirmed = [streams.order() for _ in range(count)]
    with Session(engine) as session, session.begin():
        for event in confirmed:
            outbox.add(session, event, topic=event.type, key=event.subject, contracts=CONTRACTS)
    engine.dispose()
    return sorted(event.subject for event in confirmed)


def effects(stack: Stack) -> tuple[list[str], list[str]]:
    with psycopg.connect(url_of(stack, "billing")) as billing, psycopg.connect(url_of(stack, "analytics")) as analytics:
        invoiced = billing.execute("SELECT order_id::text FROM invoices ORDER BY 1").fetchall()
        counted = analytics.execute("SELECT order_id::text FROM counted_orders ORDER BY 1").fetchall()
    return [order for (order,) in invoiced], [order for (order,) in counted]


def test_confirmed_orders_are_invoiced_and_counted_once_although_every_process_is_killed(stack: Stack) -> None:
    confirmed = confirm(stack, 50)
    for name in ("orders-relay", "billing-consumer", "analytics-consumer"):
        stack.kill(name)
        confirmed += confirm(stack, 50)
    eventually(lambda: effects(stack) == (sorted(confirmed), sorted(confirmed)), 30)
    with psycopg.connect(url_of(stack, "orders"), autocommit=True) as orders:
        assert outbox.republish(orders, datetime.now(UTC) - timedelta(hours=1)) == 200
    billing = url_of(stack, "billing")
    delivered_twice = "SELECT count(*) FROM inbox WHERE deliveries >= 2"
    eventually(lambda: streams.scalar(billing, delivered_twice) == 200, 30)
    assert effects(stack) == (sorted(confirmed), sorted(confirmed))


def test_a_second_up_is_quick_and_starts_nothing_anew(stack: Stack) -> None:
    before = {name: info["pid"] for name, info in stack.supervisor.states().items()}
    began = time.monotonic()
    stack.up()
    assert time.monotonic() - began < 20
    assert {name: info["pid"] for name, info in stack.supervisor.states().items()} == before


def kill_and_await(stack: Stack, name: str) -> None:
    old = stack.supervisor.states()[name]["pid"]
    os.kill(old, signal.SIGKILL)
    eventually(lambda: stack.supervisor.states()[name]["pid"] not in (0, old), 10)
    all_healthy_within(stack, HEALTHY_AGAIN_S)


def test_each_process_comes_back_by_itself_after_kill_9(stack: Stack) -> None:
    for name in stack.supervisor.states():
        kill_and_await(stack, name)


def test_a_process_whose_loop_stands_still_is_ill(stack: Stack) -> None:
    relay = psutil.Process(stack.supervisor.states()["orders-relay"]["pid"])
    relay.suspend()
    try:
        assert "orders-relay" in ill(stack)
    finally:
        relay.resume()
    all_healthy_within(stack, 10)


def test_stop_and_start(stack: Stack) -> None:
    stack.stop("billing-worker")
    assert list(ill(stack)) == ["billing-worker"]
    stack.start("billing-worker")
    assert ill(stack) == {}


def test_a_name_that_does_not_exist_is_answered_with_those_that_do(stack: Stack) -> None:
    with pytest.raises(CannotStart, match="there are: postgres, kafka, mail"):
        stack.kill("postgrse")


def test_no_password_is_in_a_log(stack: Stack) -> None:
    for log in (stack.run / "logs").iterdir():
        assert stack.variables["ORDERS_DB_PASSWORD"] not in log.read_text(errors="replace"), log.name


def test_after_kill_9_of_everything_it_starts_again_and_goes_without_a_trace(stack: Stack) -> None:
    supervisor = psutil.Process(int(stack.supervisor.call("getPID")))
    servers = [stack.supervisor.states()[name]["pid"] for name in ("postgres", "kafka")]
    supervisor.kill()
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
    stack.up()
    assert ill(stack) == {}
    stack.down()
    assert leftovers(stack.run) == []
    assert preflight.taken_ports(stack.plan) == []
    assert Path(stack.run / "data" / "postgres-data" / "pgdata").exists(), "down keeps the data"
