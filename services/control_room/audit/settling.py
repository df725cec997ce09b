"""Waiting until nothing is in flight, with a limit: then what the audit finds missing is missing."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from confluent_kafka import KafkaException

from services.control_room.audit import topic
from services.control_room.settings import PlacesSettings

# Drafts are not in flight. An invoice that cannot be delivered has arrived where it will ever be.
UNPUBLISHED = "SELECT count(*) FROM outbox WHERE published_at IS NULL"
CONFIRMED = "SELECT count(*) FROM orders WHERE status = 'confirmed'"
INVOICED = "SELECT count(*) FROM invoices"
UNSENT = "SELECT count(*) FROM invoices WHERE sent_at IS NULL AND refusal IS NULL"
COUNTED = "SELECT count(*) FROM counted_orders"
PARKED = "SELECT count(DISTINCT event_id) FROM dead_letters WHERE consumer = %s AND outcome IS DISTINCT FROM 'redriven'"


@dataclass(frozen=True)
class InFlight:
    unpublished: int
    not_invoiced: int
    not_counted: int
    not_mailed: int

    @property
    def total(self) -> int:
        return self.unpublished + self.not_invoiced + self.not_counted + self.not_mailed

    def __str__(self) -> str:
        names = ("unpublished", "not invoiced", "not counted", "not mailed")
        values = (self.unpublished, self.not_invoiced, self.not_counted, self.not_mailed)
        return " · ".join(f"{value} {name}" for name, value in zip(names, values, strict=True) if value) or "nothing"


@dataclass(frozen=True)
class Counts:
    """How many orders have come how far."""

    confirmed: int
    unpublished: int
    invoiced: int
    unsent: int
    counted: int

    @property
    def in_flight(self) -> InFlight:
        """Parked orders have no effect to wait for, so they are not waited for."""
        not_invoiced, not_counted = self.confirmed - self.invoiced, self.confirmed - self.counted
        return InFlight(self.unpublished, max(0, not_invoiced), max(0, not_counted), self.unsent)


def counts(places: PlacesSettings) -> Counts:
    return Counts(
        confirmed=_ask(places, "orders", CONFIRMED),
        unpublished=_ask(places, "orders", UNPUBLISHED),
        invoiced=_ask(places, "billing", INVOICED),
        unsent=_ask(places, "billing", UNSENT),
        counted=_ask(places, "analytics", COUNTED),
    )


def in_flight(places: PlacesSettings) -> InFlight:
    return counts(places).in_flight


def settle(places: PlacesSettings, limit_s: float, say: Callable[[InFlight], None]) -> bool:
    """True when nothing is in flight any more; False when the limit came first, or nothing moves but parked events."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            now = in_flight(places)
            say(now)
            if (now.total == 0 or _only_parked(places, now)) and not any(unread(places).values()):
                return True
        except (psycopg.OperationalError, KafkaException, TimeoutError):
            pass  # what is just coming back is asked again
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)


READ = "SELECT partition, next_offset FROM consumer_offsets WHERE consumer = %s AND topic_id = %s"


def unread(places: PlacesSettings) -> dict[str, int]:
    """Records that each consumer has still to read: copies and bad events too, which no count of orders shows."""
    opened, topic_id = topic.Topic(places.kafka_bootstrap, places.topic), topic.identity(places)
    opened.close()
    behind = {}
    for consumer in ("billing", "analytics"):
        with psycopg.connect(places.database_url(consumer), autocommit=True, connect_timeout=5) as connection:
            read: dict[int, int] = dict(connection.execute(READ, (consumer, topic_id)).fetchall())
        behind[consumer] = sum(max(0, end - read.get(p, opened.first[p])) for p, end in opened.end.items())
    return behind


def _only_parked(places: PlacesSettings, now: InFlight) -> bool:
    """Generous: a letter may be about a bad copy only. Whether it excuses a missing effect, the audit says."""
    if now.unpublished or now.not_mailed:
        return False
    return now.not_invoiced <= _ask(places, "billing", PARKED, "billing") and now.not_counted <= _ask(
        places, "analytics", PARKED, "analytics"
    )


def _ask(places: PlacesSettings, database: str, query: str, *parameters: str) -> int:
    with psycopg.connect(places.database_url(database), autocommit=True, connect_timeout=5) as connection:
        row = connection.execute(query.encode(), parameters).fetchone()
    return int(row[0]) if row else 0
