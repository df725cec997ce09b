"""What the library counts, for Prometheus. Labels are few and bounded: a consumer's name, a reason, a kind of task.

does    declares every metric in one place
reads   nothing
writes  nothing; shared/runtime/metrics.py renders them
next    the module that counts
"""

from prometheus_client import Counter, Gauge, Histogram

# --- producing: relay.py, refusals.py, retention.py ---

PUBLISHED = Counter("outbox_published_total", "Outbox rows acknowledged by Kafka and marked", ["topic"])
RELAY_BATCH = Histogram("relay_batch_rows", "Rows per batch", buckets=(1, 5, 20, 100, 500, 1000, 2000))
RELAY_SHARDS = Gauge("relay_shards_held", "Shards this relay holds", multiprocess_mode="livesum")
OUTBOX_AGE = Gauge("outbox_oldest_unpublished_age_seconds", "0 when all is published", multiprocess_mode="livemax")
ROWS_REFUSED = Gauge(
    "relay_rows_refused",
    "Keys and topics that stand still, because Kafka refuses a row: ALARM",
    multiprocess_mode="livesum",
)
PARTITIONS_KEPT = Counter(
    "retention_partitions_kept_total", "Expired partitions with unpublished events in them: ALARM"
)

# --- consuming: consumer.py, inbox.py, dead_letters.py ---

CONSUMED = Counter("inbox_consumed_total", "Records taken from the topic and settled", ["consumer"])
APPLIED = Counter("inbox_applied_total", "Events whose effect was committed", ["consumer"])
DUPLICATES = Counter("inbox_duplicates_suppressed_total", "Deliveries of an event already applied", ["consumer"])
SKIPPED = Counter("inbox_skipped_total", "Events of a type this consumer does not handle", ["consumer"])
MISMATCHES = Counter("inbox_payload_mismatches_total", "Known ids with other bytes: integrity incidents", ["consumer"])
PARKED = Counter("dead_letters_parked_total", "Events put aside as dead letters", ["consumer", "reason"])
REDRIVEN = Counter("dead_letters_redriven_total", "Dead letters applied after all", ["consumer"])
OPEN_LETTERS = Gauge("dead_letters_open", "Dead letters that wait for a decision", ["consumer"])
RETRIES = Counter("inbox_retries_total", "Batches tried again because something was away", ["consumer"])
BATCH_SIZE = Histogram(
    "inbox_batch_records", "Records per transaction", ["consumer"], buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500)
)
LAG = Gauge("inbox_lag_records", "Records on the topic that are not settled yet", ["consumer"])
LAG_SECONDS = Gauge("inbox_lag_seconds", "Age of the record in hand or settled last; 0: none waits", ["consumer"])
RECORDS_EXPIRED = Gauge("inbox_records_expired", "1: the topic dropped records this consumer never saw", ["consumer"])
WINDOW_TOO_SHORT = Gauge("inbox_window_too_short", "1: Kafka keeps records longer than the inbox does", ["consumer"])

# --- side effects: tasks.py ---

TASKS = Gauge("tasks", "Tasks that are not done, by kind and state", ["kind", "state"])
TASKS_DONE = Counter("tasks_done_total", "Tasks carried out", ["kind"])
TASKS_FAILED = Counter("tasks_failed_total", "Attempts that failed", ["kind"])
TASKS_DEAD = Counter("tasks_dead_total", "Tasks given up", ["kind"])
