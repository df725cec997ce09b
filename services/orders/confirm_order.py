"""Confirming an order: THE transaction. Its new state and the event about it are written together, or not at all.

does    turns a draft into a confirmed order and adds its event to the outbox
reads   orders, order_lines
writes  orders, outbox
next    shared/messaging/outbox.py, then relay.py
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from services.orders import etags, events, read_orders
from services.orders.etags import Versions
from services.orders.schemas import Order
from shared.contracts import CONTRACTS
from shared.messaging import outbox
from shared.runtime import failpoints

# READ COMMITTED: of two at once, the second waits for the row, looks at it again, finds it confirmed and changes
# nothing. That is the whole protection against a double click. The lock is held when the outbox row gets its seq.
# The order is read by a statement of its own: one that had to wait for the lock would see the lines of before.
CONFIRM = """
UPDATE orders SET status = 'confirmed', confirmed_at = now(), version = version + 1
 WHERE id = %(id)s AND status = 'draft' AND (%(versions)s::integer[] IS NULL OR version = ANY (%(versions)s))
"""


@dataclass(frozen=True)
class Confirmation:
    order: Order
    first: bool
    """False: it was confirmed before, and this request changed nothing."""


def confirm(sessions: sessionmaker[Session], order_id: UUID, *, seen: Versions = None) -> Confirmation:
    with sessions.begin() as session:
        if session.connection().exec_driver_sql(CONFIRM, {"id": order_id, "versions": seen}).rowcount == 0:
            return Confirmation(_unchanged(session, order_id, seen), first=False)
        order = read_orders.one(session, order_id)
        outbox.add(session, events.confirmed(order), topic=events.CONFIRMED, key=str(order.id), contracts=CONTRACTS)
        failpoints.hit("orders.api.before_commit")
    failpoints.hit("orders.api.after_commit")
    return Confirmation(order, first=True)


def _unchanged(session: Session, order_id: UUID, seen: Versions) -> Order:
    """Confirmed already, from the very version that the client saw: asking again is welcome (RFC 9110, 13.1.1)."""
    order = read_orders.one(session, order_id)
    asked_again = order.status == "confirmed" and (seen is None or {order.version, order.version - 1} & set(seen))
    if not asked_again:
        raise etags.OrderChanged(order.version)
    return order
