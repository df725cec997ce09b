"""One look at the database for everybody who looks at the page.

The page asks every two seconds. A poll, not a stream of server-sent events: a stream would hold one of the server's few
threads for as long as a browser stays open, while an answer from here takes it for a millisecond; and after a restart
or a lost connection there is nothing to pick up again. However many browsers ask, each server process reads the
database once a second at the most.
"""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Sampler(Generic[T]):
    def __init__(self, sample: Callable[[], T], *, max_age_s: float = 1.0) -> None:
        self._sample, self._max_age_s = sample, max_age_s
        self._lock = threading.Lock()
        self._latest: tuple[float, T] | None = None
        self._failed: tuple[float, Exception] | None = None

    def latest(self) -> T:
        """Whoever comes while a sample is taken waits for it, and shares its failure too: if they tried anew, one after
        the other, a database that hangs would soon hold all threads."""
        with self._lock:
            if self._failed and time.monotonic() - self._failed[0] < self._max_age_s:
                raise self._failed[1]
            if self._latest is None or time.monotonic() - self._latest[0] > self._max_age_s:
                self._latest = (time.monotonic(), self._taken())
            return self._latest[1]

    def _taken(self) -> T:
        try:
            taken, self._failed = self._sample(), None
        except Exception as error:
            self._failed = (time.monotonic(), error)
            raise
        return taken
