"""Side effects that must happen outside the database: written down with the fact that asks for them, done afterwards.

does    adds tasks in the caller's transaction; leases them to workers; records how they ended
reads   tasks
writes  tasks
next    services/billing/worker.py
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy.orm import Session

from shared.messaging import metrics, parking
from shared.messaging.errors import LeaseLost

# Unique over all states: what was ever asked for is not asked for again. Sorted against deadlocks between two batches.
ADD = """
INSERT INTO tasks (kind, key, payload)
SELECT %s, t.key, t.payload FROM unnest(%b::text[], %b::text[]::jsonb[]) AS t (key, payload) ORDER BY t.key
ON CONFLICT (kind, key) DO NOTHING
"""

# READ COMMITTED: SKIP LOCKED lets several workers take different rows without waiting for each other; the row lock and
# the re-check of the WHERE clause under it make sure that a task has one holder. A lease that has run out is due again.
# The database's clock, so that the workers' clocks do not matter; as the statement began, because an index cannot look
# for a time that moves. Attempts count from the lease: a task that kills its worker is counted too.
LEASE = """
UPDATE tasks SET state = 'leased', lease_token = gen_random_uuid(), attempts = attempts + 1,
                 due_at = clock_timestamp() + %(lease_s)s * interval '1 second'
 WHERE id = ANY (ARRAY(SELECT id FROM tasks
                        WHERE kind = %(kind)s AND state IN ('queued', 'leased') AND due_at <= statement_timestamp()
                          AND attempts < %(max_attempts)s
                        ORDER BY due_at, id LIMIT %(most)s
                          FOR UPDATE SKIP LOCKED))
RETURNING id, kind, key, payload, attempts, lease_token
"""

# A worker that died with the last attempt in its hands cannot say so; the next one does.
BURY = """
UPDATE tasks SET state = 'dead', lease_token = NULL, finished_at = clock_timestamp(),
                 last_error = coalesce(last_error, 'the worker died during the last attempt')
 WHERE id = ANY (ARRAY(SELECT id FROM tasks
                        WHERE kind = %(kind)s AND state IN ('queued', 'leased') AND due_at <= statement_timestamp()
                          AND attempts >= %(max_attempts)s
                          FOR UPDATE SKIP LOCKED))
"""

# The token is the right to speak about the task: a worker that slept past its lease has the old one.
COMPLETE = """
UPDATE tasks SET state = 'done', lease_token = NULL, last_error = NULL, finished_at = clock_timestamp()
 WHERE id = %s AND lease_token = %s
"""
FAIL = """
UPDATE tasks SET state = CASE WHEN %(dead)s THEN 'dead' ELSE 'queued' END, lease_token = NULL, last_error = %(error)s,
                 due_at = clock_timestamp() + %(retry_in_s)s * interval '1 second',
                 finished_at = CASE WHEN %(dead)s THEN clock_timestamp() END
 WHERE id = %(id)s AND lease_token = %(token)s
"""
HOLDS = """
SELECT extract(epoch FROM due_at - clock_timestamp())::float8 FROM tasks WHERE id = %s AND lease_token = %s FOR UPDATE
"""

# A live task is left alone, whoever holds it; a finished one starts again from nothing; a missing one is made.
REOPEN = """
INSERT INTO tasks AS t (kind, key, payload) VALUES (%s, %s, %s::jsonb)
ON CONFLICT (kind, key) DO UPDATE
   SET state = 'queued', attempts = 0, due_at = clock_timestamp(), finished_at = NULL
 WHERE t.state IN ('done', 'dead')
"""

# READ COMMITTED: a task that is being reopened at this moment is locked, and so skipped.
PURGE = """
DELETE FROM tasks WHERE id = ANY (ARRAY(
    SELECT id FROM tasks WHERE state = 'done' AND finished_at < statement_timestamp() - %s * interval '1 day'
     ORDER BY finished_at LIMIT %s FOR UPDATE SKIP LOCKED))
"""


COUNTS = """
SELECT kind, state, count(*) FROM tasks WHERE kind = ANY (%(kinds)s) AND state IN ('queued', 'leased') GROUP BY 1, 2
UNION ALL SELECT kind, 'dead', count(*) FROM tasks WHERE kind = ANY (%(kinds)s) AND state = 'dead' GROUP BY 1
"""


@dataclass(frozen=True)
class TaskSettings:
    kind: str
    lease_s: float = 60.0
    """Longer than the work ever takes; a worker that needs longer loses the task to another."""
    max_attempts: int = 10
    first_retry_s: float = 1.0
    retry_limit_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Task:
    id: int
    kind: str
    key: str
    payload: Any
    attempts: int
    token: UUID


def add(session: Session, kind: str, tasks: Mapping[str, Any]) -> int:
    """Key → payload. Never commits. Returns how many are new."""
    if not tasks:
        return 0
    payloads = [orjson.dumps(payload).decode() for payload in tasks.values()]
    return session.connection().exec_driver_sql(ADD, (kind, list(tasks), payloads)).rowcount


def lease(session: Session, settings: TaskSettings, most: int = 1) -> list[Task]:
    """The caller commits at once and then works, with no transaction open."""
    parameters = {
        "kind": settings.kind, "lease_s": settings.lease_s, "max_attempts": settings.max_attempts, "most": most,
    }  # fmt: skip
    connection = session.connection()
    if buried := connection.exec_driver_sql(BURY, parameters).rowcount:
        metrics.TASKS_DEAD.labels(settings.kind).inc(buried)
    return [Task(*row) for row in connection.exec_driver_sql(LEASE, parameters)]


def holds(session: Session, task: Task, *, at_least_s: float = 0.0) -> bool:
    """Is the lease still ours, for so long? Locks the task until the caller's transaction ends."""
    remaining = session.connection().exec_driver_sql(HOLDS, (task.id, task.token)).scalar_one_or_none()
    return remaining is not None and remaining >= at_least_s


def complete(session: Session, task: Task) -> None:
    """In the transaction that records the result: together, or not at all."""
    _one(session.connection().exec_driver_sql(COMPLETE, (task.id, task.token)).rowcount, task)
    metrics.TASKS_DONE.labels(task.kind).inc()


def fail(session: Session, settings: TaskSettings, task: Task, error: str, *, for_good: bool = False) -> bool:
    """Again later, or dead: True."""
    dead = for_good or task.attempts >= settings.max_attempts
    parameters = {
        "id": task.id, "token": task.token, "dead": dead, "error": parking.printable(error),
        "retry_in_s": backoff_s(settings, task.attempts),
    }  # fmt: skip
    _one(session.connection().exec_driver_sql(FAIL, parameters).rowcount, task)
    (metrics.TASKS_DEAD if dead else metrics.TASKS_FAILED).labels(task.kind).inc()
    return dead


def reopen(session: Session, kind: str, key: str, payload: Any) -> bool:
    """Whether there was something to do: False while the task is alive."""
    parameters = (kind, key, orjson.dumps(payload).decode())
    return session.connection().exec_driver_sql(REOPEN, parameters).rowcount == 1


def purge(session: Session, *, older_than_days: int, most: int) -> int:
    """Deletes done tasks, and with them the memory that they were done. Only for work that knows by itself that it is
    done (an invoice has its PDF, and says `sent`): `add` would take a purged key for a new one. Never commits."""
    return session.connection().exec_driver_sql(PURGE, (older_than_days, most)).rowcount


def counts(session: Session, kinds: Sequence[str]) -> dict[tuple[str, str], int]:
    """What is not done, by kind and state; also sets the gauges. Reads the partial indexes, not what is done."""
    found = dict.fromkeys(((kind, state) for kind in kinds for state in ("queued", "leased", "dead")), 0)
    rows = session.connection().exec_driver_sql(COUNTS, {"kinds": list(kinds)})
    found |= {(kind, state): number for kind, state, number in rows}
    for (kind, state), number in found.items():
        metrics.TASKS.labels(kind, state).set(number)
    return found


def backoff_s(settings: TaskSettings, attempts: int) -> float:
    """Doubling, with jitter: tasks that failed together do not come back together."""
    ceiling = min(settings.retry_limit_s, settings.first_retry_s * 2 ** min(attempts - 1, 30))
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311  (not a secret)


def _one(rows: int, task: Task) -> None:
    if rows != 1:
        raise LeaseLost(f"{task.kind} {task.key}: the lease ran out and another worker has it, or had it")
