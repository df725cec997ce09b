"""Real servers for the tests that need them, started once per run.

TEST_POSTGRES_URL and TEST_KAFKA_BOOTSTRAP point to servers that already run: `make test` sets them for its parallel
workers, and a person may for a fast edit-test round (python -m tests.support.servers).
"""

import os
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from infra.native.stack import Stack
from tests.support.stacks import kafka_bootstrap, messaging_servers, postgres_url

pytest_plugins = ["tests.support.orders"]


@pytest.fixture(scope="session")
def servers() -> Iterator[Stack]:
    """PostgreSQL and Kafka, as the native stack runs them, for this test run alone."""
    with messaging_servers() as stack:
        yield stack


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> str:
    """The superuser's URL of a PostgreSQL 18 for this run."""
    return os.environ.get("TEST_POSTGRES_URL") or postgres_url(request.getfixturevalue("servers"))


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> str:
    """The bootstrap address of a broker for this run."""
    return os.environ.get("TEST_KAFKA_BOOTSTRAP") or kafka_bootstrap(request.getfixturevalue("servers"))


@pytest.fixture
def database_url(postgres: str) -> Iterator[str]:
    """An empty database of this test's own."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    yield postgres.rsplit("/", 1)[0] + "/" + name
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
