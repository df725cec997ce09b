"""What a service brings: a plain function per event type.

does    gives each handler the fresh events of its type, in the order of delivery
reads   nothing
writes  what the handlers write, through the caller's session
next    services/billing/handlers.py, services/analytics/projections.py
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from sqlalchemy.orm import Session

from shared.messaging.records import Received

Handler = Callable[[Session, Sequence[Received]], None]
"""Works on all events at once, in the session's transaction: never commits, talks to nothing but its database.
Raises Permanent for an event that cannot be applied; the consumer then finds out which one it was."""

Handlers = Mapping[str, Handler]


def run(session: Session, fresh: Sequence[Received], handlers: Handlers) -> None:
    """Runs of one type, not all of one type: a key's events of different types keep their order."""
    for event_type, run_of_events in groupby(fresh, lambda r: r.event.type):
        handlers[event_type](session, list(run_of_events))
