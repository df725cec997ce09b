"""billing-reconciler: gets the e-mail out of every invoice that was forgotten, on a cron schedule or by hand.

does    finds invoices that are overdue and have nobody working on them, and opens their task again
reads   invoices, invoice_pdfs, tasks
writes  tasks
next    shared/messaging/tasks.py (reopen), worker.py (does the rest)

It never sends anything, so it cannot send a second mail: a task of an invoice that was sent ends without sending. An
invoice of too many unknown outcomes is left to a person: its mail seems to arrive each time, and would for ever.
"""

import argparse

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from services.billing import render, send
from services.billing.settings import ReconcilerSettings
from shared.messaging import tasks
from shared.messaging.database_errors import translated
from shared.messaging.errors import Transient
from shared.runtime import cron, database, failpoints, logs, process
from shared.runtime.settings import load

BATCH = 100

# READ COMMITTED. Locked rows are in the hands of a worker or of another reconciler: somebody cares, skip them.
OVERDUE = """
SELECT id FROM invoices AS i
 WHERE sent_at IS NULL AND refusal IS NULL AND issued_at <= statement_timestamp() - %(after_s)s * interval '1 second'
   AND unknown_outcomes < %(enough)s
   AND NOT EXISTS (SELECT FROM tasks WHERE kind = ANY (%(kinds)s) AND key = i.order_id::text
                                       AND state IN ('queued', 'leased'))
 ORDER BY issued_at LIMIT %(most)s
   FOR UPDATE SKIP LOCKED
"""
# A statement of its own, because it must see what was committed before the locks were granted. From here to the commit
# no worker can change these invoices.
STILL = """
SELECT order_id::text, EXISTS (SELECT FROM invoice_pdfs WHERE invoice_id = i.id) FROM invoices AS i
 WHERE id = ANY (%(ids)s) AND sent_at IS NULL AND refusal IS NULL AND unknown_outcomes < %(enough)s
   AND NOT EXISTS (SELECT FROM tasks WHERE kind = ANY (%(kinds)s) AND key = i.order_id::text
                                       AND state IN ('queued', 'leased'))
 ORDER BY order_id
"""


def reconcile(engine: Engine, settings: ReconcilerSettings) -> int:
    """Batch after batch until nothing is overdue; each batch is a transaction of its own."""
    reopened = 0
    with translated():
        while batch := _step(engine, settings):
            reopened += batch
    logs.get().info("reconciled", reopened=reopened)
    return reopened


def _step(engine: Engine, settings: ReconcilerSettings) -> int:
    asked = {
        "kinds": [render.KIND, send.KIND], "enough": settings.max_unknown_outcomes,
        "after_s": settings.overdue_after_s, "most": BATCH,
    }  # fmt: skip
    with Session(engine) as session, session.begin():
        connection = session.connection()
        ids = [row.id for row in connection.exec_driver_sql(OVERDUE, asked)]
        still = connection.exec_driver_sql(STILL, asked | {"ids": ids}).all() if ids else []
        for order_id, has_pdf in still:
            tasks.reopen(session, send.KIND if has_pdf else render.KIND, order_id, {})
            logs.get().warning("forgotten invoice taken up again", order_id=order_id, has_pdf=has_pdf)
        if still:
            failpoints.hit("billing.reconciler.before_commit")
    return len(still)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.billing.reconciler", description=__doc__)
    parser.add_argument("--once", action="store_true", help="run now and exit, instead of on the schedule")
    arguments = parser.parse_args()
    settings = load(ReconcilerSettings)
    engine = database.engine(settings.database_url, settings.process, pool_size=2)
    if arguments.once:
        logs.configure(settings.process, settings.log_level)
        failpoints.configure(settings.failpoints, settings.failpoints_dir)
        reconcile(engine, settings)
        return
    running = process.begin(settings, ready=[database.answers(engine)])
    cron.run_on_schedule(running, settings.crontab, lambda: reconcile(engine, settings), retry_on=(Transient,))


if __name__ == "__main__":
    main()
