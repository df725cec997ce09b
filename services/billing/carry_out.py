"""Carries out tasks: takes a few, hands each to the function of its kind, and writes down what failed.

does    leases in one short transaction, works with none open; a failed task comes back later, a lost one is let go
reads   tasks
writes  tasks; the functions write the rest
next    render.py, send.py
"""

import time
from collections.abc import Callable, Mapping

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from services.billing.settings import WorkerSettings
from shared.messaging import database_errors, tasks
from shared.messaging.errors import LeaseLost, Transient
from shared.messaging.tasks import Task
from shared.runtime import failpoints, logs

COUNT_EVERY_S = 5.0
Work = Callable[[Task], None]
"""Carries out one task and completes or fails it in the transaction that records the result."""


class Worker:
    def __init__(self, engine: Engine, settings: WorkerSettings, kinds: Mapping[str, Work]) -> None:
        self._engine, self._settings, self._kinds = engine, settings, kinds
        self._counted = float("-inf")

    def step(self) -> int:
        """A few tasks of each kind, the kinds in the given order."""
        with database_errors.translated():
            self._count()
            leased = self._lease()
            if leased:
                failpoints.hit("billing.worker.after_lease")
            for task in leased:
                self._carry_out(task)
        return len(leased)

    def _count(self) -> None:
        """For the metrics."""
        if time.monotonic() < self._counted + COUNT_EVERY_S:
            return
        with Session(self._engine) as session:
            tasks.counts(session, list(self._kinds))
        self._counted = time.monotonic()

    def _lease(self) -> list[Task]:
        with Session(self._engine) as session, session.begin():
            return [
                task
                for kind in self._kinds
                for task in tasks.lease(session, self._settings.tasks(kind), self._settings.lease_most)
            ]

    def _carry_out(self, task: Task) -> None:
        try:
            with database_errors.translated():
                self._kinds[task.kind](task)
        except LeaseLost as lost:
            logs.get().warning("task lost to another worker", kind=task.kind, key=task.key, error=str(lost))
        except Transient:
            raise  # the database is away: the lease brings the task back
        except Exception as error:  # noqa: BLE001  whatever it was, it is this task's failure and must not stop the others
            logs.get().error("task failed", kind=task.kind, key=task.key, exc_info=error)
            self._fail(task, error)

    def _fail(self, task: Task, error: Exception) -> None:
        try:
            with Session(self._engine) as session, session.begin():
                tasks.fail(session, self._settings.tasks(task.kind), task, f"{type(error).__name__}: {error}")
        except LeaseLost as lost:
            logs.get().warning("task lost to another worker", kind=task.kind, key=task.key, error=str(lost))
