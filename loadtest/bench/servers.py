"""PostgreSQL and Kafka for one run, as the native stack starts them; gone afterwards, also after Ctrl-C or a kill.

TEST_POSTGRES_URL and TEST_KAFKA_BOOTSTRAP point to servers that already run, as for the tests.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import psycopg
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from loadtest.bench.figures import Say
from tests.support.stacks import SECRETS, temporary_stack


@dataclass(frozen=True)
class Bench:
    """What every measurement is given."""

    postgres: str
    kafka: str
    quick: bool
    say: Say

    @property
    def rounds(self) -> int:
        return 3 if self.quick else 5

    @contextmanager
    def database(self, *sql: str) -> Iterator[str]:
        """An empty database in which these statements were run."""
        name = f"bench_{uuid4().hex[:12]}"
        url = self.postgres.rsplit("/", 1)[0] + "/" + name
        with psycopg.connect(self.postgres, autocommit=True) as server:
            server.execute(f'CREATE DATABASE "{name}"')
            try:
                with psycopg.connect(url, autocommit=True) as connection:
                    for statements in sql:
                        connection.execute(statements.encode())
                yield url
            finally:
                server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    @contextmanager
    def topic(self, partitions: int) -> Iterator[str]:
        name = f"bench.{uuid4().hex[:12]}"
        admin = AdminClient({"bootstrap.servers": self.kafka, "log_level": 3})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        try:
            yield name
        finally:
            admin.delete_topics([name])[name].result(30)


@contextmanager
def started(*, quick: bool, say: Say) -> Iterator[Bench]:
    postgres, kafka = os.environ.get("TEST_POSTGRES_URL"), os.environ.get("TEST_KAFKA_BOOTSTRAP")
    if postgres and kafka:
        yield Bench(postgres, kafka, quick, say)
        return
    with temporary_stack("postgres", "kafka") as stack:
        stack.say = say
        stack.up()
        ports = {name: program.published[0] for name, program in stack.plan.programs.items()}
        url = f"postgresql://postgres:{SECRETS['POSTGRES_PASSWORD']}@127.0.0.1:{ports['postgres']}/postgres"
        yield Bench(url, f"127.0.0.1:{ports['kafka']}", quick, say)
