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

PATH = Path(os.environ.get("LEDGER", ".run/ledger.jsonl"))


class Ledger:
    def __init__(self, path: Path = PATH) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
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
            self._file.write(line)

    def _to_disk(self, *, wait: bool) -> None:  # noqa: ARG002  this one always waits; load/group_ledger.py need not
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def read(path: Path = PATH) -> Iterator[dict[str, Any]]:
    """Every whole line; the last one may have been cut off by a crash."""
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)
