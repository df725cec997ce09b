"""What people did to the shop, newest last: shown on the page, and as marks on its charts."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

KEPT = 200


class Entry(NamedTuple):
    number: int
    at: float
    kind: str
    """order, fault or mended: decides how it looks."""
    what: str


class Journal:
    def __init__(self, noted: Callable[[], None] = lambda: None) -> None:
        self._noted = noted
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._number = 0

    def note(self, kind: str, what: str) -> None:
        with self._lock:
            self._number += 1
            self._entries.append(Entry(self._number, time.time(), kind, what))
        self._noted()

    def entries(self) -> list[dict[str, Any]]:
        with self._lock:
            return [entry._asdict() for entry in self._entries]
