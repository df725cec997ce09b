"""The control room's own reasoning: what the ledger says, what a look costs, and what it answers about what is away."""

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaException
from flask.testing import FlaskClient
from psycopg.errors import QueryCanceled

from infra.docs.http import SETTINGS
from services.control_room import api
from services.control_room.audit import mailbox
from services.control_room.hub import Hub
from services.control_room.ledger import InFlight, Ledger, verdict
from services.control_room.questions import LONGEST_S, QUESTIONS, SHARE, Answers

EQUAL = Ledger(
    orders=7, delivered=107, duplicates=100, delivered_to_analytics=7, duplicates_in_analytics=0, invoices=7, pdfs=7,
    mails=7, undeliverable=0, counted=7,
)  # fmt: skip
NOTHING = InFlight(0, 0, 0, 0, 0)


def test_equal_and_settled_is_said() -> None:
    assert verdict(EQUAL, NOTHING, 0, 0) == ("equal", "Settled, and equal")


def test_what_is_in_flight_is_named() -> None:
    kind, says = verdict(replace(EQUAL, orders=8), InFlight(1, 0, 0, 2, 0), 0, 0)
    assert (kind, says) == ("flight", "In flight: 1 to publish · 2 to render")


@pytest.mark.parametrize("name", ["invoices", "pdfs", "mails", "counted"])
@pytest.mark.parametrize("by", [-1, 1])
def test_one_too_few_or_too_many_is_never_called_equal(name: str, by: int) -> None:
    off = replace(EQUAL, **{name: getattr(EQUAL, name) + by})
    assert verdict(off, NOTHING, 0, 0)[0] == "counting", "figures of different moments may differ for a while"
    assert verdict(off, NOTHING, 0, 60)[0] == "differs"
    assert verdict(off, NOTHING, 1, 60)[0] == "parked"


def test_a_refused_mail_is_an_end_too() -> None:
    assert verdict(replace(EQUAL, mails=6, undeliverable=1), NOTHING, 0, 0)[0] == "equal"


class Database:
    """Answers at once, or as slowly as it is told; counts what it is asked."""

    def __init__(self) -> None:
        self.now, self.takes_s, self.asked = 1000.0, 0.0, list[str]()
        self.updated_at = self.invoices = 0
        self.too_long = ""
        """What is in a statement that is cancelled."""

    def ask(self, database: str, statement: str, _parameters: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(statement)
        if self.too_long and self.too_long in statement:
            raise QueryCanceled("canceling statement due to statement timeout")
        self.now += self.takes_s
        if "updated_at" in statement:
            return {"offsets": {}, "updated_at": self.updated_at}
        return {"below": 0, "newer": 0, "unsent": 0, "invoices": self.invoices}

    def looks(self, answers: Answers, seconds: int) -> int:
        """A look a second; how often the inbox of Billing was summed up."""
        self.asked.clear()
        for _ in range(seconds):
            answers.refresh(self.ask, lambda: self.now)
            self.now += 1.0
        return self.asked.count(QUESTIONS["billing_inbox"].sql)


def test_what_cannot_have_changed_is_not_asked_again() -> None:
    database, answers = Database(), Answers()
    assert database.looks(answers, 20) == 1
    database.updated_at += 1
    assert database.looks(answers, 20) == 1


def test_an_order_that_went_all_the_way_between_two_looks_is_counted_everywhere() -> None:
    database, answers = Database(), Answers()
    database.looks(answers, 1)
    database.invoices += 1  # and as many unsent ones as before: none
    database.looks(answers, 1)
    assert QUESTIONS["pdfs"].sql in database.asked


def test_a_question_that_takes_long_is_asked_less_often() -> None:
    database, answers = Database(), Answers()
    database.takes_s = 0.03
    database.looks(answers, 1)
    began, sums = database.now, 0
    for _ in range(100):
        database.updated_at += 1
        sums += database.looks(answers, 1)
    elapsed = database.now - began
    assert 0 < sums * database.takes_s <= 1.5 * SHARE * elapsed
    assert elapsed / sums < LONGEST_S


@pytest.mark.parametrize("too_long", [QUESTIONS["billing_inbox"].sql, QUESTIONS["outbox"].sql, "event_id >="])
def test_a_question_that_takes_too_long_waits_and_the_others_are_asked(too_long: str) -> None:
    database, answers = Database(), Answers()
    assert answers.refresh(database.ask, lambda: database.now) is not None
    database.too_long = too_long
    for second in range(1, 91):
        database.now += 1.0
        database.updated_at, database.invoices = second, second
        found = answers.refresh(database.ask, lambda: database.now)
        assert found is not None, "the old answer stands"
        assert found["invoices"] == {"below": 0, "newer": 0, "unsent": 0, "invoices": second}
    assert 3 <= sum(too_long in statement for statement in database.asked) <= 5
    database.too_long, database.now = "", database.now + LONGEST_S
    database.asked.clear()
    answers.refresh(database.ask, lambda: database.now)
    assert any(too_long in statement for statement in database.asked)


def test_without_a_first_answer_to_every_question_there_are_no_figures() -> None:
    database, answers = Database(), Answers()
    database.too_long = QUESTIONS["invoices"].sql
    assert answers.refresh(database.ask, lambda: database.now) is None
    database.too_long, database.now = "", database.now + LONGEST_S
    assert answers.refresh(database.ask, lambda: database.now) is not None


def test_every_browser_gets_the_same_sample_and_none_waits_for_another() -> None:
    hub = Hub()
    streams = [hub.stream() for _ in range(3)]
    assert {next(stream) for stream in streams} == {b"retry: 1000\n\n"}
    hub.publish({"at": 1})
    assert {next(stream) for stream in streams} == {b'data: {"at":1}\n\n'}


@pytest.fixture
def lonely(monkeypatch: pytest.MonkeyPatch) -> FlaskClient:
    """A control room whose databases, broker, mailbox and processes are all away. Nobody samples."""
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CONTROL_ROOM_TOKEN", "not-a-secret-in-a-test")
    monkeypatch.setattr(api, "_on_first_request", lambda *_: None)
    app = api.create_app()

    @app.get("/mails")
    def mails() -> dict[str, int]:
        return {"mails": mailbox.count(SETTINGS["MAIL_URL"])}

    @app.get("/kafka")
    def kafka() -> None:
        raise KafkaException("no brokers")

    return app.test_client()


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/v1/letters", "database-away"),
        ("GET", "/v1/letters/billing/1", "database-away"),
        ("GET", "/v1/lives/00000000", "database-away"),
        ("POST", "/v1/faults/duplicate", "database-away"),
        ("GET", "/mails", "mailbox-away"),
        ("GET", "/kafka", "kafka-away"),
    ],
)
def test_what_is_away_is_a_problem_with_a_name(lonely: FlaskClient, method: str, path: str, kind: str) -> None:
    token = {"Authorization": "Bearer not-a-secret-in-a-test"}
    answer = lonely.open(path, method=method, headers=token, json={} if method == "POST" else None)
    assert (answer.status_code, answer.content_type) == (503, "application/problem+json")
    assert answer.get_json(force=True)["type"] == f"/problems/{kind}"
    assert answer.headers["Retry-After"] == "1"


def test_no_more_is_replayed_than_fits_into_memory(lonely: FlaskClient) -> None:
    token = {"Authorization": "Bearer not-a-secret-in-a-test"}
    assert lonely.post("/v1/faults/replay", json={"last": 10_001}, headers=token).status_code == 422
