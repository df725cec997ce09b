"""Dead letters: a person decides what happens to events that could not be applied.

does    lists and shows letters; applies them after all (redrive), corrects (repair) or gives them up (discard)
reads   dead_letters
writes  dead_letters, inbox, and through the handlers what they write, in one transaction per letter
next    parking.py (how a letter is written), inbox.py (the claim that a redrive goes through too); shared/letters (the
        command and the HTTP API)
"""

from dataclasses import dataclass, fields, replace
from datetime import datetime
from uuid import UUID

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from shared.messaging import database_errors, handlers, inbox, metrics, parking, records
from shared.messaging.errors import (
    BeyondDedupeWindow,
    Misuse,
    PartitionMissing,
    PayloadMismatch,
    Permanent,
)
from shared.messaging.event import Contracts
from shared.messaging.handlers import Handlers
from shared.messaging.records import Received, Record, Unreadable
from shared.runtime import failpoints


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: int
    consumer: str
    event_id: UUID | None
    payload_hash: bytes
    value: bytes | None
    key: bytes | None
    topic_id: str
    topic: str
    partition: int
    offset: int
    reason: str
    error: str
    attempts: int
    parked_at: datetime
    repaired_value: bytes | None
    repaired_hash: bytes | None
    closed_at: datetime | None
    outcome: str | None
    note: str | None

    def record(self) -> Record:
        """What a redrive applies: the repaired bytes where there are some."""
        value, digest = self.value, self.payload_hash
        if self.repaired_value is not None and self.repaired_hash is not None:
            value, digest = self.repaired_value, self.repaired_hash
        when_ms = int(self.parked_at.timestamp() * 1000)
        return Record(self.topic_id, self.topic, self.partition, self.offset, self.key, value, digest, when_ms)


COLUMNS = ", ".join(f'"{field.name}"' for field in fields(DeadLetter))


def listed(
    session: Session, consumer: str | None = None, *, reason: str | None = None, closed: bool = False,
    after: int = 0, most: int = 100,
) -> list[DeadLetter]:  # fmt: skip
    """Oldest first; the next page begins `after` the last id of this one."""
    rows = session.connection().exec_driver_sql(
        f"""SELECT {COLUMNS} FROM dead_letters
             WHERE id > %(after)s AND (closed_at IS NOT NULL) = %(closed)s
               AND consumer = coalesce(%(consumer)s, consumer) AND reason = coalesce(%(reason)s, reason)
             ORDER BY id LIMIT %(most)s""",  # noqa: S608  the columns are ours
        {"after": after, "closed": closed, "consumer": consumer, "reason": reason, "most": most},
    )
    return [DeadLetter(*row) for row in rows]


def show(session: Session, letter_id: int, *, lock: bool = False) -> DeadLetter:
    rows = session.connection().exec_driver_sql(
        f"SELECT {COLUMNS} FROM dead_letters WHERE id = %s {'FOR UPDATE' if lock else ''}",  # noqa: S608
        (letter_id,),
    )
    row = rows.one_or_none()
    if row is None:
        raise Misuse(f"there is no dead letter {letter_id}")
    return DeadLetter(*row)


def redrive(
    engine: Engine, letter_id: int, handlers_by_type: Handlers, contracts: Contracts, *, accept_late: bool = False
) -> str:
    """Lock the letter, then the normal path: claim, effect and close are one transaction. Returns what happened."""
    try:
        with database_errors.translated(), Session(engine) as session, session.begin():
            letter = _locked_and_applicable(session, letter_id)
            received = _readable(letter, handlers_by_type, contracts)
            fresh = _claim(session, letter, received, accept_late=accept_late)
            handlers.run(session, fresh, handlers_by_type)
            _close(session, letter, "redriven", None if fresh else "had been applied already")
            failpoints.hit(f"{letter.consumer}.redrive.before_commit")
    except Permanent as problem:
        _note_failure(engine, letter_id, problem)
        raise
    metrics.REDRIVEN.labels(letter.consumer).inc()
    return "applied" if fresh else "had been applied already"


def repair(engine: Engine, letter_id: int, value: bytes, contracts: Contracts) -> None:
    """New bytes beside the original, for the next redrive. They must be an event, and the same one."""
    with database_errors.translated(), Session(engine) as session, session.begin():
        letter = _locked_and_applicable(session, letter_id)
        repaired = records.parse(replace(letter.record(), value=value, payload_hash=records.digest(value)), contracts)
        if isinstance(repaired, Unreadable):
            raise repaired.problem
        if letter.event_id not in (None, repaired.event.id):
            raise Misuse(f"the repaired event has id {repaired.event.id}, the letter is about {letter.event_id}")
        session.connection().exec_driver_sql(
            "UPDATE dead_letters SET repaired_value = %s, repaired_hash = %s WHERE id = %s",
            (value, repaired.payload_hash, letter_id),
        )


def discard(engine: Engine, letter_id: int, why: str) -> None:
    """Never to be applied. The inbox remembers it like an applied event, so that a replay does not apply it."""
    if not why.strip():
        raise Misuse("say why: somebody will ask")
    with database_errors.translated(), Session(engine) as session, session.begin():
        letter = _locked_and_open(session, letter_id)
        # A mismatch must not touch its id's row: that belongs to the first payload.
        if letter.event_id and letter.reason != PayloadMismatch.reason:
            _remember_discarded(session, letter)
        _close(session, letter, "discarded", why)


def _locked_and_open(session: Session, letter_id: int) -> DeadLetter:
    letter = show(session, letter_id, lock=True)
    if letter.closed_at:
        raise Misuse(f"letter {letter_id} is closed: {letter.outcome}")
    return letter


def _locked_and_applicable(session: Session, letter_id: int) -> DeadLetter:
    letter = _locked_and_open(session, letter_id)
    if letter.reason == PayloadMismatch.reason:
        raise Misuse(f"letter {letter_id} is a payload mismatch: it can only be discarded")
    return letter


def _readable(letter: DeadLetter, handlers_by_type: Handlers, contracts: Contracts) -> Received:
    received = records.parse(letter.record(), contracts)
    if isinstance(received, Unreadable):
        raise received.problem
    if received.event.type not in handlers_by_type:
        raise Misuse(f"{letter.consumer} has no handler for {received.event.type}: discard the letter")
    return received


def _claim(session: Session, letter: DeadLetter, received: Received, *, accept_late: bool) -> list[Received]:
    claim = inbox.claim(session, letter.consumer, [received], redriving=True)
    for _, problem in claim.refused:
        if isinstance(problem, BeyondDedupeWindow) and accept_late:
            # No inbox can take it any more: this letter's lock and the permanent business key are the guard.
            return [received]
        raise problem
    return claim.fresh


# READ COMMITTED: an event that was applied meanwhile keeps its row.
DISCARDED = """
INSERT INTO inbox (consumer, event_id, payload_hash, deliveries, outcome, from_topic, from_partition, from_offset)
VALUES (%s, %s, %s, 1, 'discarded', %s, %s, %s) ON CONFLICT (consumer, event_id) DO NOTHING
"""


def _remember_discarded(session: Session, letter: DeadLetter) -> None:
    row = (letter.consumer, letter.event_id, letter.payload_hash, letter.topic, letter.partition, letter.offset)
    try:
        with session.begin_nested(), database_errors.translated():
            session.connection().exec_driver_sql(DISCARDED, row)
    except PartitionMissing:
        pass  # far outside the window, so that no claim can take it either; and the letter itself is remembered


def _close(session: Session, letter: DeadLetter, outcome: str, note: str | None) -> None:
    session.connection().exec_driver_sql(
        "UPDATE dead_letters SET closed_at = clock_timestamp(), outcome = %s, note = %s WHERE id = %s",
        (outcome, note, letter.id),
    )


def _note_failure(engine: Engine, letter_id: int, problem: Permanent) -> None:
    with database_errors.translated(), Session(engine) as session, session.begin():
        session.connection().exec_driver_sql(
            "UPDATE dead_letters SET attempts = attempts + 1, error = %s WHERE id = %s AND closed_at IS NULL",
            (parking.printable(str(problem)), letter_id),
        )
