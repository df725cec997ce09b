"""The task invoice.email: a rendered invoice reaches its customer's mailbox.

does    commits `sending`, talks to the mail server with no transaction open, and commits what came of it
reads   invoices, invoice_pdfs
writes  invoices (sending → sent, undeliverable, or back to rendered; unknown_outcomes), tasks
next    mail.py (the conversation), reconciler.py (what was forgotten)

SMTP cannot be exactly once: between the server's 250 and our commit a crash hides the answer. So the intention is
committed first. Whoever finds an invoice in `sending` knows that somebody may have sent it, counts an unknown outcome,
and sends again under the same Message-ID. Copies in the mailbox ≤ 1 + unknown outcomes, always.
"""

import time

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from services.billing import invoice as invoices
from services.billing import mail
from services.billing.invoice import Invoice
from services.billing.settings import WorkerSettings
from shared.messaging import parking, tasks
from shared.messaging.errors import LeaseLost
from shared.messaging.tasks import Task
from shared.runtime import failpoints, logs

KIND = "invoice.email"

# READ COMMITTED: the row lock makes two workers follow each other, and the second sees the state the first committed.
LOCK = """
SELECT i.state, p.content FROM invoices i LEFT JOIN invoice_pdfs p ON p.invoice_id = i.id
 WHERE i.id = %s FOR UPDATE OF i
"""
SENDING = """
UPDATE invoices SET unknown_outcomes = unknown_outcomes + (state = 'sending')::integer,
                    state = 'sending', sending_token = %s
 WHERE id = %s
"""
# Only the holder of the token may say what came of it.
SENT = """
UPDATE invoices SET state = 'sent', sent_at = clock_timestamp(), sending_token = NULL
 WHERE id = %s AND sending_token = %s
"""
REFUSED = """
UPDATE invoices SET state = 'undeliverable', refusal = %s, sending_token = NULL WHERE id = %s AND sending_token = %s
"""
NOT_SENT = """
UPDATE invoices SET state = 'rendered', sending_token = NULL, unknown_outcomes = unknown_outcomes + %s
 WHERE id = %s AND sending_token = %s
"""


class Sender:
    def __init__(self, engine: Engine, settings: WorkerSettings) -> None:
        self._engine, self._settings = engine, settings
        self._tasks = settings.tasks(KIND)
        self._letters = mail.Letters()

    def send(self, task: Task) -> None:
        begun = time.monotonic()
        with Session(self._engine) as session, session.begin():
            invoice = invoices.of_order(session, task.key)
            pdf = self._begin(session, task, invoice)
        if pdf is None:
            return
        failpoints.hit("billing.worker.before_smtp")
        try:
            self._deliver(invoice, pdf, self._seconds_left(begun, task))
        except mail.MailError as error:
            self._record_failure(task, invoice, error)
        else:
            failpoints.hit("billing.worker.after_smtp")
            self._record_sent(task, invoice)

    def _deliver(self, invoice: Invoice, pdf: bytes, seconds: float) -> None:
        """An error of ours, in a template or a setting, comes before the mail is handed over: it leaves no doubt."""
        try:
            mail.deliver(self._settings.smtp_address, self._letters.write(invoice, pdf), seconds)
        except mail.MailError:
            raise
        except Exception as error:
            logs.get().error("the mail could not be made or handed over", exc_info=error)
            raise mail.NotNow(repr(error)) from error

    def _begin(self, session: Session, task: Task, invoice: Invoice) -> bytes | None:
        """The PDF to send, or None when nothing is left to do. The invoice first, then its task: see render.py."""
        connection = session.connection()
        state, pdf = connection.exec_driver_sql(LOCK, (invoice.id,)).one()
        if not tasks.holds(session, task, at_least_s=self._settings.smtp_timeout_s):
            raise LeaseLost(f"{task.kind} {task.key}: too little of the lease is left to begin a mail")
        if state in ("sent", "undeliverable"):
            tasks.complete(session, task)
            return None
        if pdf is None:
            tasks.fail(session, self._tasks, task, "there is no PDF to send", for_good=True)
            return None
        if state == "sending":
            logs.get().warning("outcome unknown, sending again", order_id=task.key, message_id=invoice.message_id)
        connection.exec_driver_sql(SENDING, (task.token, invoice.id))
        return bytes(pdf)

    def _seconds_left(self, begun: float, task: Task) -> float:
        """The lease outlasts the time-out counted from `begun`: a worker that slept must not speak any more."""
        left = self._settings.smtp_timeout_s - (time.monotonic() - begun)
        if left <= 0:
            raise LeaseLost(f"{task.kind} {task.key}: this worker has slept; another may be sending by now")
        return left

    def _record_sent(self, task: Task, invoice: Invoice) -> None:
        with Session(self._engine) as session, session.begin():
            _as_holder(session, SENT, invoice.id, task.token)
            tasks.complete(session, task)
        logs.get().info("e-mail sent", order_id=task.key, invoice=invoice.printed_number)

    def _record_failure(self, task: Task, invoice: Invoice, error: mail.MailError) -> None:
        for_good, unknown = isinstance(error, mail.Refused), isinstance(error, mail.OutcomeUnknown)
        with Session(self._engine) as session, session.begin():
            if for_good:
                _as_holder(session, REFUSED, parking.printable(str(error)), invoice.id, task.token)
            else:
                _as_holder(session, NOT_SENT, int(unknown), invoice.id, task.token)
            tasks.fail(session, self._tasks, task, str(error), for_good=for_good)
        log = logs.get().error if for_good else logs.get().warning
        log("e-mail not sent", order_id=task.key, outcome=type(error).__name__, error=str(error))


def _as_holder(session: Session, statement: str, *parameters: object) -> None:
    if session.connection().exec_driver_sql(statement, parameters).rowcount != 1:
        raise LeaseLost("the invoice is in other hands: this worker has slept too long")
