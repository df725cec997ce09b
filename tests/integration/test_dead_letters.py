"""Dead letters: what a person can do with an event that was parked, as functions and as a command."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from shared.contracts import CONTRACTS
from shared.letters import __main__ as command
from shared.messaging import dead_letters, inbox, metrics, parking, records
from shared.messaging.dead_letters import DeadLetter
from shared.messaging.errors import BeyondDedupeWindow, Invalid, Misuse, PayloadMismatch, Permanent
from shared.messaging.event import Event
from shared.messaging.records import Received, Record
from shared.runtime import database
from tests.support import shop, streams

HANDLERS = shop.BILLING_HANDLERS


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    streams.install(database_url, shop.TABLES["billing"])
    engine = database.engine(database_url, "test")
    yield engine
    engine.dispose()


def park(engine: Engine, event: Event, problem: Permanent | None = None) -> int:
    return park_bytes(engine, streams.encoded(event), problem)


def park_bytes(engine: Engine, value: bytes, problem: Permanent | None = None) -> int:
    record = as_record(value)
    with Session(engine) as session, session.begin():
        found = problem or getattr(record, "problem", None) or Permanent("a bug")
        parking.park(session, "billing", [(record, found)])
        return max(letter.id for letter in dead_letters.listed(session))


def as_record(value: bytes) -> Record:
    return records.parse(Record("t", "orders", 0, 7, b"k", value, records.digest(value), 0), CONTRACTS)


def deliver(engine: Engine, value: bytes) -> inbox.Claim:
    """As the consumer does: claim, apply."""
    received = as_record(value)
    assert isinstance(received, Received)
    with Session(engine) as session, session.begin():
        claim = inbox.claim(session, "billing", [received])
        shop.invoice(session, claim.fresh)
    return claim


def letter(engine: Engine, letter_id: int) -> DeadLetter:
    with Session(engine) as session:
        return dead_letters.show(session, letter_id)


def test_a_redriven_letter_is_applied_once_and_closed(engine: Engine, database_url: str) -> None:
    order = streams.order()
    number = park(engine, order)
    before = metrics.REDRIVEN.labels("billing")._value.get()
    assert dead_letters.redrive(engine, number, HANDLERS, CONTRACTS) == "applied"
    assert metrics.REDRIVEN.labels("billing")._value.get() == before + 1
    assert shop.applied("billing", database_url) == [order.subject]
    with pytest.raises(Misuse, match="closed: redriven"):
        dead_letters.redrive(engine, number, HANDLERS, CONTRACTS)
    assert deliver(engine, streams.encoded(order)).duplicates == 1


def test_a_letter_about_an_event_applied_meanwhile_is_closed_without_a_second_effect(
    engine: Engine, database_url: str
) -> None:
    order = streams.order()
    number = park(engine, order)
    with psycopg.connect(database_url) as connection:  # an operator's SQL, or a restored table
        connection.execute("UPDATE dead_letters SET closed_at = now(), outcome = 'redriven'")
    deliver(engine, streams.encoded(order))
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE dead_letters SET closed_at = NULL, outcome = NULL")
    assert dead_letters.redrive(engine, number, HANDLERS, CONTRACTS) == "had been applied already"
    assert shop.applied("billing", database_url) == [order.subject]


def test_a_redrive_that_fails_leaves_the_letter_open_with_the_new_reason(engine: Engine, database_url: str) -> None:
    order = streams.order()
    deliver(engine, streams.encoded(order))
    again = park(engine, streams.order(UUID(order.subject)))
    with pytest.raises(shop.AlreadyInvoiced):
        dead_letters.redrive(engine, again, HANDLERS, CONTRACTS)
    found = letter(engine, again)
    assert (found.closed_at, found.attempts, found.error) == (None, 2, "This order has an invoice.")
    assert streams.scalar(database_url, "SELECT count(*) FROM inbox") == 1, "the failed claim was rolled back"


def test_an_event_beyond_the_window_is_redriven_only_when_lateness_is_accepted(
    engine: Engine, database_url: str
) -> None:
    now = datetime.now(UTC)
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE inbox_floor SET floor = %s", (streams.smallest_id(now - timedelta(days=1)),))
    late = streams.order(at=now - timedelta(days=30))
    number = park(engine, late, BeyondDedupeWindow())
    with pytest.raises(BeyondDedupeWindow):
        dead_letters.redrive(engine, number, HANDLERS, CONTRACTS)
    assert dead_letters.redrive(engine, number, HANDLERS, CONTRACTS, accept_late=True) == "applied"
    # No inbox row can guard it; the permanent business key does.
    second = park_bytes(engine, streams.encoded(streams.order(UUID(late.subject))), BeyondDedupeWindow())
    with pytest.raises(shop.AlreadyInvoiced):
        dead_letters.redrive(engine, second, HANDLERS, CONTRACTS, accept_late=True)
    assert shop.applied("billing", database_url) == [late.subject]


def test_a_repaired_letter_keeps_the_original_and_both_payloads_are_known(engine: Engine, database_url: str) -> None:
    order = streams.order()
    good = streams.encoded(order)
    broken = good.replace(b'"EUR"', b'"euro"')
    number = park_bytes(engine, broken)
    with pytest.raises(Invalid):
        dead_letters.redrive(engine, number, HANDLERS, CONTRACTS)
    dead_letters.repair(engine, number, good, CONTRACTS)
    found = letter(engine, number)
    assert (found.value, found.repaired_value) == (broken, good)
    # While it waits, neither payload is applied by a delivery.
    assert deliver(engine, good).fresh == []
    assert dead_letters.redrive(engine, number, HANDLERS, CONTRACTS) == "applied"
    assert deliver(engine, good).duplicates == 1
    assert park_bytes_again(engine, broken) == 1, "the original bytes find their letter"
    assert shop.applied("billing", database_url) == [order.subject]


def test_an_original_that_became_readable_is_known_beside_its_repair(engine: Engine, database_url: str) -> None:
    """The contract was corrected after the repair: the original bytes are the same event, not a mismatch."""
    order = streams.order()
    original = streams.encoded(order)
    repaired = streams.encoded(streams.with_id(streams.order(UUID(order.subject), cents=99), order.id))
    number = park_bytes(engine, original)
    dead_letters.repair(engine, number, repaired, CONTRACTS)
    dead_letters.redrive(engine, number, HANDLERS, CONTRACTS)
    again = deliver(engine, original)
    assert (again.duplicates, again.fresh, again.refused) == (1, [], [])
    other = streams.encoded(streams.with_id(streams.order(cents=1), order.id))
    assert [type(problem) for _, problem in deliver(engine, other).refused] == [PayloadMismatch]


def park_bytes_again(engine: Engine, value: bytes) -> int:
    park_bytes_quietly(engine, value)
    with Session(engine) as session:
        return len(dead_letters.listed(session)) + len(dead_letters.listed(session, closed=True))


def park_bytes_quietly(engine: Engine, value: bytes) -> None:
    with Session(engine) as session, session.begin():
        parking.park(session, "billing", [(as_record(value), Permanent("again"))])


def test_a_repair_must_be_the_same_event_and_must_be_one(engine: Engine) -> None:
    number = park(engine, streams.order())
    with pytest.raises(Misuse, match="the letter is about"):
        dead_letters.repair(engine, number, streams.encoded(streams.order()), CONTRACTS)
    with pytest.raises(Permanent):
        dead_letters.repair(engine, number, b"{}", CONTRACTS)


def test_a_discarded_event_is_not_applied_by_a_replay(engine: Engine, database_url: str) -> None:
    order = streams.order()
    number = park(engine, order)
    dead_letters.discard(engine, number, "the customer called")
    assert letter(engine, number).note == "the customer called"
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT outcome FROM inbox").fetchall() == [("discarded",)]
        connection.execute("DELETE FROM dead_letters")  # even without its letter, the inbox remembers
    assert deliver(engine, streams.encoded(order)).duplicates == 1
    assert shop.applied("billing", database_url) == []


def test_a_mismatch_can_only_be_discarded_and_leaves_the_original_alone(engine: Engine, database_url: str) -> None:
    order = streams.order()
    other = streams.encoded(streams.with_id(streams.order(cents=1), order.id))
    number = park_bytes(engine, other, PayloadMismatch("first seen otherwise"))
    with pytest.raises(Misuse, match="only be discarded"):
        dead_letters.redrive(engine, number, HANDLERS, CONTRACTS)
    with pytest.raises(Misuse, match="only be discarded"):
        dead_letters.repair(engine, number, other, CONTRACTS)
    dead_letters.discard(engine, number, "not ours")
    assert len(deliver(engine, streams.encoded(order)).fresh) == 1
    assert shop.applied("billing", database_url) == [order.subject]


def test_a_discard_says_why(engine: Engine) -> None:
    with pytest.raises(Misuse, match="say why"):
        dead_letters.discard(engine, park(engine, streams.order()), "  ")


def test_letters_are_listed_by_page_reason_and_state(engine: Engine) -> None:
    numbers = [park(engine, streams.order()) for _ in range(5)]
    bad = park_bytes(engine, b"{nothing")
    dead_letters.discard(engine, numbers[0], "no")
    with Session(engine) as session:
        assert [found.id for found in dead_letters.listed(session)] == [*numbers[1:], bad]
        assert [found.id for found in dead_letters.listed(session, after=numbers[2], most=2)] == numbers[3:]
        assert [found.id for found in dead_letters.listed(session, reason="undecodable")] == [bad]
        assert [found.id for found in dead_letters.listed(session, closed=True)] == [numbers[0]]
        assert dead_letters.listed(session, "analytics") == []
        assert parking.open_letters(session, "billing") == 5
    with pytest.raises(Misuse, match="no dead letter 999"):
        letter(engine, 999)


def test_the_command_does_all_of_it(
    engine: Engine, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("HANDLERS", "tests.support.shop:BILLING_HANDLERS")
    good = streams.encoded(streams.order())
    fine, broken, unwanted = (
        park(engine, streams.order()), park_bytes(engine, good.replace(b'"EUR"', b'"euro"')), park_bytes(engine, b"{")
    )  # fmt: skip
    capsys.readouterr()

    def said(*arguments: object) -> str:
        assert command.main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    monkeypatch.setattr(dead_letters, "listed", partial(dead_letters.listed, most=2))
    assert len(said("list").splitlines()) == 3, "all pages"
    assert "handler-failed" in said("list", "--reason", "handler-failed", "--consumer", "billing")
    assert "euro" in said("show", broken)
    assert said("redrive", fine) == f"{fine} applied\n"
    assert command.main(["redrive", str(broken)]) == 1
    assert "Invalid: orders.confirmed: currency" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(good)))
    assert "repaired" in said("repair", broken, "-")
    assert "[repaired]" in said("list")
    assert said("redrive", broken, "--accept-late") == f"{broken} applied\n"
    assert said("discard", unwanted, "--why", "nonsense") == f"{unwanted} discarded\n"
    assert (said("list"), len(said("list", "--closed").splitlines())) == ("", 3)
    assert len(shop.applied("billing", database_url)) == 2


def test_a_strangers_bytes_do_not_steer_the_terminal(
    engine: Engine, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    assert command.main(["show", str(park_bytes(engine, b"{\x1b[2J\x07 caf\xc3\xa9"))]) == 0
    assert "{\\x1b[2J\\x07 café" in capsys.readouterr().out


def test_the_command_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert command.main(["list"]) == 2
    assert "DATABASE_URL is not set" in capsys.readouterr().err
