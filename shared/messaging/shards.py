"""Which relay works on which shard: advisory locks of its database session, fairly shared.

does    takes this relay's share of the shards, and gives up what became another's share
reads   pg_locks (how many relays there are)
writes  session advisory locks: one per shard held, and one that says "a relay is here"
next    relay.py
"""

from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

from shared.messaging.errors import Misuse

PRESENCE, SHARD = 0x0B0C0001, 0x0B0C0002
"""The first halves of the lock numbers; advisory locks are counted per database."""

# Everybody who holds the presence lock, in the same order for everybody.
PRESENT = """
    SELECT pg_backend_pid(), array_agg(pid ORDER BY pid)
    FROM pg_locks
    WHERE locktype = 'advisory' AND classid = %s AND objsubid = 2 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Shards:
    """`held` is true as long as the connection lives: the locks go with the session."""

    def __init__(self, connection: Connection[Any], count: int) -> None:
        self._cursor, self._count = connection.cursor(row_factory=tuple_row), count
        self._cursor.execute("SELECT pg_advisory_lock_shared(%s, 0)", (PRESENCE,))
        self.held: list[int] = []

    def rebalance(self) -> None:
        """Call it between batches only: a shard is given up when all its published rows are marked.

        Relays may see a newcomer at different moments. Then a shard is held by nobody for a moment, never by two.
        """
        mine = self._fair_share()
        for shard in set(self.held) - mine:
            self._cursor.execute("SELECT pg_advisory_unlock(%s, %s)", (SHARD, shard))
        kept = mine & set(self.held)
        self._cursor.execute(
            "SELECT shard, pg_try_advisory_lock(%s, shard) FROM unnest(%s::integer[]) AS wanted (shard)",
            (SHARD, sorted(mine - kept)),
        )
        self.held = sorted(kept | {shard for shard, taken in self._cursor if taken})

    def _fair_share(self) -> set[int]:
        own, present = self._cursor.execute(PRESENT, (PRESENCE,)).fetchone() or (0, None)
        if own not in (present or ()):
            raise Misuse("the session that took the locks is gone: is a connection pooler between relay and database?")
        rank = present.index(own)
        return {shard for shard in range(self._count) if shard % len(present) == rank}
