"""Invoice numbers without gaps: a block is taken from each series' counter in the transaction that uses it.

The counters' rows stay locked until that transaction ends: a rollback gives the numbers back, and nobody can have taken
the next ones meanwhile. A series per partition of the topic keeps several consumers from waiting for each other.
"""

from collections.abc import Iterator, Mapping

from sqlalchemy.orm import Session

# READ COMMITTED: the row lock makes two takers follow each other, and each sees what the one before has committed. In
# the order of the series, or two takers may deadlock.
TAKE = """
INSERT INTO invoice_series AS s (series, next_number)
SELECT series, 1 + count FROM unnest(%b::integer[], %b::bigint[]) AS wanted (series, count) ORDER BY series
ON CONFLICT (series) DO UPDATE SET next_number = s.next_number + excluded.next_number - 1
RETURNING series, next_number
"""


def take(session: Session, counts: Mapping[int, int]) -> dict[int, Iterator[int]]:
    """So many numbers of each series, ascending. Never commits."""
    taken = session.connection().exec_driver_sql(TAKE, (list(counts), list(counts.values())))
    return {series: iter(range(following - counts[series], following)) for series, following in taken}
