"""Waiting with a deadline: a test that hopes for something says for how long."""

import threading
import time
from collections.abc import Callable

_NEVER = threading.Event()


def until(condition: Callable[[], object], what: str, *, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        _NEVER.wait(0.01)


def pass_time(seconds: float) -> None:
    """For a test about time itself: an outage has a length. Everything else waits with `until`."""
    _NEVER.wait(seconds)
