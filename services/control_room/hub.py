"""From one sampler to any number of browsers, by server-sent events.

A sample is turned into bytes once; every browser's thread waits here for the next one and writes the same bytes.
"""

import threading
import time
from collections.abc import Iterator
from typing import Any

import orjson

LONGEST_S = 600.0
"""A stream ends after so long and the browser opens another: a thread is not held for ever by one that is gone."""
SILENCE_S = 15.0


class Hub:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._number = 0
        self._latest = b""

    def publish(self, sample: dict[str, Any]) -> None:
        written = b"data: " + orjson.dumps(sample) + b"\n\n"
        with self._changed:
            self._number, self._latest = self._number + 1, written
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """The sampler's pause; somebody who has just broken something wants to see it at once."""
        self._hurry.wait(seconds)
        self._hurry.clear()

    def hurry(self) -> None:
        self._hurry.set()

    def stream(self) -> Iterator[bytes]:
        yield b"retry: 1000\n\n"
        seen, end = 0, time.monotonic() + LONGEST_S
        while time.monotonic() < end:
            with self._changed:
                self._changed.wait_for(lambda seen=seen: self._number != seen, SILENCE_S)  # type: ignore[misc]
                number, written = self._number, self._latest
            yield written if number != seen else b": still here\n\n"
            seen = number
