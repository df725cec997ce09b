"""Rows that nobody needs any more, deleted in batches.

does    deletes what is older than its time, a short transaction per batch, so that nobody waits behind it
reads   nothing
writes  idempotency_keys of Orders, tasks of Billing, minute_sales of Analytics
next    shared/messaging/tasks.py (purge)
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from shared.messaging import tasks

BATCH_ROWS = 1000

# READ COMMITTED. A row that somebody holds (a client asking again at this moment) is left for the next run.
IDEMPOTENCY_KEYS = """
DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM idempotency_keys WHERE created_at < now() - %(keep)s * interval '1 hour'
     ORDER BY created_at LIMIT %(most)s FOR UPDATE SKIP LOCKED))
"""
MINUTE_SALES = """
DELETE FROM minute_sales WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM minute_sales WHERE minute < now() - %(keep)s * interval '1 hour'
     ORDER BY minute LIMIT %(most)s FOR UPDATE SKIP LOCKED))
"""


@dataclass(frozen=True)
class Purge:
    table: str
    batch: Callable[[Session, int], int]
    """Deletes at most so many rows in the caller's transaction; answers how many."""


def idempotency_keys(hours: int) -> Purge:
    return Purge("idempotency_keys", lambda session, most: _delete(session, IDEMPOTENCY_KEYS, hours, most))


def minute_sales(hours: int) -> Purge:
    return Purge("minute_sales", lambda session, most: _delete(session, MINUTE_SALES, hours, most))


def done_tasks(days: int) -> Purge:
    """Safe, because the task is not what keeps its work from being done again.

    Its unique key merges requests while they are fresh. But an order is invoiced once because of the unique order_id of
    `invoices`, which is kept for ever; a PDF is stored once because of the key of `invoice_pdfs`; and a mail is sent
    once because the invoice says `sent`, which worker and reconciler read under a lock. Whoever asked for a purged task
    again would find the work done. Dead tasks stay: a person has to look at them.
    """
    return Purge("tasks", lambda session, most: tasks.purge(session, older_than_days=days, most=most))


def run(engine: Engine, purge: Purge, carry_on: Callable[[], bool], *, most: int = BATCH_ROWS) -> int:
    """Until nothing is left, or until told to stop: `carry_on` is asked before each batch."""
    purged = 0
    while carry_on():
        with Session(engine) as session, session.begin():
            batch = purge.batch(session, most)
        purged += batch
        if batch < most:
            break
    return purged


def _delete(session: Session, statement: str, keep: int, most: int) -> int:
    return session.connection().exec_driver_sql(statement, {"keep": keep, "most": most}).rowcount
