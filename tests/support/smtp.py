"""A mail server that misbehaves as told: real sockets, a few verbs, and a list of what it took."""

import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

DROP = "drop"
"""Instead of an answer: hang up."""


class Troubled(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, answers: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.answers = dict(answers)
        self.taken: list[bytes] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Conversation(socketserver.StreamRequestHandler):
    """Answers by verb; `.` is the end of the mail. The mail counts as taken even if the answer is never given."""

    def handle(self) -> None:
        server = cast(Troubled, self.server)
        normal = {"EHLO": "250 here", "MAIL": "250 ok", "RCPT": "250 ok", "DATA": "354 go on", ".": "250 kept"}
        answers = normal | server.answers
        self._say(answers.get("CONNECT", "220 here"))
        while line := self.rfile.readline():
            verb = line[:4].decode().strip().upper()
            if not self._say(answers.get(verb, "250 ok")):
                return
            if verb == "DATA" and answers[verb].startswith("354"):
                mail = self._mail()
                if not answers["."].startswith(("4", "5")):
                    server.taken.append(mail)
                if not self._say(answers["."]):
                    return

    def _mail(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line)
        return b"".join(lines)

    def _say(self, answer: str) -> bool:
        if answer == DROP:
            return False
        self.wfile.write(f"{answer}\r\n".encode())
        return True


@contextmanager
def troubled(**answers: str) -> Iterator[Troubled]:
    """`END` stands for the answer to the mail itself."""
    with Troubled({("." if verb == "END" else verb): answer for verb, answer in answers.items()}) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)
