"""The ledger for a hundred shoppers in one process: one fsync for all lines that came while the last one was at work.

An intent waits for its fsync, as with the plain ledger: no request leaves before it is on the disk. An answer does not
wait; it is on the disk with the next fsync, some milliseconds later. If this process dies in between, the audit finds
an intent without an answer: "unknown", and the order may be there or not. So nothing wrong is ever claimed.
"""

import os
from pathlib import Path

import gevent
from gevent.event import Event

from loadtest.ledger import PATH, Ledger


class GroupLedger(Ledger):
    def __init__(self, path: Path = PATH) -> None:
        super().__init__(path)
        self._wanted, self._group = Event(), Event()
        gevent.spawn(self._sync_for_ever)

    def _to_disk(self, *, wait: bool) -> None:
        group = self._group
        self._wanted.set()
        if wait:
            group.wait()

    def _sync_for_ever(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            group, self._group = self._group, Event()
            # In a thread: an fsync here would stop every shopper.
            gevent.get_hub().threadpool.apply(os.fsync, (self._file.fileno(),))
            group.set()
