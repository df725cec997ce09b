"""Stands in for the image axllent/mailpit: takes mail by SMTP, keeps every copy, and answers the part of Mailpit's HTTP
API that this project uses, so that one client reads both.

A mail is on disk before SMTP says 250: what was accepted survives a kill. Copies of one Message-ID are kept apart and
shown together, so that a doubled mail is seen.
"""

import html
import json
import os
import random
import re
import signal
import threading
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import BytesHeaderParser
from email.utils import getaddresses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

MAX_BYTES = 25 * 1024 * 1024


@dataclass(frozen=True)
class Mail:
    id: str
    message_id: str
    sender: list[tuple[str, str]]
    to: list[tuple[str, str]]
    subject: str
    created: datetime
    size: int

    def summary(self) -> dict[str, Any]:
        return {
            "ID": self.id,
            "MessageID": self.message_id,
            "From": _address(self.sender[0]) if self.sender else None,
            "To": [_address(pair) for pair in self.to],
            "Subject": self.subject,
            "Created": self.created.isoformat(),
            "Size": self.size,
        }


def _address(pair: tuple[str, str]) -> dict[str, str]:
    return {"Name": pair[0], "Address": pair[1]}


class Mailbox:
    """A folder with a file per mail, and an index of their headers in memory, newest last."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self.mails = [
            self._read(path) for path in sorted(folder.glob("*.eml"), key=lambda path: path.stat().st_mtime_ns)
        ]

    def store(self, content: bytes) -> None:
        path = self._folder / f"{uuid.uuid4().hex}.eml"
        unfinished = path.with_suffix(".new")
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        with self._lock:
            self.mails.append(self._read(path))

    def find(self, wanted: str) -> Mail | None:
        return next((mail for mail in reversed(self.mails) if mail.id == wanted), None)

    def raw(self, mail: Mail) -> bytes:
        return (self._folder / f"{mail.id}.eml").read_bytes()

    def search(self, query: str) -> list[Mail]:
        """Mailpit's terms that we use: message-id: to: subject: and plain words; all must match."""
        terms = re.findall(r'(?:(message-id|to|subject):)?(?:"([^"]*)"|(\S+))', query)
        return [
            mail
            for mail in self.mails
            if all((quoted or word).lower() in _searched(mail, field) for field, quoted, word in terms)
        ]

    def clear(self) -> None:
        with self._lock:
            for mail in self.mails:
                (self._folder / f"{mail.id}.eml").unlink(missing_ok=True)
            self.mails.clear()

    def _read(self, path: Path) -> Mail:
        with path.open("rb") as file:
            headers = BytesHeaderParser().parse(file)
        status = path.stat()
        return Mail(
            id=path.stem,
            message_id=str(headers.get("Message-ID", path.stem)).strip().strip("<>"),
            sender=getaddresses([str(value) for value in headers.get_all("From", [])]),
            to=getaddresses([str(value) for value in headers.get_all("To", [])]),
            subject=str(headers.get("Subject", "")),
            created=datetime.fromtimestamp(status.st_mtime, UTC),
            size=status.st_size,
        )


def _searched(mail: Mail, field: str) -> str:
    texts = {
        "message-id": mail.message_id,
        "to": " ".join(address for _, address in mail.to),
        "subject": mail.subject,
    }
    return (texts[field] if field else " ".join(texts.values())).lower()


class Trouble:
    """What the mail server gets wrong on purpose: Mailpit's chaos triggers for Sender and Recipient, and one more,
    AfterData, which Mailpit has not: the mail is kept, but the connection breaks before the 250."""

    TRIGGERS = ("Sender", "Recipient", "AfterData")

    def __init__(self) -> None:
        self.triggers = {name: {"ErrorCode": 451, "Probability": 0} for name in self.TRIGGERS}

    def set(self, wanted: dict[str, Any]) -> None:
        """Each trigger has an ErrorCode and a Probability in percent; what is not named is switched off."""
        chosen = {name: wanted.get(name) or {} for name in self.TRIGGERS}
        self.triggers = {
            name: {"ErrorCode": int(given.get("ErrorCode", 451)), "Probability": int(given.get("Probability", 0))}
            for name, given in chosen.items()
        }

    def strikes(self, name: str) -> int | None:
        """The code to answer with, or None."""
        trigger = self.triggers[name]
        return trigger["ErrorCode"] if random.uniform(0, 100) < trigger["Probability"] else None  # noqa: S311


class Receiver:
    def __init__(self, mailbox: Mailbox, trouble: Trouble) -> None:
        self._mailbox, self._trouble = mailbox, trouble

    async def handle_MAIL(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if code := self._trouble.strikes("Sender"):
            return f"{code} trouble on purpose"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if code := self._trouble.strikes("Recipient"):
            return f"{code} trouble on purpose"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:
        content = envelope.content
        assert isinstance(content, bytes)
        self._mailbox.store(content)
        if self._trouble.strikes("AfterData") and server.transport is not None:
            server.transport.close()  # unsent: the client hears nothing more
        return "250 OK: kept"


class Api(BaseHTTPRequestHandler):
    mailbox: Mailbox
    trouble: Trouble
    timeout = 10

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        match url.path.strip("/").split("/"):
            case ["livez"] | ["readyz"]:
                self._answer(200, b"ok\n", "text/plain")
            case ["api", "v1", "messages"]:
                self._listing(self.mailbox.mails, query)
            case ["api", "v1", "chaos"]:
                self._json(200, self.trouble.triggers)
            case ["api", "v1", "search"]:
                self._listing(self.mailbox.search(query.get("query", "")), query)
            case ["api", "v1", "message", wanted, "raw"] if mail := self.mailbox.find(wanted):
                self._answer(200, self.mailbox.raw(mail), "text/plain; charset=utf-8")
            case ["api", "v1", "message", wanted] if mail := self.mailbox.find(wanted):
                self._json(200, mail.summary())
            case [""]:
                self._answer(200, page(self.mailbox.mails).encode(), "text/html; charset=utf-8")
            case _:
                self._json(404, {"Error": "not found"})

    def do_PUT(self) -> None:
        if urlsplit(self.path).path != "/api/v1/chaos":
            return self._json(404, {"Error": "not found"})
        try:
            self.trouble.set(json.loads(self.rfile.read(min(int(self.headers.get("Content-Length") or 0), 10_000))))
        except (ValueError, TypeError, AttributeError) as error:
            return self._json(400, {"Error": f"expected triggers with ErrorCode and Probability: {error}"})
        return self._json(200, self.trouble.triggers)

    def do_DELETE(self) -> None:
        if urlsplit(self.path).path != "/api/v1/messages":
            return self._json(404, {"Error": "not found"})
        self.mailbox.clear()
        return self._answer(200, b"ok", "text/plain")

    def _listing(self, mails: list[Mail], query: dict[str, str]) -> None:
        try:
            start, limit = max(0, int(query.get("start", 0))), max(0, int(query.get("limit", 50)))
        except ValueError:
            return self._json(400, {"Error": "start and limit are whole numbers"})
        newest_first = mails[::-1]
        return self._json(
            200,
            {
                "total": len(self.mailbox.mails),
                "messages_count": len(mails),
                "start": start,
                "messages": [mail.summary() for mail in newest_first[start : start + limit]],
            },
        )

    def _json(self, status: int, answer: object) -> None:
        self._answer(status, json.dumps(answer).encode(), "application/json")

    def _answer(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Every request is not news."""


def page(mails: list[Mail]) -> str:
    """The newest hundred, the copies of one Message-ID in one row."""
    groups: dict[str, list[Mail]] = {}
    for mail in mails[::-1]:
        if len(groups) == 100 and mail.message_id not in groups:
            break
        groups.setdefault(mail.message_id, []).append(mail)
    rows = "".join(
        f"<tr><td>{copies[0].created:%Y-%m-%d %H:%M:%S}<td>{html.escape(', '.join(a for _, a in copies[0].to))}"
        f"<td><a href='/api/v1/message/{copies[0].id}/raw'>{html.escape(copies[0].subject) or '(no subject)'}</a>"
        f"<td>{len(copies)}"
        for copies in groups.values()
    )
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Mailbox</title>
<meta name="viewport" content="width=device-width"><style>
body{{font:16px/1.5 system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem;color-scheme:light dark}}
table{{border-collapse:collapse;width:100%}}
td,th{{text-align:left;padding:.4rem .8rem .4rem 0;border-bottom:1px solid #8884}}
</style><h1>Mailbox</h1><p>{len(mails)} mail(s) received, every copy kept.</p>
<table><tr><th>received (UTC)<th>to<th>subject<th>copies{rows}</table></html>"""


def main() -> None:
    mailbox = Mailbox(Path(os.environ["NATIVE_VOLUME"]) / "mails")
    host, _, port = os.environ["MP_SMTP_BIND_ADDR"].rpartition(":")
    trouble = Trouble()
    smtp = Controller(Receiver(mailbox, trouble), hostname=host, port=int(port), data_size_limit=MAX_BYTES)
    smtp.start()
    host, _, port = os.environ["MP_UI_BIND_ADDR"].rpartition(":")
    handler = type("Handler", (Api,), {"mailbox": mailbox, "trouble": trouble})
    server = ThreadingHTTPServer((host, int(port)), handler)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"mail sink: SMTP on {os.environ['MP_SMTP_BIND_ADDR']}, {len(mailbox.mails)} mail(s) kept", flush=True)
    server.serve_forever(poll_interval=1)
    smtp.stop()


if __name__ == "__main__":
    main()
