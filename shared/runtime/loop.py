"""The life of a process that works in steps.

`run_forever(step)` calls `step()`, which does one transaction's worth of work and returns how much it did. It sleeps
only when there was nothing to do, backs off when something outside failed, and on SIGTERM stops between two steps.
An error that is not expected ends the process: the supervisor starts it again, in a known state.
"""

import random
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from shared.runtime import logs


class Stop:
    """Set by SIGTERM or SIGINT; everything that waits, waits on this."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @classmethod
    def on_signals(cls) -> "Stop":
        stop = cls()

        def request(_signum: int, _frame: FrameType | None) -> None:
            stop.request()

        signal.signal(signal.SIGTERM, request)
        signal.signal(signal.SIGINT, request)
        return stop

    def request(self) -> None:
        self._event.set()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        self._event.wait(seconds)


class Pulse:
    """When the loop last came round. A process whose pulse has stopped is ill even if it is still there."""

    def __init__(self, max_silence_s: float) -> None:
        self._max_silence_s = max_silence_s
        self._last = time.monotonic()

    def beat(self) -> None:
        self._last = time.monotonic()

    def problem(self) -> str | None:
        silence = time.monotonic() - self._last
        if silence <= self._max_silence_s:
            return None
        return f"the loop has not come round for {silence:.0f} s (allowed: {self._max_silence_s:.0f} s)"


class Backoff:
    """Exponential, with full jitter, so that processes that failed together do not return together."""

    def __init__(self, first_s: float = 0.1, limit_s: float = 5.0) -> None:
        self._first_s, self._limit_s, self.failures = first_s, limit_s, 0

    def next_s(self) -> float:
        ceiling = min(self._limit_s, self._first_s * 2 ** min(self.failures, 30))
        self.failures += 1
        return random.uniform(ceiling / 2, ceiling)  # noqa: S311  (not a secret)

    def reset(self) -> None:
        self.failures = 0


def run_forever(
    step: Callable[[], int],
    stop: Stop,
    pulse: Pulse,
    *,
    idle_s: float = 1.0,
    wait: Callable[[float], None] | None = None,
    retry_on: tuple[type[Exception], ...] = (),
) -> None:
    """`wait` replaces the idle sleep for a process that something can wake; `retry_on` names the passing failures."""
    log = logs.get()
    backoff = Backoff()
    log.info("started")
    while not stop.requested:
        pulse.beat()
        try:
            done = step()
        except retry_on as error:
            pause_s = backoff.next_s()
            log.warning("step failed, will try again", error=str(error), retry_in_s=round(pause_s, 2))
            stop.wait(pause_s)
            continue
        backoff.reset()
        if done == 0 and not stop.requested:
            (wait or stop.wait)(idle_s)
    log.info("stopped")
