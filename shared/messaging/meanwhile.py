"""Using the time in which the database works: the next batch is decoded while the present one is being written.

does    runs small pieces of work, in the same thread, while a connection waits for its server
reads   nothing
writes  nothing
next    consumer.py

A second thread would do the same and be slower: both need the interpreter's lock, and the one that the answer has come
for has to wait for it at every statement.
"""

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.abc import PQGen
from sqlalchemy import Connection


@contextmanager
def waiting(database: Connection, work: Callable[[], bool]) -> Iterator[None]:
    """`work` does a piece that takes well under a millisecond, never raises, and answers whether there is more."""
    connection: Any = database.connection.dbapi_connection

    def wait(generator: PQGen[Any], *arguments: Any, **named: Any) -> Any:
        return psycopg.Connection.wait(connection, _worked(generator, connection.fileno(), work), *arguments, **named)

    connection.wait = wait
    try:
        yield
    finally:
        del connection.wait


def _worked(generator: PQGen[Any], fileno: int, work: Callable[[], bool]) -> PQGen[Any]:
    """psycopg's own generator says what it waits for; it is asked again only when that is there, or nothing to do."""
    socket = select.poll()
    try:
        wanted = next(generator)
        while True:
            socket.register(fileno, (select.POLLIN if wanted & 1 else 0) | (select.POLLOUT if wanted & 2 else 0))
            while not socket.poll(0) and work():
                pass
            wanted = generator.send((yield wanted))
    except StopIteration as end:
        return end.value
