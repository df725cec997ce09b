"""One way to reach a database: SQLAlchemy on psycopg, small pools, a name that shows up in pg_stat_activity.

The time-outs that protect the others from a process that hangs (transaction_timeout and its kin) are set on the
database roles, in infra/postgres/databases.py, so that no client can forget them.
"""

import select
from typing import Any

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import InvalidatePoolError, SQLAlchemyError

from shared.runtime.ops import Check


def engine(url: str, application_name: str, *, pool_size: int = 5, options: str = "") -> Engine:
    """`options`: settings of this process's sessions that differ from its role's, e.g. `-c lock_timeout=2s`."""
    made = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://", 1),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=10,
        connect_args={
            "application_name": application_name,
            "connect_timeout": 5,
            "options": options,
            # A server that lost power sends no goodbye: notice within about 20 s, also while it owes us an answer to
            # what we have sent, when no keepalives go out.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 2,
            "tcp_user_timeout": 20_000,
        },
    )
    event.listen(made, "checkout", _refuse_dead)
    return made


def _refuse_dead(connection: Any, _record: object, _proxy: object) -> None:
    """Instead of a ping, which is three round trips for every transaction.

    A server that went away has closed its sockets, and an idle connection that has something to read has been told so.
    The pool then connects anew, before the caller notices.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        raise InvalidatePoolError("the server has closed the connection")


def answers(database: Engine) -> Check:
    """A readiness check: the database can be reached and speaks."""

    def check() -> str | None:
        try:
            with database.connect() as connection:
                connection.execute(text("SELECT 1"))
        except SQLAlchemyError as error:
            return f"database {database.url.database}: {str(error.__cause__ or error).splitlines()[0]}"
        return None

    return check
