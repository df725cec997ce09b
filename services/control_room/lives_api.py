"""One order's life over HTTP: every trace it has left, its PDF, its mail. Needs the token: it shows a customer's data.

does    finds an order by its id or the beginning of it, and tells its life
reads   all places, through audit/timeline.py
writes  nothing
next    audit/timeline.py
"""

import re
from datetime import UTC
from typing import Any
from uuid import UUID

import psycopg
from apiflask import APIBlueprint

from services.control_room.access import Access
from services.control_room.audit import mailbox, timeline
from services.control_room.settings import ControlRoomSettings
from shared.runtime.problems import Problem, documented

BEGINS_WITH = "SELECT id FROM orders WHERE id BETWEEN %s AND %s LIMIT 2"
INVOICE = """
SELECT i.id, EXISTS (SELECT FROM invoice_pdfs WHERE invoice_id = i.id) FROM invoices AS i WHERE order_id = %s
"""


def create(settings: ControlRoomSettings, access: Access) -> APIBlueprint:
    api = APIBlueprint("lives", __name__, url_prefix="/v1", tag="Lives")
    api.before_request(access.required())

    @api.get("/lives/<order>")
    @api.doc(
        summary="The life of one order",
        description="The id, or its first eight or more hexadecimal digits.",
        security="token",
        responses=documented(200, 403, 404, 503),
    )
    def life(order: str) -> dict[str, Any]:
        order_id = _found(settings, order)
        told = timeline.of(settings, order_id)
        if not told:
            raise Problem(404, "no-such-order", f"Nobody has heard of order {order}.")
        moments = [
            {"at": moment.at.astimezone(UTC).isoformat() if moment.at else None, "where": moment.where,
             "what": moment.what}
            for moment in told
        ]  # fmt: skip
        return {"order_id": str(order_id), "moments": moments, **_documents(settings, order_id)}

    return api


def _found(settings: ControlRoomSettings, order: str) -> UUID:
    digits = order.replace("-", "").lower()
    if not re.fullmatch(r"[0-9a-f]{8,32}", digits):
        raise Problem(404, "no-such-order", "An order is found by its id, or by the first eight digits of it.")
    if len(digits) == 32:
        return UUID(digits)  # lost by Orders, it may still be known elsewhere
    with psycopg.connect(settings.orders_database_url, autocommit=True, connect_timeout=5) as orders:
        rows = orders.execute(BEGINS_WITH, (UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f")))).fetchall()
    if len(rows) != 1:
        raise Problem(404, "no-such-order", f"{'Several orders begin' if rows else 'No order begins'} with {order}.")
    return UUID(str(rows[0][0]))


def _documents(settings: ControlRoomSettings, order_id: UUID) -> dict[str, Any]:
    """Addresses for the viewer's browser."""
    with psycopg.connect(settings.billing_database_url, autocommit=True, connect_timeout=5) as billing:
        invoice = billing.execute(INVOICE, (order_id,)).fetchone()
    pdf = f"{settings.billing_public_url}/v1/invoices/{invoice[0]}/pdf" if invoice and invoice[1] else None
    copies = mailbox.of_message_id(settings.mail_url, f"order-{order_id}@shop.invalid")
    mails = [f"{settings.mail_public_url}/api/v1/message/{mail['ID']}/raw" for mail in copies]
    return {"pdf": pdf, "mails": mails}
