"""Roles and databases, on a PostgreSQL of the tests' own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from infra.postgres.databases import NAIVE, SERVICES

ROLES = (*SERVICES, "auditor")


def run(postgres: str, password: str = "secret", *arguments: str) -> subprocess.CompletedProcess[str]:
    passwords = {f"{role.upper()}_DB_PASSWORD": password for role in ROLES}
    return subprocess.run(
        [sys.executable, "-m", "infra.postgres.databases", *arguments],
        env=os.environ | passwords | {"ADMIN_URL": postgres},
        capture_output=True,
        text=True,
        timeout=60,
    )


def connect(postgres: str, role: str, database: str, password: str = "secret") -> psycopg.Connection:
    server = postgres.rsplit("/", 1)[0].rsplit("@", 1)[-1]
    return psycopg.connect(f"postgresql://{role}:{password}@{server}/{database}", connect_timeout=5)


@pytest.fixture(scope="module", autouse=True)
def databases(postgres: str) -> Iterator[None]:
    done = run(postgres)
    assert done.returncode == 0, done.stderr
    yield
    with psycopg.connect(postgres, autocommit=True) as admin:
        for name in (*SERVICES, *NAIVE):
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        for role in ROLES:
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@pytest.mark.parametrize("role", SERVICES)
def test_a_service_reaches_its_own_database_and_no_other(postgres: str, role: str) -> None:
    with connect(postgres, role, role) as own:
        own.execute("CREATE TABLE mine (n int)")
        own.rollback()
    for other in {*SERVICES, "postgres"} - {role, "postgres"}:
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            connect(postgres, role, other)


def test_the_auditor_reads_everything_and_writes_nothing(postgres: str) -> None:
    for name in SERVICES:
        with connect(postgres, name, name) as owner:
            owner.execute("CREATE TABLE seen (n int)")
            owner.execute("INSERT INTO seen VALUES (1)")
        with connect(postgres, "auditor", name) as auditor:
            assert auditor.execute("SELECT n FROM seen").fetchone() == (1,)
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                auditor.execute("INSERT INTO seen VALUES (2)")
            auditor.rollback()
            auditor.execute("SET default_transaction_read_only = off")  # a setting is a hint; privileges are the wall
            auditor.commit()
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                auditor.execute("INSERT INTO seen VALUES (2)")


@pytest.mark.parametrize("role", SERVICES)
def test_a_process_that_stops_in_a_transaction_does_not_block_the_others_for_ever(postgres: str, role: str) -> None:
    with connect(postgres, role, role) as service:
        shown = [
            service.execute(sql.SQL("SHOW {}").format(sql.Identifier(name))).fetchone()
            for name in ("idle_in_transaction_session_timeout", "lock_timeout", "transaction_timeout")
        ]
    assert shown == [("5s",), ("5s",), ("30s",)]


def test_the_naive_shop_has_databases_of_its_own_and_only_when_asked_for(postgres: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        connect(postgres, "orders", "naive_orders")
    assert run(postgres, "secret", "--naive").returncode == 0
    for name, owner in NAIVE.items():
        connect(postgres, owner, name).close()
        connect(postgres, "auditor", name).close()
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            connect(postgres, "analytics", name)


def test_two_runs_at_once_and_a_third_later_do_no_harm(postgres: str) -> None:
    with ThreadPoolExecutor() as pool:
        assert [done.returncode for done in pool.map(run, [postgres] * 2)] == [0, 0]


def test_a_changed_password_is_rotated(postgres: str) -> None:
    assert run(postgres, "another").returncode == 0
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(postgres, "orders", "orders")
    connect(postgres, "orders", "orders", "another").close()
    assert run(postgres).returncode == 0
