"""Invoice numbers without gaps: a block is taken from the series' counter in the transaction that uses it.

The counter's row stays locked until that transaction ends: a rollback gives the numbers back, and nobody can have taken
the next ones meanwhile. A series per partition of the topic keeps several consumers from waiting for each other.
"""

from sqlalchemy.orm import Session

# READ COMMITTED: the row lock makes two takers follow each other, and each sees what the one before has committed.
TAKE = """
INSERT INTO invoice_series AS s (series, next_number) VALUES (%(series)s, 1 + %(count)s)
ON CONFLICT (series) DO UPDATE SET next_number = s.next_number + %(count)s
RETURNING next_number - %(count)s
"""


def take(session: Session, series: int, count: int) -> range:
    """Never commits. Take series in ascending order, or two takers may deadlock."""
    first = session.connection().exec_driver_sql(TAKE, {"series": series, "count": count}).scalar_one()
    return range(first, first + count)
