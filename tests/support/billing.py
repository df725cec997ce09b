"""Billing to break: its database, invoices in it, real worker processes, and a mailbox to look into afterwards."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from infra.native.stack import PROJECT
from services.billing import reconciler, worker
from services.billing.carry_out import Worker
from services.billing.handlers import HANDLERS
from services.billing.settings import ReconcilerSettings, WorkerSettings
from shared.messaging import handlers
from shared.messaging.event import Event
from shared.runtime import database
from tests.integration.test_migrations import migrate
from tests.support import streams
from tests.support.wait import until

LEASE_S = 2.1
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["services.billing.worker", "services.billing.reconciler"])  # WeasyPrint imports slowly


@dataclass
class Billing:
    url: str
    engine: Engine
    smtp: str

    @classmethod
    @contextmanager
    def on(cls, postgres: str, smtp: str = "127.0.0.1:1") -> Iterator["Billing"]:
        """In a database of its own."""
        name = f"billing_{uuid4().hex[:12]}"
        url = postgres.rsplit("/", 1)[0] + "/" + name
        with psycopg.connect(postgres, autocommit=True) as admin:
            admin.execute(f'CREATE DATABASE "{name}"'.encode())
        migrate("billing", url)
        engine = database.engine(url, "tests")
        yield cls(url, engine, smtp)
        engine.dispose()
        with psycopg.connect(postgres, autocommit=True) as admin:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())

    def invoice(self, *orders: Event) -> UUID:
        """As the consumer does it. Returns the (last) order's id."""
        wanted = orders or (streams.order(),)
        with Session(self.engine) as session, session.begin():
            handlers.run(session, [streams.received(order, offset=n) for n, order in enumerate(wanted)], HANDLERS)
        return UUID(wanted[-1].subject)

    def worker(self, **more: Any) -> Worker:
        """A worker in this process: the test says when it steps."""
        return worker.create(self.engine, WorkerSettings(**self._settings(**more)))

    @contextmanager
    def process(self, failpoint: str = "", **more: Any) -> Iterator["Victim"]:
        """A worker in a process of its own, to be killed or stopped."""
        victim = FORKS.Process(target=_run_worker, args=(self._settings(failpoints=failpoint, **more),))
        victim.start()
        try:
            yield Victim(victim)
        finally:
            if victim.is_alive():
                os.kill(victim.pid or 0, signal.SIGCONT)
                victim.kill()
            victim.join(10)

    def reconcile(self, *, overdue_after_s: float = 0, **more: Any) -> int:
        settings = ReconcilerSettings(
            process="billing-reconciler", database_url=self.url, overdue_after_s=overdue_after_s, **more
        )
        return reconciler.reconcile(self.engine, settings)

    def get(self, order_id: UUID) -> dict[str, Any]:
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            return connection.execute("SELECT * FROM invoices WHERE order_id = %s", [order_id]).fetchone() or {}

    def task(self, kind: str, order_id: UUID) -> dict[str, Any]:
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            found = connection.execute("SELECT * FROM tasks WHERE kind = %s AND key = %s", [kind, str(order_id)])
            return found.fetchone() or {}

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(statement.encode())

    def unsent(self) -> int:
        return streams.scalar(self.url, "SELECT count(*) FROM invoices WHERE state NOT IN ('sent', 'undeliverable')")

    def work_until_settled(self, working: Worker | None = None, *, seconds: float = 30) -> None:
        """Until every invoice is sent or undeliverable."""
        working = working or self.worker()

        def settled() -> bool:
            working.step()
            return self.unsent() == 0

        until(settled, "every invoice sent", seconds=seconds)

    def _settings(self, **more: Any) -> dict[str, Any]:
        given = {
            "process": "billing-worker", "database_url": self.url, "smtp_address": self.smtp, "lease_s": LEASE_S,
            "smtp_timeout_s": 1.0, "poll_s": 0.05, "first_retry_s": 0.05, "ops_bind": f"127.0.0.1:{free_port()}",
        }  # fmt: skip
        return given | more


@dataclass
class Victim:
    process: ForkServerProcess

    def was_killed(self) -> None:
        self.process.join(30)
        assert self.process.exitcode == -signal.SIGKILL, "the failpoint was passed"

    def stands_still(self) -> None:
        def stopped() -> bool:
            with open(f"/proc/{self.process.pid}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] == "T"

        until(stopped, "the failpoint was passed and the worker stands still", seconds=30)

    def goes_on(self) -> None:
        os.kill(self.process.pid or 0, signal.SIGCONT)


def _run_worker(settings: dict[str, Any]) -> None:
    os.environ.update({name.upper(): str(value) for name, value in settings.items()})
    worker.main()


def run_reconciler(url: str, failpoint: str) -> None:
    """By hand: `python -m services.billing.reconciler --once`."""
    given = {"PROCESS": "billing-reconciler", "DATABASE_URL": url, "OVERDUE_AFTER_S": "0", "FAILPOINTS": failpoint}
    os.environ.update(given)
    sys.argv[1:] = ["--once"]
    reconciler.main()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class Mailbox:
    """The native mail sink as the stack runs it."""

    smtp: str
    http: str

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator["Mailbox"]:
        smtp, http = (f"127.0.0.1:{free_port()}" for _ in range(2))
        addresses = {"NATIVE_VOLUME": str(folder), "MP_SMTP_BIND_ADDR": smtp, "MP_UI_BIND_ADDR": http}
        command = [sys.executable, "-W", "ignore", "-m", "infra.native.mail_sink"]
        process = subprocess.Popen(command, cwd=PROJECT, env=os.environ | addresses, stdout=subprocess.DEVNULL)
        try:
            mailbox = cls(smtp, http)
            until(mailbox.answers, "the mail sink is up")
            yield mailbox
        finally:
            process.terminate()
            process.wait(10)

    def answers(self) -> bool:
        host, _, port = self.http.partition(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def copies(self, order_id: UUID) -> list[bytes]:
        """Every mail that was received for this order, raw."""
        query = urllib.parse.urlencode({"query": f"message-id:order-{order_id}@shop.invalid", "limit": 1000})
        found = json.loads(self._get(f"/api/v1/search?{query}"))["messages"]
        return [self._get(f"/api/v1/message/{mail['ID']}/raw") for mail in found]

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=10) as answer:
            content: bytes = answer.read()
            return content


def order_for(email: str = "ada@example.org", **customer: Any) -> Event:
    """An order whose customer is what the test needs."""
    made = streams.order(uuid4())
    changed = made.data.customer.model_copy(update={"email": email, **customer})
    made.data.customer = changed
    return made
