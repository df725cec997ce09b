"""Every service's migrations, on a real database: forward, twice at once, and back."""

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

SERVICES = ("orders", "billing", "analytics")


def migration(service: str, url: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "shared.runtime.migrate", f"services/{service}", *arguments],
        env={"DATABASE_URL": url, "PATH": ""},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def migrate(service: str, url: str, *arguments: str) -> None:
    running = migration(service, url, *arguments)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 0, said


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        )
        return {str(name) for (name,) in rows}


@pytest.mark.parametrize("service", SERVICES)
def test_two_migrations_at_once_end_in_the_same_tables(service: str, database_url: str) -> None:
    running = [migration(service, database_url) for _ in range(3)]
    for one in running:
        said, _ = one.communicate(timeout=60)
        assert one.returncode == 0, said
    assert tables(database_url) > {"alembic_version"}


@pytest.mark.parametrize("service", SERVICES)
def test_a_migration_can_be_undone_and_made_again(service: str, database_url: str) -> None:
    migrate(service, database_url)
    made = tables(database_url)
    migrate(service, database_url, "--to", "base")
    assert tables(database_url) == {"alembic_version"}
    migrate(service, database_url)
    assert tables(database_url) == made
