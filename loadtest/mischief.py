"""Does to the topic what a bad day does, and tells what came of it:

make duplicate [TIMES=100]    an order's event, byte for byte, so many times more
make tamper                   a known id with another payload
make poison [KIND=…]          undecodable, invalid, too-large, unknown-type, null; without KIND each of them
make late                     an event that is older than the inbox remembers
make replay                   both consumer groups read the topic again from its beginning
make republish SINCE=…        Orders sends its events since then once more
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import psycopg
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from psycopg.sql import SQL, Identifier

from infra.native.stack import PROJECT
from loadtest.control_room import Away, ControlRoom, Refused
from services.control_room.audit import settling, topic
from services.control_room.settings import PlacesSettings
from shared.runtime.settings import load

KINDS = ("undecodable", "invalid", "too-large", "unknown-type", "null")
CONSUMERS = {"billing": "invoices", "analytics": "counted_orders"}
SETTLE_S = 60.0


def main() -> int:
    given = _parser().parse_args()
    places = load(PlacesSettings)
    try:
        before = figures(places)
        expected = given.run(ControlRoom.of_environment(), places, given)
        _wait_until_consumed(places, before, expected)
        _tell(before, figures(places))
    except subprocess.CalledProcessError as error:
        print(_last_line(error), file=sys.stderr)
        return 2
    except (Away, Refused, KafkaException, psycopg.OperationalError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m loadtest.mischief", description=__doc__, formatter_class=form)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[ControlRoom, PlacesSettings, Any], int]) -> argparse.ArgumentParser:
        sub = commands.add_parser(name)
        sub.set_defaults(run=run)
        return sub

    command("duplicate", duplicate).add_argument("--times", type=int, default=100)
    command("tamper", lambda room, _places, _given: _one(room.post("/v1/faults/tamper")))
    command("late", lambda room, _places, _given: _one(room.post("/v1/faults/late")))
    command("poison", poison).add_argument("--kind", choices=KINDS)
    command("replay", replay)
    command("republish", republish).add_argument("--since", required=True, type=_moment, help="e.g. 2026-11-18T00:00Z")
    return parser


def _moment(given: str) -> str:
    try:
        with_offset = datetime.fromisoformat(given).tzinfo is not None
    except ValueError:
        with_offset = False
    if not with_offset:
        raise argparse.ArgumentTypeError(f"since when? SINCE=2026-11-18T00:00Z, a time with its offset; got {given!r}")
    return given


def _last_line(error: subprocess.CalledProcessError) -> str:
    told = (error.stderr or b"").decode(errors="replace").strip()
    return told.splitlines()[-1] if told else str(error)


def duplicate(room: ControlRoom, _places: PlacesSettings, given: Any) -> int:
    """Every command answers how many deliveries each consumer can expect."""
    done = room.post("/v1/faults/duplicate", times=given.times)
    print(f"the event of order {done['order_id']} is on the topic {given.times} times more")
    return int(given.times)


def poison(room: ControlRoom, _places: PlacesSettings, given: Any) -> int:
    for kind in [given.kind] if given.kind else KINDS:
        done = room.post("/v1/faults/poison", poison=kind)
        print(f"{kind}: partition {done['places'][0]['partition']} offset {done['places'][0]['first_offset']}")
    return 1 if given.kind else len(KINDS)


def replay(_room: ControlRoom, places: PlacesSettings, _given: Any) -> int:
    """The consumers are stopped, because Kafka moves nobody's offsets under their hands."""
    stack = [str(PROJECT / "infra" / "stack.sh")]
    for consumer in CONSUMERS:
        subprocess.run([*stack, "stop", f"{consumer}-consumer"], cwd=PROJECT, check=True)
    try:
        records = sum(_rewind(places, consumer) for consumer in CONSUMERS) // len(CONSUMERS)
    finally:
        for consumer in CONSUMERS:
            subprocess.run([*stack, "start", f"{consumer}-consumer"], cwd=PROJECT, check=True)
    print(f"both consumers read {records} records again")
    _wait_until_read_again(places)
    return 0


def _wait_until_read_again(places: PlacesSettings) -> None:
    """By Kafka's offsets: they were set back and follow each commit. What is parked, or skipped, counts no delivery."""
    admin, deadline = (
        AdminClient({"bootstrap.servers": places.kafka_bootstrap, "log_level": 3}),
        time.monotonic() + SETTLE_S,
    )
    opened = topic.Topic(places.kafka_bootstrap, places.topic)
    opened.close()
    while time.monotonic() < deadline:
        asked = [admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(c)])[c] for c in CONSUMERS]
        read = [{p.partition: p.offset for p in answer.result(20).topic_partitions or ()} for answer in asked]
        if all(offsets.get(p, 0) >= end for offsets in read for p, end in opened.end.items()):
            return
        time.sleep(0.2)
    print(f"not everything was read within {SETTLE_S:.0f} s", file=sys.stderr)


def _rewind(places: PlacesSettings, group: str) -> int:
    """To the first record that the topic still has: a position before it would be an alarm, and rightly so."""
    admin = AdminClient({"bootstrap.servers": places.kafka_bootstrap, "log_level": 3})
    found = admin.list_topics(places.topic, timeout=20).topics[places.topic].partitions
    asked = admin.list_offsets({TopicPartition(places.topic, p): OffsetSpec.earliest() for p in found})  # type: ignore[no-untyped-call]
    firsts = {place.partition: answer.result(20).offset for place, answer in asked.items()}
    starts = [TopicPartition(places.topic, partition, first) for partition, first in firsts.items()]
    deadline = time.monotonic() + 30
    while True:
        try:
            wanted = ConsumerGroupTopicPartitions(group, starts)
            told = admin.alter_consumer_group_offsets([wanted])[group].result(20).topic_partitions
            # While somebody is in the group, each partition is refused on its own, and the whole looks like a success.
            if not (refused := [place.error for place in told if place.error]):
                break
            raise KafkaException(refused[0])
        except KafkaException:
            if time.monotonic() > deadline:  # a static member is missed only when its session has run out
                raise
            time.sleep(0.5)
    with psycopg.connect(places.database_url(group), autocommit=True) as database:
        read: dict[int, int] = dict(database.execute(settling.READ, (group, topic.identity(places))).fetchall())
    return sum(max(0, read.get(partition, 0) - first) for partition, first in firsts.items())


def republish(_room: ControlRoom, _places: PlacesSettings, given: Any) -> int:
    words = ["exec", "orders-relay", "python", "-m", "services.orders.republish", "--since", given.since]
    told = subprocess.run(
        [str(PROJECT / "infra" / "stack.sh"), *words], cwd=PROJECT, check=True, capture_output=True, env=os.environ
    )
    print(told.stdout.decode().strip())
    return int(told.stdout.split()[0])


def _one(done: dict[str, Any]) -> int:
    print(f"event {done['event_id']} of order {done['order_id']}: {done['places']}")
    return 1


Figures = dict[str, tuple[int, int, int, int]]
FIGURES = """
SELECT (SELECT coalesce(sum(next_offset), 0) FROM consumer_offsets WHERE consumer = %(consumer)s),
       (SELECT coalesce(sum(deliveries), 0) FROM inbox WHERE consumer = %(consumer)s),
       (SELECT count(*) FROM {effects}),
       (SELECT count(*) FROM dead_letters WHERE consumer = %(consumer)s AND closed_at IS NULL)
"""


def figures(places: PlacesSettings) -> Figures:
    """Per consumer: records read, deliveries counted, effects, open dead letters."""
    found = {}
    for consumer, effects in CONSUMERS.items():
        with psycopg.connect(places.database_url(consumer), autocommit=True) as database:
            query = SQL(FIGURES).format(effects=Identifier(effects))
            row = database.execute(query, {"consumer": consumer}).fetchone()
        assert row is not None
        found[consumer] = (int(row[0]), int(row[1]), int(row[2]), int(row[3]))
    return found


def _wait_until_consumed(places: PlacesSettings, before: Figures, expected: int) -> None:
    """New records move the offsets; a replay moves only the deliveries."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        now = figures(places)
        if all(max(now[c][0] - before[c][0], now[c][1] - before[c][1]) >= expected for c in CONSUMERS):
            return
        time.sleep(0.2)
    print(f"not everything was consumed within {SETTLE_S:.0f} s", file=sys.stderr)


def _tell(before: Figures, after: Figures) -> None:
    for consumer, effects in CONSUMERS.items():
        _, deliveries, applied, parked = (
            now - then for now, then in zip(after[consumer], before[consumer], strict=True)
        )
        name = effects.replace("_", " ")
        print(f"{consumer:<10} deliveries +{deliveries}   {name} +{applied}   parked +{parked}")


if __name__ == "__main__":
    sys.exit(main())
