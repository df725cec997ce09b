"""billing.redrive.before_commit: a letter applied, not committed. By the command that a person would run."""

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from sqlalchemy.orm import Session

from shared.messaging import parking
from shared.messaging.errors import Permanent
from shared.runtime import database
from tests.support import shop, streams
from tests.support.processes import LONG, Child

CONSUMER = "billing"


@pytest.fixture
def url(database_url: str) -> Iterator[str]:
    streams.install(database_url, shop.TABLES["billing"])
    shop.make_impatient(database_url)
    engine = database.engine(database_url, "test")
    with Session(engine) as session, session.begin():
        parking.park(session, CONSUMER, [(streams.received(streams.order()), Permanent("a bug"))])
    engine.dispose()
    yield database_url
    assert len(shop.applied("billing", database_url)) == 1
    assert streams.scalar(database_url, "SELECT count(*) FROM dead_letters WHERE outcome = 'redriven'") == 1


def redrive(url: str, action: str = "") -> AbstractContextManager[Child]:
    failpoints = f"{CONSUMER}.redrive.before_commit={action}" if action else ""
    return Child.started(
        "shared.letters", "redrive", "1",
        DATABASE_URL=url, HANDLERS="tests.support.shop:BILLING_HANDLERS", FAILPOINTS=failpoints,
    )  # fmt: skip


def test_killed_before_the_commit_the_letter_is_still_open_and_is_applied_by_the_next_redrive(url: str) -> None:
    with redrive(url, "kill") as killed:
        killed.ends_by(signal.SIGKILL)
    assert shop.applied("billing", url) == []
    with redrive(url) as next_try:
        next_try.ends_with(0)


def test_asleep_before_the_commit_another_redrive_applies_it_and_the_sleeper_fails(url: str) -> None:
    with redrive(url, LONG) as sleeper:
        sleeper.stops()

        def another_applies_it() -> bool:
            with redrive(url) as other:
                return other.process.wait(90) == 0

        streams.eventually(another_applies_it, "the sleeper's transaction is given up by the server")
        sleeper.wake()
        sleeper.ends_with(1)
