"""Real processes, to be killed, stopped and woken: `python -m tests.support.shop` and its kin."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from tests.support.wait import until

LONG = "pause:60"
"""A failpoint's pause that only `wake` ends: how long a process sleeps is the test's decision, not the clock's."""

PATIENCE_S = 90
"""For a machine that does much else at the same time; a test that succeeds does not wait for it."""


@dataclass
class Child:
    process: subprocess.Popen[bytes]

    @classmethod
    @contextmanager
    def started(cls, module: str, *arguments: str, **environment: str) -> Iterator["Child"]:
        """Nothing of it outlives the test, neither the process nor the alarm clock of a pause."""
        command = [sys.executable, "-m", module, *arguments]
        child = cls(subprocess.Popen(command, env=os.environ | environment))
        try:
            yield child
        finally:
            child._end()

    def ends_by(self, number: signal.Signals) -> None:
        assert self.process.wait(PATIENCE_S) == -number

    def ends_with(self, status: int) -> None:
        assert self.process.wait(PATIENCE_S) == status

    def stops(self) -> None:
        """It has reached the failpoint at which it was told to pause."""
        until(self.is_stopped, "the process stands still", seconds=PATIENCE_S)

    def is_stopped(self) -> bool:
        return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.stops()

    def wake(self) -> None:
        assert self.is_stopped(), "it was to sleep until now"
        self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        self.process.terminate()
        assert self.process.wait(PATIENCE_S) == 0

    def is_running(self) -> bool:
        return self.process.poll() is None

    def _end(self) -> None:
        for alarm in psutil.Process(self.process.pid).children(recursive=True) if self.is_running() else []:
            alarm.kill()
        self.process.kill()
        self.process.wait(10)
