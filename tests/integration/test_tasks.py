"""Tasks: one holder at a time, and nothing is forgotten."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from shared.messaging import tasks
from shared.messaging.errors import LeaseLost
from shared.messaging.tasks import Task, TaskSettings
from shared.runtime import database
from tests.support import streams

RENDER = TaskSettings("invoice.render", lease_s=30, max_attempts=3, first_retry_s=0)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    streams.install(database_url, days_back=0, days_ahead=0)
    engine = database.engine(database_url, "test", pool_size=12)
    yield engine
    engine.dispose()


def add(engine: Engine, *keys: str) -> int:
    with Session(engine) as session, session.begin():
        return tasks.add(session, "invoice.render", {key: {"n": key} for key in keys})


def lease(engine: Engine, most: int = 1, settings: TaskSettings = RENDER) -> list[Task]:
    with Session(engine) as session, session.begin():
        return tasks.lease(session, settings, most)


def complete(engine: Engine, task: Task) -> None:
    with Session(engine) as session, session.begin():
        tasks.complete(session, task)


def fail(engine: Engine, task: Task, *, for_good: bool = False) -> bool:
    with Session(engine) as session, session.begin():
        return tasks.fail(session, RENDER, task, "no \0 good", for_good=for_good)


def expire_leases(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE tasks SET due_at = now() - interval '1 s' WHERE state = 'leased'")


def test_a_task_is_added_once_over_all_states(engine: Engine) -> None:
    assert add(engine, "a", "b") == 2
    assert add(engine, "b", "c") == 1
    for task in lease(engine, 9):
        complete(engine, task)
    assert add(engine, "a", "b", "c") == 0
    assert lease(engine, 9) == []


def test_a_task_of_a_rolled_back_transaction_never_was(engine: Engine) -> None:
    with Session(engine) as session:
        tasks.add(session, "invoice.render", {"a": None})
        session.rollback()
    assert lease(engine) == []


def test_a_leased_task_has_one_holder_and_comes_back_when_the_lease_runs_out(engine: Engine, database_url: str) -> None:
    add(engine, "a")
    (first,) = lease(engine)
    assert (first.key, first.payload, first.attempts) == ("a", {"n": "a"}, 1)
    assert lease(engine) == []
    expire_leases(database_url)
    (second,) = lease(engine)
    assert (second.key, second.attempts) == ("a", 2)
    with pytest.raises(LeaseLost):
        complete(engine, first)
    with pytest.raises(LeaseLost):
        fail(engine, first)
    complete(engine, second)


def test_a_result_of_a_worker_that_lost_its_lease_is_rolled_back(engine: Engine, database_url: str) -> None:
    add(engine, "a")
    (sleeper,) = lease(engine)
    expire_leases(database_url)
    lease(engine)

    def finish_late() -> None:
        with Session(engine) as session, session.begin():
            tasks.add(session, "invoice.email", {"a": None})
            tasks.complete(session, sleeper)

    with pytest.raises(LeaseLost):
        finish_late()
    assert streams.scalar(database_url, "SELECT count(*) FROM tasks WHERE kind = 'invoice.email'") == 0


def test_holds_tells_how_long_a_lease_still_lasts(engine: Engine, database_url: str) -> None:
    add(engine, "a")
    (task,) = lease(engine)
    with Session(engine) as session, session.begin():
        assert tasks.holds(session, task, at_least_s=20)
        assert not tasks.holds(session, task, at_least_s=40)
    expire_leases(database_url)
    lease(engine)
    with Session(engine) as session, session.begin():
        assert not tasks.holds(session, task)


def test_a_failing_task_is_tried_again_then_dead_then_may_be_reopened(engine: Engine, database_url: str) -> None:
    add(engine, "a")
    assert [fail(engine, lease(engine)[0]) for _ in range(3)] == [False, False, True]
    assert lease(engine) == []
    with Session(engine) as session, session.begin():
        assert tasks.counts(session, ["invoice.render"])["invoice.render", "dead"] == 1
        assert tasks.reopen(session, "invoice.render", "a", {})
        assert not tasks.reopen(session, "invoice.render", "a", {})
    (again,) = lease(engine)
    assert again.attempts == 1


def test_a_task_that_failed_for_good_is_dead_at_once(engine: Engine) -> None:
    add(engine, "a")
    assert fail(engine, lease(engine)[0], for_good=True)
    assert lease(engine) == []


def test_a_task_that_kills_its_worker_every_time_ends_dead(engine: Engine, database_url: str) -> None:
    add(engine, "a")
    for _ in range(3):
        assert len(lease(engine)) == 1
        expire_leases(database_url)
    assert lease(engine) == []
    assert streams.scalar(database_url, "SELECT count(*) FROM tasks WHERE state = 'dead'") == 1


def test_reopen_makes_a_missing_task_and_leaves_a_live_one_alone(engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        assert tasks.reopen(session, "invoice.render", "gone", {})
    (held,) = lease(engine)
    with Session(engine) as session, session.begin():
        assert not tasks.reopen(session, "invoice.render", "gone", {})
    complete(engine, held)


def test_many_workers_at_once_do_each_task_once(engine: Engine, database_url: str) -> None:
    add(engine, *[f"k{n}" for n in range(200)])
    start = threading.Barrier(8)

    def work(_: int) -> list[str]:
        start.wait(10)
        done = []
        while some := lease(engine, 7):
            for task in some:
                complete(engine, task)
                done.append(task.key)
        return done

    with ThreadPoolExecutor(8) as pool:
        done = [key for keys in pool.map(work, range(8)) for key in keys]
    assert len(done) == len(set(done)) == 200
    assert streams.scalar(database_url, "SELECT max(attempts) FROM tasks") == 1


def test_backoff_doubles_with_jitter_up_to_its_limit() -> None:
    settings = TaskSettings("x", first_retry_s=2, retry_limit_s=60)
    for attempts, ceiling in ((1, 2), (2, 4), (4, 16), (9, 60), (500, 60)):
        waits = [tasks.backoff_s(settings, attempts) for _ in range(50)]
        assert ceiling / 2 <= min(waits) < max(waits) <= ceiling


def test_a_purge_takes_old_done_tasks_a_batch_at_a_time_and_nothing_else(engine: Engine, database_url: str) -> None:
    add(engine, "old-1", "old-2", "old-3", "young", "dead")
    for task in lease(engine, 5):
        fail(engine, task, for_good=True) if task.key == "dead" else complete(engine, task)
    add(engine, "alive")
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE tasks SET created_at = now() - interval '99 days'")
        connection.execute(
            "UPDATE tasks SET finished_at = now() - interval '31 days' WHERE key NOT IN ('young', 'alive')"
        )
    assert [purge(engine, 2), purge(engine, 2)] == [2, 1]
    with psycopg.connect(database_url) as connection:
        left = connection.execute("SELECT key, state FROM tasks ORDER BY key").fetchall()
    assert left == [("alive", "queued"), ("dead", "dead"), ("young", "done")]


def test_a_purge_does_not_wait_for_a_task_in_somebodys_hands(engine: Engine, database_url: str) -> None:
    add(engine, "held", "free")
    for task in lease(engine, 2):
        complete(engine, task)
    with psycopg.connect(database_url) as holder:
        holder.execute("UPDATE tasks SET finished_at = now() - interval '31 days'")
        holder.commit()
        holder.execute("SELECT FROM tasks WHERE key = 'held' FOR UPDATE")
        assert purge(engine, 9) == 1
    assert purge(engine, 9) == 1


@pytest.mark.parametrize("statement", [tasks.LEASE, tasks.BURY, tasks.PURGE], ids=["lease", "bury", "purge"])
def test_a_look_for_what_is_due_reads_nothing_else(engine: Engine, statement: str) -> None:
    """By a time that moves, clock_timestamp(), an index cannot look: each would read all that is queued, or done."""
    asked = {"kind": "k", "most": 1, "max_attempts": 3, "lease_s": 1}
    parameters = (30, 1) if statement is tasks.PURGE else asked
    with Session(engine) as session:
        session.connection().exec_driver_sql("SET enable_seqscan = off; SET enable_bitmapscan = off")
        plan = session.connection().exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars().all()
    assert any("Index Cond" in line and re.search("due_at <=|finished_at <", line) for line in plan), plan


def purge(engine: Engine, most: int) -> int:
    with Session(engine) as session, session.begin():
        return tasks.purge(session, older_than_days=30, most=most)
