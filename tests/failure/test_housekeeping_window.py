"""housekeeping.before_commit: a partition dropped, not committed. By housekeeping itself, as it runs every hour."""

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from shared.messaging import inbox, retention, schema
from shared.messaging.errors import BeyondDedupeWindow
from shared.runtime import database
from tests.support import shop, streams
from tests.support.processes import LONG, Child
from tests.support.streams import eventually

OLD = datetime.now(UTC) - timedelta(days=20)


# What the services' migrations make and housekeeping purges.
PURGED = b"""
CREATE TABLE idempotency_keys (created_at timestamptz NOT NULL);
CREATE TABLE minute_sales (minute timestamptz NOT NULL);
"""


@pytest.fixture
def url(database_url: str) -> Iterator[str]:
    """One database stands for all three. An event of 20 days ago was applied."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        schema.install(connection, "outbox", "inbox", "tasks")
        connection.execute(PURGED)
        retention.create_partitions(connection, "inbox", back_days=20)
    shop.make_impatient(database_url)
    assert claim(database_url) == "fresh"
    yield database_url
    assert claim(database_url) == "beyond the window"


EVENT = streams.received(streams.order(at=OLD))


def claim(url: str) -> str:
    engine = database.engine(url, "test")
    with Session(engine) as session, session.begin():
        found = inbox.claim(session, "billing", [EVENT])
    engine.dispose()
    if found.refused:
        assert isinstance(found.refused[0][1], BeyondDedupeWindow)
        return "beyond the window"
    return "fresh" if found.fresh else "duplicate"


def keep_house(url: str, action: str = "") -> AbstractContextManager[Child]:
    urls = {f"{name}_DATABASE_URL": url for name in ("ORDERS", "BILLING", "ANALYTICS")}
    failpoints = f"housekeeping.before_commit={action}" if action else ""
    return Child.started(
        "services.housekeeping.cron", "--once", PROCESS="housekeeping", FAILPOINTS=failpoints, **urls
    )  # fmt: skip


def floor_is_raised(url: str) -> bool:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT floor FROM inbox_floor").fetchone()
    return row is not None and row[0] >= retention.first_id(OLD.date() + timedelta(days=1))


def partition_exists(url: str) -> bool:
    return streams.scalar(url, f"SELECT count(to_regclass('inbox_{OLD:%Y%m%d}'))") == 1


def test_killed_before_the_commit_neither_the_partition_nor_the_floor_has_changed(url: str) -> None:
    with keep_house(url, "kill") as killed:
        killed.ends_by(signal.SIGKILL)
    assert (partition_exists(url), floor_is_raised(url)) == (True, False)
    assert claim(url) == "duplicate", "the inbox still remembers"
    with keep_house(url) as next_run:
        next_run.ends_with(0)
    assert (partition_exists(url), floor_is_raised(url)) == (False, True)


def test_asleep_before_the_commit_it_blocks_nobody_for_long_and_the_next_run_does_it(url: str) -> None:
    """It sleeps with a lock on the whole inbox: the server ends its transaction, and consumers go on."""
    with keep_house(url, LONG) as sleeper:
        sleeper.stops()
        eventually(lambda: partition_exists(url) and claim_or_wait(url) == "duplicate", "consumers go on")

        def another_does_it() -> bool:
            with keep_house(url) as other:
                return other.process.wait(90) == 0

        eventually(another_does_it, "another run does it")
        assert (partition_exists(url), floor_is_raised(url)) == (False, True)
        sleeper.wake()
        sleeper.ends_with(1)


def claim_or_wait(url: str) -> str:
    try:
        return claim(url)
    except SQLAlchemyError:
        return "not yet"  # lock_timeout: a consumer tries again
