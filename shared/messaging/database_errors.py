"""What a failure of the database means: come again later, or not our business.

does    maps exceptions of psycopg and SQLAlchemy to Transient, PartitionMissing or nothing
reads   SQLSTATEs, never message texts (they are translated)
writes  nothing
next    errors.py
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy.exc

from shared.messaging.errors import PartitionMissing, TooSlow, Transient

TRANSIENT_CLASSES = {
    "08": "connection",
    "40": "serialization failure, deadlock: the transaction was rolled back and will work when tried again",
    "53": "out of connections, memory or disk",
    "57": "shut down, starting up, idle_session_timeout",
    "58": "I/O error",
}
TRANSIENT_STATES = {
    "25006": "read only: the connection reached a server that was demoted in a failover",
    "55P03": "lock_timeout",
}
TOO_SLOW_STATES = {
    "25P03": "idle_in_transaction_session_timeout",
    "25P04": "transaction_timeout",
    "57014": "cancelled, by a person or by statement_timeout",
}


def classify(error: BaseException) -> Transient | None:
    """None means: not the database's condition but a bug or bad data, so trying again will not help."""
    if isinstance(error, sqlalchemy.exc.TimeoutError):
        return Transient(f"no free connection in the pool: {error}")
    if isinstance(error, sqlalchemy.exc.DBAPIError):
        found = classify(error.orig) if error.orig else None
        return found or (Transient(_sentence(error)) if error.connection_invalidated else None)
    if not isinstance(error, psycopg.Error):
        return None
    if _is_missing_partition(error):
        return PartitionMissing(_sentence(error))
    if error.sqlstate in TOO_SLOW_STATES:
        return TooSlow(_sentence(error))
    return Transient(_sentence(error)) if _will_pass(error) else None


@contextmanager
def translated() -> Iterator[None]:
    """Raises what `classify` makes of a database error; everything else goes through as it is."""
    try:
        yield
    except (psycopg.Error, sqlalchemy.exc.SQLAlchemyError) as error:
        if (transient := classify(error)) is not None:
            raise transient from error
        raise


def _will_pass(error: psycopg.Error) -> bool:
    if error.sqlstate is None:
        # No SQLSTATE: the server did not answer. psycopg says so when a connection breaks or cannot be made.
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate[:2] in TRANSIENT_CLASSES or error.sqlstate in TRANSIENT_STATES


def _is_missing_partition(error: psycopg.Error) -> bool:
    """23514 is also a broken CHECK, which is for good; but that one names its constraint. A RAISE names no table."""
    return error.sqlstate == "23514" and error.diag.table_name is not None and error.diag.constraint_name is None


def _sentence(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
