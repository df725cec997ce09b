"""Idempotency-Key: a client that did not hear the answer asks again and gets the first one.

does    claims a key in the caller's transaction, runs the work once, and keeps its answer beside it
reads   idempotency_keys
writes  idempotency_keys
next    place_order.py

Two requests with one key at the same moment: the primary key lets one through, the other waits for it, for as long as
this service's lock_timeout (2 s), and then finds its answer. Only success is kept: what was refused changed nothing and
may be tried again.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from psycopg.errors import LockNotAvailable
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from shared.runtime.problems import Problem

WAIT_S = 2

# READ COMMITTED: an uncommitted row of another transaction blocks this until that one ends. Committed: no row comes
# back. Rolled back: the key is ours.
CLAIM = """
INSERT INTO idempotency_keys (scope, key, fingerprint) VALUES (%(scope)s, %(key)s, %(fingerprint)s)
ON CONFLICT (scope, key) DO NOTHING RETURNING true
"""
STORED = "SELECT fingerprint, status, answer FROM idempotency_keys WHERE scope = %(scope)s AND key = %(key)s"
KEEP = "UPDATE idempotency_keys SET status = %(status)s, answer = %(answer)s WHERE scope = %(scope)s AND key = %(key)s"


@dataclass(frozen=True)
class Request:
    scope: str
    """Method and path."""
    key: str
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int
    body: str
    replayed: bool = False


class KeyReused(Problem):
    """The key was used for another body; `first` is what that one was answered."""

    def __init__(self, first: Answer) -> None:
        super().__init__(
            422, "idempotency-key-reused", "This Idempotency-Key was used with another body; make a new one."
        )
        self.first = first


class StillInProgress(Problem):
    """Another request with this key has not finished."""

    def __init__(self) -> None:
        super().__init__(
            409,
            "still-in-progress",
            "A request with this Idempotency-Key is still being worked on; ask again.",
            headers={"Retry-After": "1"},
        )


def once(session: Session, request: Request, work: Callable[[], Answer]) -> Answer:
    """Runs `work` unless its answer is known. Commits nothing: key, work and answer share the caller's transaction."""
    fingerprint = hashlib.sha256(request.body).digest()
    row: dict[str, object] = {"scope": request.scope, "key": request.key, "fingerprint": fingerprint}
    if not _claimed(session, row):
        return _first_answer(session, row)
    answer = work()
    session.connection().exec_driver_sql(KEEP, row | {"status": answer.status, "answer": answer.body})
    return answer


def _claimed(session: Session, row: dict[str, object]) -> bool:
    try:
        return session.connection().exec_driver_sql(CLAIM, row).first() is not None
    except OperationalError as error:
        if isinstance(error.orig, LockNotAvailable):
            raise StillInProgress from error
        raise


def _first_answer(session: Session, row: dict[str, object]) -> Answer:
    stored = session.connection().exec_driver_sql(STORED, row).first()
    if stored is None:  # deleted by housekeeping between the two statements
        raise StillInProgress
    answer = Answer(stored.status, stored.answer, replayed=True)
    if bytes(stored.fingerprint) != row["fingerprint"]:
        raise KeyReused(answer)
    return answer
