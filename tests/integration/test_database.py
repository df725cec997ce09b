"""A pool hands out living connections only."""

import psycopg
from sqlalchemy import text

from shared.runtime import database
from tests.support.wait import until

OWN_PID = text("SELECT pg_backend_pid()")


def test_connections_that_the_server_closed_are_replaced_before_they_are_used(postgres: str) -> None:
    engine = database.engine(postgres, "tests")
    with engine.connect() as first, engine.connect() as second:
        pids = [first.scalar(OWN_PID), second.scalar(OWN_PID)]
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", (pids,))
        until(lambda: _gone(admin, pids), "the sessions to end")
    with engine.connect() as first, engine.connect() as second:
        assert first.scalar(OWN_PID) not in pids
        assert second.scalar(OWN_PID) not in pids
    engine.dispose()


def test_a_living_connection_is_used_again(postgres: str) -> None:
    engine = database.engine(postgres, "tests")
    with engine.connect() as connection:
        pid = connection.scalar(OWN_PID)
    with engine.connect() as connection:
        assert connection.scalar(OWN_PID) == pid
    engine.dispose()


def _gone(admin: psycopg.Connection, pids: list[int]) -> bool:
    return admin.execute("SELECT FROM pg_stat_activity WHERE pid = ANY (%s)", (pids,)).fetchone() is None
