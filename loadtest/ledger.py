"""The client's own record of what it asked and was answered: the audit compares it with what the shop has.

One JSON object per line. A request is written down *before* it is sent ("intent") and again when its outcome is known
("answer"): a status, or null where the connection broke and nobody knows. Every line is on the disk before the client
goes on, so the record outlives a crash of the client too.
"""

import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from services.control_room.audit.ledger import lines

PATH = Path(os.environ.get("LEDGER", ".run/ledger.jsonl"))


class Ledger:
    def __init__(self, path: Path = PATH) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b", buffering=0)
        self._end_torn_line()
        self._lock = threading.Lock()

    def intent(self, key: str, method: str, path: str, body: bytes) -> None:
        self._write(entry="intent", key=key, method=method, path=path, body_sha256=sha256(body).hexdigest())
        self._to_disk(wait=True)

    def answer(self, key: str, method: str, path: str, status: int | None, order_id: str | None) -> None:
        self._write(entry="answer", key=key, method=method, path=path, status=status, order_id=order_id)
        self._to_disk(wait=False)

    def _write(self, **fields: Any) -> None:
        line = json.dumps(fields | {"at": datetime.now(UTC).isoformat()}).encode() + b"\n"
        with self._lock:
            written = self._file.write(line)
        if written != len(line):
            raise OSError(f"{self._file.name}: {written} of {len(line)} bytes fitted; is the disk full?")

    def _end_torn_line(self) -> None:
        """Or the first line of ours would become part of what a crash has cut off."""
        size = self._file.seek(0, os.SEEK_END)
        if size and os.pread(self._file.fileno(), 1, size - 1) != b"\n":
            self._file.write(b"\n")

    def _to_disk(self, *, wait: bool) -> None:  # noqa: ARG002  this one always waits; load/group_ledger.py need not
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read(path: Path = PATH) -> Iterator[dict[str, Any]]:
    """Every whole line, as the audit reads them."""
    return lines(str(path), [])
