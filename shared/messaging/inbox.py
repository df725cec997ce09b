"""The inbox: of everything that is delivered, what is new?

does    claims a whole batch in one statement; sorts it into fresh, duplicate and refused
reads   inbox_floor
writes  inbox (in the caller's transaction)
next    consumer.py, the caller
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy.orm import Session

from shared.messaging import parking
from shared.messaging.errors import BeyondDedupeWindow, FutureId, Misuse, PayloadMismatch, Permanent
from shared.messaging.outbox import autocommits
from shared.messaging.records import Received

# One statement answers for a whole batch: is it new, and if not, were the bytes the same? Nearly everything is new, so
# only the rest comes back: what was there before, with the hash of its first payload, what lies outside the window,
# with none, and at the end the floor itself.
#
# READ COMMITTED is enough. Two claimers of one id: the second waits on the primary key until the first commits (then
# it is told "known") or rolls back (then it wins). `old.event_id IS NULL` is true only for the row that was inserted.
# The floor is read FOR SHARE: the housekeeping that drops a partition either waits for this transaction or has raised
# the floor first, and a row lock always sees the newest version. Ids outside [floor, an hour ahead] are not inserted.
# ORDER BY: two batches that share ids must take them in the same order, or they deadlock.
# Letters come first, in the same round trip: if there is one about any of these ids, nothing is claimed yet.
CLAIM = """
WITH guard AS MATERIALIZED (SELECT floor FROM inbox_floor FOR SHARE),
delivered AS MATERIALIZED (
    SELECT d.*, d.event_id >= guard.floor AND uuid_extract_timestamp(d.event_id) <= now() + interval '1 hour' AS in_time
      FROM unnest(%(ids)b::uuid[], %(hashes)b::bytea[], %(copies)b::int[],
                  %(topics)b::text[], %(partitions)b::int[], %(offsets)b::bigint[])
           AS d (event_id, payload_hash, copies, topic, partition, place), guard
),
unread AS MATERIALIZED (
    SELECT FROM dead_letters
     WHERE NOT %(letters_read)s AND consumer = %(consumer)s AND event_id = ANY (%(ids)b) LIMIT 1
),
claimed AS (
    INSERT INTO inbox (consumer, event_id, payload_hash, deliveries, from_topic, from_partition, from_offset)
    SELECT %(consumer)s, d.event_id, d.payload_hash, d.copies, d.topic, d.partition, d.place
      FROM delivered AS d WHERE d.in_time AND NOT EXISTS (SELECT FROM unread) ORDER BY d.event_id
    ON CONFLICT (consumer, event_id) DO UPDATE SET deliveries = inbox.deliveries + excluded.deliveries
    RETURNING event_id, old.event_id IS NULL AS fresh, payload_hash
)
SELECT event_id, payload_hash, false FROM claimed WHERE NOT fresh
UNION ALL SELECT event_id, NULL, false FROM delivered WHERE NOT in_time
UNION ALL SELECT floor, NULL, EXISTS (SELECT FROM unread) FROM guard
"""


@dataclass(slots=True)
class Claim:
    fresh: list[Received] = field(default_factory=list)
    """To be applied now, in the order of delivery."""
    duplicates: int = 0
    refused: list[tuple[Received, Permanent]] = field(default_factory=list)


def claim(session: Session, consumer: str, received: Sequence[Received], *, redriving: bool = False) -> Claim:
    """Never commits. A rollback hands every id to the next claimer. A redrive is allowed to take a parked event."""
    result, candidates = Claim(), received
    if not received:
        return result
    if autocommits(session):
        raise Misuse("inbox.claim on an autocommit connection: the claim would not share the fate of the effect")
    known = parking.known(session, consumer, received if redriving else ())
    floor, first_hash, unread = _insert(session, consumer, candidates, letters_read=redriving)
    if unread:  # rarely
        known = parking.known(session, consumer, received)
        candidates = [r for r in received if _is_open_question(r, known, result)]
        floor, first_hash, _ = _insert(session, consumer, candidates, letters_read=True)
    for r in candidates:
        first = first_hash.setdefault(r.event.id, r.payload_hash)
        if first is r.payload_hash:
            result.fresh.append(r)
        elif first is None:
            result.refused.append((r, BeyondDedupeWindow() if r.event.id < floor else FutureId()))
        elif first != r.payload_hash and not known.same_event(r.event.id, r.payload_hash, first):
            result.refused.append((r, PayloadMismatch(f"first seen with sha256 {first.hex()}")))
        else:
            result.duplicates += 1
    return result


def _is_open_question(r: Received, known: parking.Known, result: Claim) -> bool:
    """Letters come first: a parked event must not be applied by a redelivery, only by a redrive."""
    if known.is_parked(r.event.id, r.payload_hash):
        return False
    if known.is_parked_otherwise(r.event.id, r.payload_hash):
        result.refused.append((r, PayloadMismatch("parked before with other bytes")))
        return False
    return True


def _insert(
    session: Session, consumer: str, received: Sequence[Received], *, letters_read: bool
) -> tuple[UUID, dict[UUID, bytes | None], bool]:
    """The floor; what is not new, with the hash of its first payload, or None if it lies outside the window; and
    whether there are letters to read first."""
    parameters = {**columns(consumer, received), "letters_read": letters_read}
    answers = session.connection().exec_driver_sql(CLAIM, parameters).all()
    if not answers:
        raise Misuse("inbox_floor has no row: run shared/messaging/schema/inbox.sql")
    floor, _, unread = answers[-1]
    return floor, {event_id: payload_hash for event_id, payload_hash, _ in answers[:-1]}, unread


def columns(consumer: str, received: Sequence[Received]) -> dict[str, object]:
    """An id may be in a batch more than once, in a statement only once: the first is claimed, the copies counted."""
    batch: list[Received] = []
    copies: list[int] = []
    for r in sorted(received, key=lambda r: r.event.id.int):
        if batch and r.event.id.int == batch[-1].event.id.int:
            copies[-1] += 1
        else:
            batch.append(r)
            copies.append(1)
    return {
        "consumer": consumer,
        "ids": [r.event.id for r in batch],
        "hashes": [r.payload_hash for r in batch],
        "copies": copies,
        "topics": [r.topic for r in batch],
        "partitions": [r.partition for r in batch],
        "offsets": [r.offset for r in batch],
    }
