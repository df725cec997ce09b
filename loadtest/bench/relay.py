"""Draining the outbox: the relay against a bare loop that only selects and produces."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from loadtest.bench import orders
from loadtest.bench.figures import Figure, in_turn, ratio
from loadtest.bench.servers import Bench
from shared.messaging import kafka, outbox, retention, schema
from shared.messaging.kafka import KafkaSettings
from shared.messaging.relay import SESSION, Relay, RelaySettings

PARTITIONS = 3
SAMPLES = 1000

FILL = """
    INSERT INTO outbox (event_id, topic, key, value, headers)
    SELECT uuidv7(), %(topic)s, sample.key || mod(round, 5), sample.value, %(headers)s::jsonb
    FROM generate_series(1, %(rounds)s) AS round, unnest(%(keys)b::text[], %(values)b::bytea[]) AS sample (key, value)
"""

# The relay's SELECT, except that it remembers how far it came: wrong (a lower seq may commit later), and fast.
BARE_SELECT = """
    SELECT row.*
    FROM unnest(%(shards)s::smallint[], %(after)s::bigint[]) AS wanted (shard, after)
    CROSS JOIN LATERAL (
        SELECT outbox.shard, seq, topic, key, value FROM outbox
        WHERE outbox.shard = wanted.shard AND published_at IS NULL AND seq > wanted.after
        ORDER BY seq LIMIT %(per_shard)s
    ) AS row
"""


def measure(bench: Bench) -> list[Figure]:
    rows = 40_000 if bench.quick else 200_000
    bench.say(f"relay: {rows:,} rows of the outbox")
    with Outbox.installed(bench) as place:
        ways = {"relay": lambda: place.drained(rows), "bare loop": lambda: place.looped(rows)}
        rates = in_turn(ways, rounds=bench.rounds, unit="/s", say=bench.say)
    return [ratio("relay", "relay against a bare loop", *rates.values(), at_least=0.2)]


@dataclass(frozen=True)
class Outbox:
    url: str
    topic: str
    kafka: KafkaSettings

    @classmethod
    @contextmanager
    def installed(cls, bench: Bench) -> Iterator["Outbox"]:
        """With 29 daily partitions, as it is after two weeks."""
        with bench.topic(PARTITIONS) as topic, bench.database() as url:
            with psycopg.connect(url, autocommit=True) as connection:
                schema.install(connection, "outbox")
                retention.create_partitions(connection, "outbox", back_days=14)
            yield cls(url, topic, KafkaSettings(bench.kafka))

    def fill(self, rows: int) -> None:
        """The rows are on the disk and the statistics are fresh when the clock starts."""
        self.add(rows)
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE outbox")
            connection.execute("CHECKPOINT")

    def add(self, rows: int) -> None:
        samples = list(orders.values(SAMPLES))
        columns = {"keys": [key for key, _ in samples], "values": [value for _, value in samples]}
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("TRUNCATE outbox")
            parameters = {"topic": self.topic, "headers": outbox.HEADERS, "rounds": rows // SAMPLES, **columns}
            connection.execute(FILL, parameters)
            connection.execute(f"NOTIFY {outbox.CHANNEL}")

    def drained(self, rows: int) -> float:
        """From the end of the first batch: connecting and taking the shards is not what is measured."""
        self.fill(rows)
        relay = Relay("bench", self.url, self.kafka)
        try:
            first = 0
            while not first:
                first = relay.step()
            started, done = time.perf_counter(), 0
            while step := relay.step():
                done += step
            seconds = time.perf_counter() - started
        finally:
            relay.close()
        if first + done != rows:
            raise RuntimeError(f"{rows} rows, published {first + done}")
        return done / seconds

    def looped(self, rows: int) -> float:
        """No lock, no waiting for acknowledgements between batches, no mark."""
        self.fill(rows)
        producer, done = kafka.producer(self.kafka), 0
        producer.list_topics(timeout=10)
        settings = RelaySettings()
        after = dict.fromkeys(range(settings.shards), 0)
        per_shard = settings.max_batch_rows // settings.shards
        options = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
        with psycopg.connect(self.url, autocommit=True, options=options) as connection:
            started = time.perf_counter()
            while batch := connection.execute(
                BARE_SELECT,
                {"shards": list(after), "after": list(after.values()), "per_shard": per_shard},
                prepare=True,
                binary=True,
            ).fetchall():
                for shard, seq, topic, key, value in batch:
                    try:
                        producer.produce(topic, value, key.encode())
                    except BufferError:  # it outruns Kafka, and has to wait as any program would
                        producer.flush()
                        producer.produce(topic, value, key.encode())
                    after[shard] = seq
                producer.poll(0)
                done += len(batch)
            producer.flush(60)
            seconds = time.perf_counter() - started
        if done != rows:
            raise RuntimeError(f"{rows} rows, produced {done}")
        return done / seconds
