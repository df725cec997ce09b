"""Which of several equal consumers is this one? A number that is held as long as the process lives.

does    holds the lowest free slot by an advisory lock; knows whether its last holder died
reads   consumer_slots
writes  consumer_slots
next    consumer.py, which makes it the group.instance.id
"""

import time

import psycopg
from sqlalchemy import Engine

from shared.messaging.database_errors import translated
from shared.messaging.errors import Fenced, Transient

# The class of the lock is the consumer's name, so that consumers do not compete for each other's slots.
LOCK = "SELECT pg_try_advisory_lock(hashtext('consumer-slot:' || %s), %s)"
TAKE = """
INSERT INTO consumer_slots (consumer, slot, clean) VALUES (%s, %s, false)
ON CONFLICT (consumer, slot) DO UPDATE SET clean = false, taken_at = now()
RETURNING coalesce(NOT old.clean, false)
"""
IDLE_LIMIT_S = 20
"""A process that sleeps longer loses its slot, and is told so when it wakes."""


class ReplicaSlot:
    """A connection of its own: a pooled one would carry the lock away."""

    def __init__(self, database: Engine, consumer: str, slots: int) -> None:
        self._database, self._consumer = database, consumer
        self._connection = self._connect()
        free = (number for number in range(1, slots + 1) if self._lock(number))
        number = next(free, None)
        if number is None:
            self._connection.close()
            raise Fenced(f"all {slots} replica slots of {consumer} are held")
        self.number = number
        row = self._connection.execute(TAKE, (consumer, number)).fetchone()
        self.after_crash = bool(row and row[0])
        self._checked = time.monotonic()

    def check(self) -> None:
        """Every few seconds. A lost connection is a lost lock: take the same slot again, or end."""
        if time.monotonic() - self._checked < IDLE_LIMIT_S / 4:
            return
        try:
            self._connection.execute("SELECT 1")
        except psycopg.OperationalError:
            self._take_again()
        self._checked = time.monotonic()

    def release(self, *, clean: bool) -> None:
        try:
            if clean:
                self._connection.execute(
                    "UPDATE consumer_slots SET clean = true WHERE consumer = %s AND slot = %s",
                    (self._consumer, self.number),
                )
            self._connection.close()
        except psycopg.OperationalError:
            pass  # the database is away: the lock is gone with it, and the next holder will be careful for nothing

    def _take_again(self) -> None:
        self._connection.close()
        self._connection = self._connect()
        with translated():
            if not self._lock(self.number):
                raise Fenced(f"slot {self.number} of {self._consumer} was lost and is held by another process")
            self._connection.execute(TAKE, (self._consumer, self.number))

    def _lock(self, number: int) -> bool:
        row = self._connection.execute(LOCK, (self._consumer, number)).fetchone()
        return bool(row and row[0])

    def _connect(self) -> psycopg.Connection:
        url = self._database.url.set(drivername="postgresql").render_as_string(hide_password=False)
        try:
            return psycopg.connect(
                url,
                autocommit=True,
                connect_timeout=5,
                application_name=f"{self._consumer}-slot",
                tcp_user_timeout=20_000,
                # The server lets go of a host that lost power or a process that was stopped, not only of a dead one.
                options=f"-c idle_session_timeout={IDLE_LIMIT_S}s -c tcp_keepalives_idle=5 "
                "-c tcp_keepalives_interval=5 -c tcp_keepalives_count=2",
            )
        except psycopg.OperationalError as error:
            raise Transient(str(error)) from error
