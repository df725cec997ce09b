"""The claim: of everything delivered, what is new?"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from shared.messaging import database_errors, inbox, parking
from shared.messaging.errors import (
    BeyondDedupeWindow,
    FutureId,
    Misuse,
    PartitionMissing,
    PayloadMismatch,
    Permanent,
    TooSlow,
    Transient,
)
from shared.messaging.inbox import Claim
from shared.messaging.records import Received
from shared.runtime import database
from tests.support import streams


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    streams.install(database_url, "CREATE TABLE effects (event_id uuid NOT NULL, worker int)")
    engine = database.engine(database_url, "test", pool_size=12)
    yield engine
    engine.dispose()


def claim(engine: Engine, *received: Received, consumer: str = "billing", redriving: bool = False) -> Claim:
    with Session(engine) as session, session.begin():
        return inbox.claim(session, consumer, received, redriving=redriving)


def test_an_event_is_fresh_once(engine: Engine) -> None:
    r = streams.received(streams.order())
    assert claim(engine, r).fresh == [r]
    again = claim(engine, r)
    assert (again.fresh, again.duplicates) == ([], 1)


def test_a_claim_on_an_autocommit_connection_is_refused(engine: Engine, database_url: str) -> None:
    """It would be committed before its effect, and a crash between the two would lose the event."""
    with Session(engine.execution_options(isolation_level="AUTOCOMMIT")) as session, pytest.raises(Misuse):
        inbox.claim(session, "billing", [streams.received(streams.order())])
    assert streams.scalar(database_url, "SELECT count(*) FROM inbox") == 0


def test_a_rollback_hands_the_event_to_the_next_claimer(engine: Engine) -> None:
    r = streams.received(streams.order())
    with Session(engine) as session:
        assert inbox.claim(session, "billing", [r]).fresh == [r]
        session.rollback()
    assert claim(engine, r).fresh == [r]


def test_two_consumers_each_apply_the_same_event(engine: Engine) -> None:
    r = streams.received(streams.order())
    assert claim(engine, r, consumer="billing").fresh == [r]
    assert claim(engine, r, consumer="analytics").fresh == [r]


def test_copies_in_one_batch_are_applied_once_and_counted(engine: Engine, database_url: str) -> None:
    event = streams.order()
    copies = [streams.received(event, offset=n) for n in range(3)]
    result = claim(engine, *copies)
    assert (result.fresh, result.duplicates) == ([copies[0]], 2)
    claim(engine, copies[0])
    assert streams.scalar(database_url, "SELECT deliveries FROM inbox") == 4


def test_fresh_events_keep_the_order_of_delivery(engine: Engine) -> None:
    batch = [streams.received(streams.order(), offset=n) for n in range(20)]
    batch.reverse()
    assert claim(engine, *batch).fresh == batch


def test_same_id_with_other_bytes_is_a_mismatch_not_a_duplicate(engine: Engine) -> None:
    first = streams.order()
    other = streams.with_id(streams.order(cents=99), first.id)
    claim(engine, streams.received(first))
    assert refusals(claim(engine, streams.received(other))) == [PayloadMismatch]


def test_same_id_with_other_bytes_within_one_batch_is_a_mismatch(engine: Engine) -> None:
    first = streams.order()
    other = streams.with_id(streams.order(cents=99), first.id)
    result = claim(engine, streams.received(first), streams.received(other))
    assert [r.event.id for r in result.fresh] == [first.id]
    assert refusals(result) == [PayloadMismatch]


def test_an_event_below_the_floor_is_refused_though_its_partition_is_gone(engine: Engine, database_url: str) -> None:
    now = datetime.now(UTC)
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE inbox_floor SET floor = %s", (streams.smallest_id(now - timedelta(hours=2)),))
    old = streams.received(streams.order(at=now - timedelta(days=40)))
    good = streams.received(streams.order())
    result = claim(engine, old, good)
    assert result.fresh == [good]
    assert refusals(result) == [BeyondDedupeWindow]


def test_an_id_from_the_future_is_refused(engine: Engine) -> None:
    soon = streams.received(streams.order(at=datetime.now(UTC) + timedelta(minutes=30)))
    later = streams.received(streams.order(at=datetime.now(UTC) + timedelta(minutes=90)))
    result = claim(engine, later, soon)
    assert result.fresh == [soon]
    assert refusals(result) == [FutureId]


def test_a_day_without_a_partition_is_transient(engine: Engine) -> None:
    unheard = streams.received(streams.order(at=datetime.now(UTC) - timedelta(days=10)))
    with pytest.raises(PartitionMissing), database_errors.translated():
        claim(engine, unheard)


def test_the_claim_waits_for_housekeeping_and_sees_the_floor_it_raised(engine: Engine, database_url: str) -> None:
    now = datetime.now(UTC)
    old = streams.received(streams.order(at=now - timedelta(days=2)))
    answers: list[Claim] = []
    with psycopg.connect(database_url) as housekeeping:
        housekeeping.execute("UPDATE inbox_floor SET floor = %s", (streams.smallest_id(now - timedelta(days=1)),))
        thread = threading.Thread(target=lambda: answers.append(claim(engine, old)))
        thread.start()
        streams.eventually(lambda: waiting(database_url) == 1, "the claim waits for the floor")
        housekeeping.commit()
    thread.join(10)
    assert refusals(answers[0]) == [BeyondDedupeWindow]


def test_housekeeping_waits_for_a_claim_in_flight(engine: Engine, database_url: str) -> None:
    with Session(engine) as session:
        inbox.claim(session, "billing", [streams.received(streams.order())])
        with psycopg.connect(database_url) as housekeeping:
            housekeeping.execute("SET lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                housekeeping.execute("UPDATE inbox_floor SET floor = floor")


def test_ten_workers_with_the_same_events_apply_each_once(engine: Engine, database_url: str) -> None:
    deliveries = [streams.received(streams.order(), offset=n) for n in range(300)]
    start = threading.Barrier(10)

    def work(worker: int) -> int:
        mine = deliveries[worker * 17 :] + deliveries[: worker * 17]
        start.wait(10)
        return sum(apply(engine, mine[n : n + 50], worker) for n in range(0, len(mine), 50))

    with ThreadPoolExecutor(10) as pool:
        fresh = sum(pool.map(work, range(10)))
    assert fresh == 300
    assert streams.scalar(database_url, "SELECT count(*) FROM effects") == 300
    assert streams.scalar(database_url, "SELECT count(DISTINCT event_id) FROM effects") == 300
    assert streams.scalar(database_url, "SELECT sum(deliveries) FROM inbox") == 3000


def test_overlapping_batches_in_opposite_orders_do_not_deadlock(engine: Engine, database_url: str) -> None:
    """Each batch is claimed in the order of ids, so that the second waits and neither has to be thrown back."""
    deliveries = [streams.received(streams.order(), offset=n) for n in range(3000)]
    start = threading.Barrier(4)

    def work(worker: int) -> int:
        start.wait(10)
        batch = deliveries if worker % 2 else deliveries[::-1]
        with Session(engine) as session, session.begin():
            return len(inbox.claim(session, "billing", batch).fresh)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(work, range(4))) == [0, 0, 0, 3000]


def apply(engine: Engine, batch: list[Received], worker: int) -> int:
    """Like a consumer: claim and effect together, and the same batch again after a passing failure."""
    for _ in range(20):
        try:
            with database_errors.translated(), Session(engine) as session, session.begin():
                fresh = inbox.claim(session, "billing", batch).fresh
                session.connection().exec_driver_sql(
                    "INSERT INTO effects SELECT e, %s FROM unnest(%s::uuid[]) AS e",
                    (worker, [r.event.id for r in fresh]),
                )
                return len(fresh)
        except Transient:
            continue
    raise AssertionError("twenty passing failures in a row")


def test_a_parked_event_is_not_applied_by_a_redelivery(engine: Engine, database_url: str) -> None:
    r = streams.received(streams.order())
    park(engine, r, Permanent("no"))
    result = claim(engine, r)
    assert (result.fresh, result.duplicates, result.refused) == ([], 0, [])
    park(engine, r, Permanent("no"))
    assert streams.scalar(database_url, "SELECT count(*) FROM dead_letters") == 1
    assert streams.scalar(database_url, "SELECT count(*) FROM inbox") == 0


def test_other_bytes_under_a_parked_id_are_a_mismatch(engine: Engine) -> None:
    first = streams.order()
    park(engine, streams.received(first), Permanent("no"))
    other = streams.received(streams.with_id(streams.order(cents=1), first.id))
    assert refusals(claim(engine, other)) == [PayloadMismatch]


def test_a_letter_about_a_mismatch_does_not_stop_the_original(engine: Engine) -> None:
    first = streams.order()
    other = streams.received(streams.with_id(streams.order(cents=1), first.id))
    park(engine, other, PayloadMismatch("seen before"))
    assert len(claim(engine, streams.received(first)).fresh) == 1


def test_an_event_applied_meanwhile_gets_no_letter(engine: Engine, database_url: str) -> None:
    r = streams.received(streams.order())
    claim(engine, r)
    park(engine, r, Permanent("a slow consumer thought it bad"))
    assert streams.scalar(database_url, "SELECT count(*) FROM dead_letters") == 0


def park(engine: Engine, r: Received, problem: Permanent) -> None:
    with Session(engine) as session, session.begin():
        parking.park(session, "billing", [(r, problem)])


def refusals(result: Claim) -> list[type[Permanent]]:
    return [type(problem) for _, problem in result.refused]


def waiting(url: str) -> int:
    return streams.scalar(
        url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )


MISSING = {
    "40001": "serialization", "40P01": "deadlock", "55P03": "lock_timeout", "57014": "statement_timeout",
    "57P01": "shutdown", "25P03": "idle in transaction", "25P04": "transaction_timeout", "53300": "too many",
    "25006": "read only", "08006": "connection failure",
}  # fmt: skip


@pytest.mark.parametrize("state", MISSING)
def test_passing_database_errors_are_transient(engine: Engine, state: str) -> None:
    with pytest.raises(Transient) as caught, database_errors.translated():
        raise_in_database(engine, state)
    assert isinstance(caught.value, TooSlow) == (state in ("57014", "25P03", "25P04"))


@pytest.mark.parametrize("state", ["23505", "23502", "22001", "42P01"])
def test_lasting_database_errors_are_not(engine: Engine, state: str) -> None:
    with pytest.raises(Exception, match="planted") as caught, database_errors.translated():
        raise_in_database(engine, state)
    assert not isinstance(caught.value, Transient)


def test_a_broken_check_is_not_taken_for_a_missing_partition(engine: Engine) -> None:
    """Both are SQLSTATE 23514."""
    broken = "INSERT INTO tasks (kind, key) VALUES ('', 'x')"
    with pytest.raises(IntegrityError), database_errors.translated(), Session(engine) as session, session.begin():
        session.connection().exec_driver_sql(broken)


def test_a_connection_cut_in_the_middle_is_transient(engine: Engine, database_url: str) -> None:
    def cut_myself_off() -> None:
        with Session(engine) as session, session.begin():
            pid = session.connection().exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            streams.scalar(database_url, "SELECT pg_terminate_backend(%s)::int", pid)
            inbox.claim(session, "billing", [streams.received(streams.order())])

    with pytest.raises(Transient), database_errors.translated():
        cut_myself_off()


def test_an_unreachable_server_is_transient() -> None:
    nowhere = database.engine(f"postgresql://nobody@127.0.0.1:1/{uuid4().hex}", "test")
    connect: Callable[[], object] = nowhere.connect
    with pytest.raises(Transient), database_errors.translated():
        connect()


def raise_in_database(engine: Engine, state: str) -> None:
    with Session(engine) as session, session.begin():
        session.connection().exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '{state}'; END $$")
