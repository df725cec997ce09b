"""What housekeeping counts, for Prometheus."""

from prometheus_client import Counter, Gauge

CREATED = Counter("housekeeping_partitions_created_total", "Partitions made ahead of time", ["database", "table"])
DROPPED = Counter("housekeeping_partitions_dropped_total", "Expired partitions dropped", ["database", "table"])
AHEAD = Gauge("housekeeping_partitions_ahead_days", "Days from today that have a partition", ["database", "table"])
PURGED = Counter("housekeeping_rows_purged_total", "Rows nobody needs any more, deleted", ["database", "table"])
DURATION = Gauge("housekeeping_duration_seconds", "How long the last visit took", ["database"])
LAST_SUCCESS = Gauge("housekeeping_last_success_timestamp_seconds", "When all was done last; 0: never", ["database"])
FAILURES = Counter("housekeeping_failures_total", "Visits that failed and are tried again", ["database"])


def declare(database: str) -> None:
    """From the start, so that an alarm sees 0 and not nothing."""
    LAST_SUCCESS.labels(database)
    FAILURES.labels(database)
