"""The native mail sink: a real SMTP client on one side, Mailpit's HTTP API on the other."""

import json
import os
import signal
import smtplib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from shared.runtime.probe import probe


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


Start = Callable[[], "Sink"]


class Sink:
    def __init__(self, folder: Path) -> None:
        self.smtp, self.http = free_address(), free_address()
        addresses = {"MP_SMTP_BIND_ADDR": self.smtp, "MP_UI_BIND_ADDR": self.http, "NATIVE_VOLUME": str(folder)}
        self.process = subprocess.Popen([sys.executable, "-m", "infra.native.mail_sink"], env=os.environ | addresses)
        deadline = time.monotonic() + 15
        while not probe(f"{self.http}/readyz")[0]:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def get(self, path: str, *, raw: bool = False, method: str = "GET") -> Any:
        request = urllib.request.Request(f"http://{self.http}{path}", method=method)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read().decode() if raw else json.load(answer)

    def put(self, path: str, body: object) -> Any:
        request = urllib.request.Request(f"http://{self.http}{path}", json.dumps(body).encode(), method="PUT")
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    def send(self, message_id: str, subject: str = "Invoice") -> None:
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "shop@example.test", "Ann <ann@example.test>", subject
        mail["Message-ID"] = message_id
        mail.set_content("Thank you.")
        host, port = self.smtp.split(":")
        with smtplib.SMTP(host, int(port), timeout=5) as client:
            client.send_message(mail)

    def end(self, signum: int) -> None:
        self.process.send_signal(signum)
        self.process.wait(10)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Sink] = []

    def one_more() -> Sink:
        started.append(Sink(tmp_path))
        return started[-1]

    yield one_more
    for sink in started:
        if sink.process.poll() is None:
            sink.end(signal.SIGTERM)


def test_every_copy_is_kept_and_copies_are_shown_together(start: Start) -> None:
    sink = start()
    for message_id in ("<1@shop>", "<1@shop>", "<2@shop>"):
        sink.send(message_id)
    listing = sink.get("/api/v1/messages?limit=2")
    assert (listing["total"], len(listing["messages"])) == (3, 2)
    assert sink.get('/api/v1/search?query=message-id:"1@shop"')["messages_count"] == 2
    assert sink.get("/", raw=True).count("<tr>") == 3  # the head, and one row per Message-ID


def test_an_accepted_mail_survives_a_kill(start: Start) -> None:
    sink = start()
    sink.send("<1@shop>")
    sink.end(signal.SIGKILL)
    listing = start().get("/api/v1/messages")
    assert [mail["MessageID"] for mail in listing["messages"]] == ["1@shop"]
    assert listing["messages"][0]["To"] == [{"Name": "Ann", "Address": "ann@example.test"}]


def test_a_hostile_subject_is_text_on_the_page(start: Start) -> None:
    sink = start()
    sink.send("<1@shop>", subject="<script>alert(1)</script>")
    assert "<script>" not in sink.get("/", raw=True)


def test_the_mailbox_can_be_emptied(start: Start) -> None:
    sink = start()
    sink.send("<1@shop>")
    assert sink.get("/api/v1/messages", raw=True, method="DELETE") == "ok"
    assert sink.get("/api/v1/messages")["total"] == 0


def test_trouble_on_purpose_refuses_or_keeps_the_mail_and_hides_the_answer(start: Start) -> None:
    sink = start()
    sink.put("/api/v1/chaos", {"Recipient": {"ErrorCode": 451, "Probability": 100}})
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        sink.send("<a@x>")
    sink.put("/api/v1/chaos", {"AfterData": {"Probability": 100}})
    with pytest.raises(smtplib.SMTPServerDisconnected):
        sink.send("<b@x>")
    sink.put("/api/v1/chaos", {})
    sink.send("<c@x>")
    assert [mail["MessageID"] for mail in sink.get("/api/v1/messages")["messages"]] == ["c@x", "b@x"]
