"""How far a consumer has read, kept in its own database beside the effects.

does    decides where to start; stores the next offset in the caller's transaction
reads   consumer_offsets
writes  consumer_offsets
next    consumer.py, the caller
"""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy.orm import Session

from shared.messaging.errors import DatabaseSetBack
from shared.runtime import logs

Place = tuple[str, int]
"""Topic id and partition. By id: a topic that was created again is another topic."""

# READ COMMITTED: the row lock makes two writers of a place follow each other, and `greatest` keeps what the faster one
# wrote: a consumer that slept and woke up must not set the position back. Sorted, so that two batches cannot deadlock.
STORE = """
INSERT INTO consumer_offsets AS o (consumer, topic_id, topic, partition, next_offset)
SELECT %(consumer)s, p.topic_id, p.topic, p.partition, p.next_offset
  FROM unnest(%(topic_ids)b::text[], %(topics)b::text[], %(partitions)b::int[], %(next)b::bigint[])
       AS p (topic_id, topic, partition, next_offset)
 ORDER BY p.topic_id, p.partition
ON CONFLICT (consumer, topic_id, partition) DO UPDATE
   SET next_offset = greatest(o.next_offset, excluded.next_offset), updated_at = now()
RETURNING topic_id, partition, old.next_offset
"""


# A log that ends before our position has lost its end (a broker without its disk, an unclean election). What comes now
# takes the lost records' offsets: waiting for the old position would skip it. What is read again the inbox knows.
NOT_BEYOND = """
UPDATE consumer_offsets SET next_offset = %s, updated_at = now()
 WHERE consumer = %s AND topic_id = %s AND partition = %s AND next_offset > %s
RETURNING old.next_offset
"""


class InKafka(NamedTuple):
    """What Kafka knows of a partition."""

    committed: int | None
    """The group's offset."""
    first: int
    end: int


def begin(
    session: Session, consumer: str, topics: Mapping[str, str], found: Mapping[Place, InKafka]
) -> dict[Place, int]:
    """Where the database says that these partitions go on.

    One that it does not know begins with the first record that is there, and that is written down at once: what expires
    before anything of it was settled is missed then, loudly. A position beyond the end is set back to it, as loudly.
    """
    for (topic_id, partition), there in found.items():
        place = (there.end, consumer, topic_id, partition, there.end)
        if cut := session.connection().exec_driver_sql(NOT_BEYOND, place).scalar():
            logs.get().error(
                "the topic has lost its end", consumer=consumer, partition=partition, read=cut, end=there.end
            )
    known = stored(session, consumer)
    new = {place: there.first for place, there in found.items() if place not in known}
    if new:
        store(session, consumer, topics, new, {})
    return known | new


def stored(session: Session, consumer: str) -> dict[Place, int]:
    rows = session.connection().exec_driver_sql(
        "SELECT topic_id, partition, next_offset FROM consumer_offsets WHERE consumer = %s", (consumer,)
    )
    return {(topic_id, partition): next_offset for topic_id, partition, next_offset in rows}


def start(in_database: int, there: InKafka) -> int:
    """The lower of the two, Kafka's and the database's: a database set back reads again what it lost.

    Kafka's may lag behind, to where records have expired since. Those that the database has settled nobody misses.
    """
    lower = in_database if there.committed is None else min(in_database, there.committed)
    return max(lower, min(in_database, there.first))


def store(
    session: Session, consumer: str, topics: Mapping[str, str], next_offsets: Mapping[Place, int],
    believed: Mapping[Place, int],
) -> None:  # fmt: skip
    """`believed` is what this process last saw stored: finding less means that commits were lost since."""
    rows = session.connection().exec_driver_sql(
        STORE,
        {
            "consumer": consumer,
            "topic_ids": [topic_id for topic_id, _ in next_offsets],
            "topics": [topics[topic_id] for topic_id, _ in next_offsets],
            "partitions": [partition for _, partition in next_offsets],
            "next": list(next_offsets.values()),
        },
    )
    found = {(topic_id, partition): next_offset or 0 for topic_id, partition, next_offset in rows}
    refuse_set_back(found, {place: believed.get(place, 0) for place in found})


def refuse_set_back(found: Mapping[Place, int], believed: Mapping[Place, int]) -> None:
    for place, expected in believed.items():
        if found.get(place, 0) < expected:
            raise DatabaseSetBack(f"partition {place[1]}: stored {expected}, found {found.get(place, 0)}")
