"""What work costs the database, counted where it cannot be argued with: on the wire, and by the server itself.

libpq writes down every message of a connection; the server keeps the write-ahead log bytes of every session (PostgreSQL
18). Neither depends on the machine, nor on what other tests do on the same server.
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.pq import Trace

MESSAGE = re.compile(rb"^([FB])\t\d+\t(\w+)", re.MULTILINE)
ROUNDS = 4
"""One more, and psycopg would begin to prepare the statements in the middle of it."""
WAL = "SELECT wal_bytes FROM pg_stat_get_backend_wal(%s)"


@dataclass(frozen=True)
class Cost:
    statements: float
    """BEGIN and COMMIT are statements too."""
    round_trips: float
    wal_bytes: float

    def per(self, count: int) -> "Cost":
        return Cost(self.statements / count, self.round_trips / count, self.wal_bytes / count)


@dataclass
class Meter:
    """Of all connections of one application_name that are opened while it watches."""

    folder: Path
    admin_url: str
    _watched: list[tuple[psycopg.Connection[Any], Path]] = field(default_factory=list)

    def watch(self, monkeypatch: pytest.MonkeyPatch, application_name: str) -> None:
        connect = psycopg.connect

        def watched(*args: Any, **given: Any) -> Any:
            connection = connect(*args, **given)
            if given.get("application_name") == application_name:
                self._trace(connection)
            return connection

        monkeypatch.setattr(psycopg, "connect", watched)

    def of(self, work: Callable[[], None], *, warm_ups: int = 1) -> Cost:
        """Statements must be the same in every round. Of the log the least: after a checkpoint it holds whole pages."""
        for _ in range(warm_ups):  # what is done once per connection is not part of the cost
            work()
        costs = [self._once(work) for _ in range(ROUNDS)]
        assert len({(cost.statements, cost.round_trips) for cost in costs}) == 1, f"not the same every time: {costs}"
        return min(costs, key=lambda cost: cost.wal_bytes)

    def _once(self, work: Callable[[], None]) -> Cost:
        wal, messages = self._wal(), self._messages()
        work()
        done = self._messages() - messages
        return Cost(done["F", "Query"] + done["F", "Execute"], done["B", "ReadyForQuery"], self._wal() - wal)

    def _messages(self) -> Counter[tuple[str, str]]:
        found = (match for _, path in self._watched for match in MESSAGE.findall(path.read_bytes()))
        return Counter((side.decode(), message.decode()) for side, message in found)

    def _wal(self) -> int:
        """A session tells its figures to the others when it is asked to, at the end of the transaction."""
        total = 0
        with psycopg.connect(self.admin_url, autocommit=True) as admin:
            for connection, _ in self._watched:
                connection.pgconn.exec_(b"SELECT pg_stat_force_next_flush()")
                row = admin.execute(WAL, (connection.info.backend_pid,)).fetchone()
                total += int(row[0]) if row else 0
        return total

    def _trace(self, connection: psycopg.Connection[Any]) -> None:
        path = self.folder / f"trace-{len(self._watched)}"
        with path.open("w") as file:
            connection.pgconn.trace(os.dup(file.fileno()))  # libpq keeps writing to it, and closes it
        connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        self._watched.append((connection, path))
