"""The task invoice.render: an invoice gets its PDF.

does    renders with no transaction open; then stores the PDF and asks for the e-mail, both or neither
reads   invoices
writes  invoice_pdfs, invoices.state, tasks (this one done, invoice.email queued)
next    pdf.py (the document), then send.py
"""

import hashlib

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from services.billing import invoice as invoices
from services.billing.invoice import Invoice
from services.billing.pdf import Renderer
from shared.messaging import tasks
from shared.messaging.tasks import Task
from shared.runtime import failpoints

KIND = "invoice.render"
NEXT = "invoice.email"

# Rendered twice (a worker slept, another took over): the bytes are the same, and the first row stays.
STORE = """
INSERT INTO invoice_pdfs (invoice_id, content, sha256) VALUES (%s, %s, %s) ON CONFLICT (invoice_id) DO NOTHING
"""
RENDERED = "UPDATE invoices SET state = 'rendered' WHERE id = %s AND state = 'issued'"


def render(engine: Engine, renderer: Renderer, task: Task) -> None:
    with Session(engine) as session, session.begin():
        invoice = invoices.of_order(session, task.key)
    content = renderer.pdf(invoice)
    failpoints.hit("billing.worker.after_render")
    with Session(engine) as session, session.begin():
        _store(session, task, invoice, content)
    failpoints.hit("billing.worker.after_store")


def _store(session: Session, task: Task, invoice: Invoice, content: bytes) -> None:
    """Invoice first, then tasks: every transaction of Billing locks in this order, so that none waits in a circle."""
    connection = session.connection()
    connection.exec_driver_sql(RENDERED, (invoice.id,))
    connection.exec_driver_sql(STORE, (invoice.id, content, hashlib.sha256(content).digest()))
    # Re-opened, not only added: an e-mail that was given up for want of its PDF starts again.
    tasks.reopen(session, NEXT, task.key, {})
    tasks.complete(session, task)
