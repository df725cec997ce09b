"""The outbox: `add` is the only way to emit, and misuse is an error at once."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from shared.messaging import outbox
from shared.messaging.errors import FutureId, Invalid, Misuse, UnknownType
from shared.messaging.event import Event
from shared.runtime import database
from tests.support import producing, streams


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    producing.install(database_url)
    engine = database.engine(database_url, "tests")
    yield engine
    engine.dispose()


def add(session: Session, event: Event | None = None, key: str = "k") -> None:
    outbox.add(session, event or producing.counted(1), topic="t", key=key, contracts=producing.CONTRACTS)


def test_add_never_commits(engine: Engine, database_url: str) -> None:
    with Session(engine) as session:
        session.execute(text("SELECT 1"))
        add(session)
        assert producing.unpublished(database_url) == 0
        session.commit()
    assert producing.unpublished(database_url) == 1


def test_without_a_transaction_it_is_an_error_at_once(engine: Engine) -> None:
    with Session(engine) as session, pytest.raises(Misuse, match="has none open"):
        add(session)


def test_in_a_session_that_was_committed_it_is_an_error_at_once(engine: Engine) -> None:
    with Session(engine) as session:
        session.execute(text("SELECT 1"))
        session.commit()
        with pytest.raises(Misuse, match="has none open"):
            add(session)


def test_on_an_autocommit_connection_it_is_an_error_at_once(engine: Engine) -> None:
    autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
    with Session(autocommit) as session, session.begin(), pytest.raises(Misuse, match="autocommit"):
        add(session)


@pytest.mark.parametrize("key", [""])
def test_without_a_key_it_is_an_error_at_once(engine: Engine, key: str) -> None:
    with Session(engine) as session, session.begin(), pytest.raises(Misuse, match="needs a key"):
        add(session, key=key)


def test_an_unknown_type_or_an_impossible_id_is_an_error_at_once(engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        with pytest.raises(UnknownType):
            add(session, streams.order())
        with pytest.raises(FutureId):
            add(session, streams.with_id(producing.counted(1), streams.id_at(datetime.now(UTC) + timedelta(hours=2))))
        with pytest.raises(Invalid):
            add(session, streams.with_id(producing.counted(1), UUID(int=5)))


def test_rows_of_one_key_have_one_shard_and_the_shards_are_all_used(engine: Engine, database_url: str) -> None:
    with Session(engine) as session, session.begin():
        for n in range(200):
            add(session, key=f"key-{n % 100}")
    with psycopg.connect(database_url) as connection:
        shards = connection.execute("SELECT key, count(DISTINCT shard), min(shard) FROM outbox GROUP BY key").fetchall()
    assert {count for _, count, _ in shards} == {1}
    assert {shard for _, _, shard in shards} == set(range(8))


def test_republish_needs_autocommit_and_only_clears_what_was_published(engine: Engine, database_url: str) -> None:
    since = datetime.now(UTC) - timedelta(minutes=1)
    with Session(engine) as session, session.begin():
        for _ in range(5):
            add(session)
    with psycopg.connect(database_url) as connection:
        with pytest.raises(Misuse, match="autocommit"):
            outbox.republish(connection, since)
        connection.execute("UPDATE outbox SET published_at = now() WHERE seq > 2")
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert outbox.republish(connection, datetime.now(UTC) + timedelta(minutes=1)) == 0
        assert outbox.republish(connection, since, chunk=2) == 3
    assert producing.unpublished(database_url) == 5
