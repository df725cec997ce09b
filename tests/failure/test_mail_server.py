"""What the mail server does to us: away, busy, refusing, hanging up; and what becomes of the invoice."""

import dataclasses
import smtplib
import socket
import threading
import time
from collections.abc import Iterator
from email.message import EmailMessage

import jinja2
import pytest

from services.billing import mail
from tests.support import invoices
from tests.support.billing import Billing, free_port, order_for
from tests.support.smtp import DROP, troubled


@pytest.fixture(scope="module")
def billing(postgres: str) -> Iterator[Billing]:
    with Billing.on(postgres) as billing:
        yield billing


def test_a_server_that_is_away_is_tried_again_until_it_is_back(billing: Billing) -> None:
    order_id = billing.invoice()
    away = billing.worker(smtp_address=f"127.0.0.1:{free_port()}", max_attempts=1000)
    while billing.task("invoice.email", order_id).get("attempts", 0) < 2:
        away.step()
    assert billing.get(order_id)["state"] == "rendered"
    with troubled() as server:
        billing.work_until_settled(billing.worker(smtp_address=server.address, max_attempts=1000))
        assert len(server.taken) == 1
    invoice = billing.get(order_id)
    assert (invoice["state"], invoice["unknown_outcomes"]) == ("sent", 0)


NOT_NOW = [
    {"CONNECT": "554 not today"},
    {"MAIL": "550 who are you?"},
    {"RCPT": "451 later"},
    {"DATA": "421 busy"},
    {"DATA": "250 fine"},
    {"END": "452 disk full"},
]


@pytest.mark.parametrize("answer", NOT_NOW, ids=str)
def test_a_server_that_says_not_now_gets_the_mail_later_and_nothing_is_in_doubt(
    billing: Billing, answer: dict[str, str]
) -> None:
    order_id = billing.invoice()
    with troubled(**answer) as server:
        working = billing.worker(smtp_address=server.address)
        while billing.task("invoice.email", order_id).get("attempts", 0) < 1:
            working.step()
        assert (billing.get(order_id)["state"], server.taken) == ("rendered", [])
        server.answers.clear()
        billing.work_until_settled(working)
        assert len(server.taken) == 1
    assert billing.get(order_id)["unknown_outcomes"] == 0


def test_an_error_of_our_own_leaves_no_doubt_whether_the_mail_went_out(
    billing: Billing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted as an unknown outcome it would be a person's case after ten attempts, also when the fault is mended."""

    def broken(*_: object) -> EmailMessage:
        raise jinja2.UndefinedError("'invoice' has no attribute 'colour'")

    order_id = billing.invoice()
    with troubled() as server, monkeypatch.context() as patched:
        working = billing.worker(smtp_address=server.address)
        patched.setattr(mail.Letters, "write", broken)
        while billing.task("invoice.email", order_id).get("attempts", 0) < 2:
            working.step()
        assert billing.get(order_id)["state"] == "rendered"
        patched.undo()
        billing.work_until_settled(working)
        assert len(server.taken) == 1
    assert (billing.get(order_id)["state"], billing.get(order_id)["unknown_outcomes"]) == ("sent", 0)


@pytest.mark.parametrize("answer", [{"RCPT": "550 no such mailbox"}, {"DATA": "554 no"}, {"END": "554 spam"}], ids=str)
def test_a_refusal_for_good_makes_the_invoice_undeliverable_and_it_is_never_queued_again(
    billing: Billing, answer: dict[str, str]
) -> None:
    order_id = billing.invoice()
    with troubled(**answer) as server:
        billing.work_until_settled(billing.worker(smtp_address=server.address))
        assert server.taken == []
    invoice = billing.get(order_id)
    assert invoice["state"] == "undeliverable"
    assert next(iter(answer.values())).split()[0] in invoice["refusal"]
    assert billing.reconcile() == 0
    assert billing.task("invoice.email", order_id)["state"] == "dead"


@pytest.mark.parametrize("answer", [DROP, "gibberish", "354 go on", "2" * 9000], ids=lambda answer: answer[:9])
def test_a_mail_without_a_known_answer_is_an_unknown_outcome_and_the_same_mail_goes_out_again(
    billing: Billing, answer: str
) -> None:
    """Also when a proxy garbles the 250: the server may have taken the mail."""
    order_id = billing.invoice()
    with troubled(END=answer) as server:
        working = billing.worker(smtp_address=server.address)
        while billing.get(order_id)["unknown_outcomes"] < 2:
            working.step()
        server.answers.clear()
        billing.work_until_settled(working)
        assert len(server.taken) == 3
        assert len(set(server.taken)) == 1, "the same bytes, the same Message-ID"
    assert (billing.get(order_id)["state"], billing.get(order_id)["unknown_outcomes"]) == ("sent", 2)


def test_an_address_that_is_none_is_undeliverable_and_reaches_no_server(billing: Billing) -> None:
    bad = [
        "nobody",
        "a b@example.org",
        "a@example.org\r\nBcc: all@example.org",
        "<x@example.org>",
        "aa@",
        "@bb",
        "a@b@@",
    ]
    orders = [billing.invoice(order_for(email)) for email in bad]
    with troubled() as server:
        billing.work_until_settled(billing.worker(smtp_address=server.address))
        assert server.taken == []
    assert {billing.get(order_id)["state"] for order_id in orders} == {"undeliverable"}


def test_a_server_that_answers_a_letter_at_a_time_does_not_outlast_the_time_limit() -> None:
    letter = mail.Letters().write(invoices.invoice(), b"%PDF")
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def dribble() -> None:
            connection, _ = listener.accept()
            with connection:
                while not stop.wait(0.1):
                    try:
                        connection.send(b"2")
                    except OSError:
                        return

        thread = threading.Thread(target=dribble)
        thread.start()
        started = time.monotonic()
        with pytest.raises(mail.NotNow):
            mail.deliver(f"127.0.0.1:{listener.getsockname()[1]}", letter, 0.5)
        assert time.monotonic() - started < 5
        stop.set()
        thread.join(5)


def test_connecting_counts_into_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host may have several addresses, and each of them may take its time."""
    connect = smtplib.SMTP.connect

    def slow(smtp: smtplib.SMTP, host: str, port: int) -> tuple[int, bytes]:
        time.sleep(0.4)
        return connect(smtp, host, port)

    monkeypatch.setattr(smtplib.SMTP, "connect", slow)
    letter = mail.Letters().write(invoices.invoice(), b"%PDF")
    with troubled() as server:
        with pytest.raises(mail.NotNow, match="took longer"):
            mail.deliver(server.address, letter, 0.2)
        assert server.taken == []


def test_the_same_invoice_gives_the_same_mail_and_a_name_cannot_add_a_header() -> None:
    letters = mail.Letters()
    name = 'Eve\r\nBcc: all@example.org\r\n\u2028<b>\u202e "quoted" 山田'
    evil = invoices.invoice(customer=dataclasses.replace(invoices.ADA, name=name))
    letter = letters.write(evil, b"%PDF")
    assert letter.as_bytes() == letters.write(evil, b"%PDF").as_bytes()
    assert letter["Bcc"] is None
    assert letter["To"].addresses[0].addr_spec == "ada@example.org"
    head = letter.as_bytes().split(b"\r\n\r\n", 1)[0]
    assert b"\r\nBcc" not in head
    assert [part.get_content_type() for part in letter.walk()] == [
        "multipart/mixed", "multipart/alternative", "text/plain", "text/html", "application/pdf",
    ]  # fmt: skip
    body = letter.get_body(("html",))
    assert body is not None
    assert "&lt;b&gt;" in body.get_content()
