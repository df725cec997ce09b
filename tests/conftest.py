"""Real servers for the tests that need them, started once per run.

TEST_POSTGRES_URL and TEST_KAFKA_BOOTSTRAP point to servers that already run (for a fast edit-test round).
"""

import os
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from infra.native.stack import Stack
from tests.support.stacks import SECRETS, temporary_stack

pytest_plugins = ["tests.support.orders"]


@pytest.fixture(scope="session")
def servers() -> Iterator[Stack]:
    """PostgreSQL and Kafka, as the native stack runs them, for this test run alone."""
    with temporary_stack("postgres", "kafka") as stack:
        stack.up()
        yield stack


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> str:
    """The superuser's URL of a PostgreSQL 18 for this run."""
    if url := os.environ.get("TEST_POSTGRES_URL"):
        return url
    port = request.getfixturevalue("servers").plan.programs["postgres"].published[0]
    return f"postgresql://postgres:{SECRETS['POSTGRES_PASSWORD']}@127.0.0.1:{port}/postgres"


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> str:
    """The bootstrap address of a broker for this run."""
    if bootstrap := os.environ.get("TEST_KAFKA_BOOTSTRAP"):
        return bootstrap
    return f"127.0.0.1:{request.getfixturevalue('servers').plan.programs['kafka'].published[0]}"


@pytest.fixture
def database_url(postgres: str) -> Iterator[str]:
    """An empty database of this test's own."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    yield postgres.rsplit("/", 1)[0] + "/" + name
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
