"""How fast the relay is: `python -m loadtest.bench.relay` (TEST_POSTGRES_URL, TEST_KAFKA_BOOTSTRAP).

drain    N rows from the outbox to Kafka, against a bare loop that selects and produces the same rows in the same
         batches with no lock, no acknowledgement per batch and no mark
latency  from the commit of an event to the moment a consumer has it, at a steady rate
"""

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import psycopg
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from shared.messaging import kafka, retention, schema
from shared.messaging.kafka import KafkaSettings
from shared.messaging.relay import SELECT, SESSION, Relay

FILL = """
    INSERT INTO outbox (event_id, topic, key, value, headers)
    SELECT uuidv7(), %s, 'order-' || mod(i, 5000), convert_to(repeat('x', %s), 'UTF8'),
           '{"content-type": "application/cloudevents+json"}'
    FROM generate_series(1, %s) AS i
"""


@dataclass(frozen=True)
class Drain:
    rows: int
    relay_per_s: float
    bare_per_s: float

    @property
    def ratio(self) -> float:
        return self.relay_per_s / self.bare_per_s


@dataclass(frozen=True)
class Latency:
    events: int
    p50_ms: float
    p99_ms: float


def drain(postgres: str, bootstrap: str, *, rows: int = 200_000, value_bytes: int = 700) -> Drain:
    with _outbox(postgres, bootstrap) as (url, topic):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(FILL, (topic, value_bytes, rows))
            connection.execute("ANALYZE outbox")
        bare = _bare_loop(url, bootstrap, rows)
        relay = Relay("bench", url, KafkaSettings(bootstrap))
        while relay.step() == 0:  # connects, takes the shards, makes the producer known
            pass
        started, done = time.perf_counter(), 0
        while step := relay.step():
            done += step
        seconds = time.perf_counter() - started
        relay.close()
    return Drain(rows, done / seconds, bare)


def _bare_loop(url: str, bootstrap: str, rows: int) -> float:
    """The same statement in the same batches; `last seq seen` instead of marks, which is wrong and fast."""
    producer, done = kafka.producer(KafkaSettings(bootstrap)), 0
    producer.list_topics(timeout=10)
    options = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    select = SELECT.replace("published_at IS NULL", "published_at IS NULL AND seq > %(after)s").replace(
        "SELECT event_id, topic", "SELECT seq, topic"
    )
    after = [0] * 8
    with psycopg.connect(url, autocommit=True, options=options) as connection:
        started = time.perf_counter()
        while True:
            batch = []
            for shard in range(8):
                parameters = {
                    "shards": [shard],
                    "after": after[shard],
                    "per_shard": 250,
                    "limit": 2000,
                    "held_back": [],
                }
                part = connection.execute(select, parameters, prepare=True, binary=True).fetchall()
                after[shard] = part[-1][0] if part else after[shard]
                batch += part
            if not batch:
                break
            for _seq, topic, key, value, _headers in batch:
                producer.produce(topic, value, key.encode())
            producer.poll(0)
            done += len(batch)
        producer.flush(60)
        seconds = time.perf_counter() - started
    assert done == rows, (done, rows)
    return done / seconds


@contextmanager
def _outbox(postgres: str, bootstrap: str) -> Iterator[tuple[str, str]]:
    """A database with 29 daily partitions and a topic with 6 partitions, gone afterwards."""
    name = f"bench_{uuid4().hex[:8]}"
    url = postgres.rsplit("/", 1)[0] + "/" + name
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 6, 1)])[name].result(10)
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            schema.install(connection, "outbox")
            retention.create_partitions(connection, "outbox", back_days=14)
        yield url, name
    finally:
        with psycopg.connect(postgres, autocommit=True) as server:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        admin.delete_topics([name])[name].result(10)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loadtest.bench.relay", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    arguments = parser.parse_args()
    postgres, bootstrap = os.environ["TEST_POSTGRES_URL"], os.environ["TEST_KAFKA_BOOTSTRAP"]
    drained = drain(postgres, bootstrap, rows=arguments.rows)
    rates = f"{drained.relay_per_s:,.0f}/s against {drained.bare_per_s:,.0f}/s"
    print(f"drain    {drained.ratio:.2f} × a bare loop   ({rates})")


if __name__ == "__main__":
    main()
