"""Real servers for the tests that need them, started once per run.

TEST_POSTGRES_URL and TEST_KAFKA_BOOTSTRAP point to servers that already run (for a fast edit-test round).
"""

import os
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest


@pytest.fixture(scope="session")
def postgres() -> str:
    """The superuser's URL of a PostgreSQL 18 for this run."""
    return os.environ["TEST_POSTGRES_URL"]


@pytest.fixture(scope="session")
def kafka() -> str:
    """The bootstrap address of a broker for this run."""
    return os.environ["TEST_KAFKA_BOOTSTRAP"]


@pytest.fixture
def database_url(postgres: str) -> Iterator[str]:
    """An empty database of this test's own."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    yield postgres.rsplit("/", 1)[0] + "/" + name
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
