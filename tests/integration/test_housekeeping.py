"""Housekeeping on three real databases: partitions, old rows, and one database that is away."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from prometheus_client import REGISTRY

from infra.native.stack import PROJECT
from services.housekeeping import purges
from services.housekeeping.cron import houses
from services.housekeeping.house import House, visit
from services.housekeeping.rounds import Rounds
from services.housekeeping.settings import HousekeepingSettings
from shared.messaging import retention
from shared.runtime import failpoints
from tests.integration.test_migrations import migrate
from tests.support.streams import scalar
from tests.support.wait import until

SERVICES = ("orders", "billing", "analytics")
NOWHERE = "postgresql://nobody@127.0.0.1:1/nowhere"


@pytest.fixture(scope="module")
def settings(postgres: str) -> Iterator[HousekeepingSettings]:
    """Three databases, migrated once for all tests of this file."""
    urls = {name: postgres.rsplit("/", 1)[0] + f"/house_{name}_{uuid4().hex[:8]}" for name in SERVICES}
    with psycopg.connect(postgres, autocommit=True) as admin:
        for url in urls.values():
            admin.execute(f'CREATE DATABASE "{url.rsplit("/", 1)[1]}"'.encode())
    for name, url in urls.items():
        migrate(name, url)
    yield HousekeepingSettings(
        process="housekeeping",
        **{f"{name}_database_url": url for name, url in urls.items()},  # type: ignore[arg-type]
    )
    with psycopg.connect(postgres, autocommit=True) as admin:
        for url in urls.values():
            admin.execute(f'DROP DATABASE "{url.rsplit("/", 1)[1]}" WITH (FORCE)'.encode())


@pytest.fixture
def three(settings: HousekeepingSettings) -> Iterator[list[House]]:
    made = houses(settings)
    yield made
    for house in made:
        house.engine.dispose()


def metric(name: str, database: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, {"database": database} | labels) or 0.0


def test_days_ahead_are_made_expired_ones_dropped_and_the_inbox_knows_what_it_forgot(
    settings: HousekeepingSettings, three: list[House]
) -> None:
    for house in three:
        visit(house)
    assert [visit(house) for house in three] == [0, 0, 0], "the second visit finds nothing to do"
    shorter = houses(settings.model_copy(update={"inbox_retention_days": 10}))
    assert [visit(house) for house in shorter] == [0, 4, 4], "four days of each inbox are dropped"
    for house in shorter:
        house.engine.dispose()
        assert metric("housekeeping_partitions_ahead_days", house.database, table=house.partitioned) == 15
    with psycopg.connect(settings.billing_database_url) as connection:
        floor, today = connection.execute(
            "SELECT floor, (now() AT TIME ZONE 'UTC')::date FROM inbox_floor"
        ).fetchone() or (None, None)
    assert today is not None
    assert floor == retention.first_id(today - timedelta(days=10)), "what was dropped is below the floor"


def test_a_new_inbox_knows_that_what_is_older_than_its_oldest_day_comes_too_late(database_url: str) -> None:
    migrate("billing", database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        retention.create_partitions(connection, "inbox", back_days=14)
        oldest = retention.partitions(connection, "inbox")[0].first
        assert connection.execute("SELECT floor FROM inbox_floor").fetchone() == (oldest,)


def test_old_minutes_go_in_batches_and_young_ones_stay(three: list[House]) -> None:
    analytics = three[2]
    with psycopg.connect(analytics.url) as connection:
        connection.execute(
            """INSERT INTO minute_sales SELECT date_trunc('minute', now(), 'UTC') - n * interval '1 hour', 'EUR', 1, 1
                 FROM generate_series(0, 99) AS n"""
        )
    answers = iter([True, True, False])
    purged = purges.run(analytics.engine, purges.minute_sales(48), lambda: next(answers), most=20)
    assert purged == 40, "told to stop, it stops between two batches"
    before = metric("housekeeping_rows_purged_total", "analytics", table="minute_sales")
    visit(analytics)
    assert metric("housekeeping_rows_purged_total", "analytics", table="minute_sales") - before in (11, 12)
    assert scalar(analytics.url, "SELECT count(*) FROM minute_sales WHERE minute < now() - interval '48 hours'") == 0
    assert scalar(analytics.url, "SELECT count(*) FROM minute_sales") in (48, 49)


def test_idempotency_keys_are_kept_for_a_day(three: list[House]) -> None:
    orders = three[0]
    with psycopg.connect(orders.url) as connection:
        connection.execute(
            """INSERT INTO idempotency_keys (scope, key, fingerprint, created_at)
               SELECT 'POST /v1/orders', n::text, sha256('body'), now() - n * interval '1 hour'
                 FROM generate_series(1, 30) AS n"""
        )
    visit(orders)
    assert scalar(orders.url, "SELECT max(key::int) FROM idempotency_keys") == 23


def test_one_database_away_does_not_keep_the_others_waiting_and_is_tried_again(
    settings: HousekeepingSettings, three: list[House]
) -> None:
    away = houses(settings.model_copy(update={"orders_database_url": NOWHERE}))[0]
    now = [datetime.now(UTC)]
    rounds = Rounds([away, three[2]], "0 * * * *", clock=lambda: now[0])
    failures = metric("housekeeping_failures_total", "orders")

    def succeeded() -> float:
        return metric("housekeeping_last_success_timestamp_seconds", "analytics")

    for _ in range(2):  # at the start, and at the next tick, with the first house still away
        before = succeeded()
        rounds.step()
        assert succeeded() > before
        before = succeeded()
        rounds.step()
        assert succeeded() == before, "between two ticks there is nothing to do"
        now[0] += timedelta(hours=1)
    until(
        lambda: rounds.step() or metric("housekeeping_failures_total", "orders") >= failures + 3,
        "the one that is away is tried again and again",
    )


def test_once_visits_all_and_its_exit_status_tells_whether_all_went_well(settings: HousekeepingSettings) -> None:
    def once(**urls: str) -> subprocess.CompletedProcess[str]:
        given = {name.upper(): value for name, value in settings.model_dump().items() if name.endswith("_url")}
        return subprocess.run(
            [sys.executable, "-m", "services.housekeeping.cron", "--once"],
            env=os.environ | given | {"PROCESS": "housekeeping"} | urls,
            cwd=PROJECT, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    assert once().returncode == 0
    failed = once(ORDERS_DATABASE_URL=NOWHERE)
    assert failed.returncode == 1
    assert failed.stdout.count('"house kept"') == 2
    assert failed.stdout.count('"house not kept"') == 1


def test_a_crash_before_the_drop_is_committed_leaves_the_partition(three: list[House]) -> None:
    billing = three[1]
    visit(billing)
    partitions = scalar(billing.url, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'inbox'::regclass")
    failpoints.configure("housekeeping.before_commit=error")
    try:
        with psycopg.connect(billing.url, autocommit=True) as connection, pytest.raises(failpoints.InjectedFault):
            retention.drop_expired(connection, "inbox", keep_days=5)
    finally:
        failpoints.configure("")
    assert scalar(billing.url, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'inbox'::regclass") == partitions
