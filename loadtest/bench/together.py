"""Several processes of a measurement: started one by one, ended together."""

import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from queue import Empty
from typing import Any, Self
from uuid import UUID

SPAWN = get_context("spawn")
Times = dict[UUID, int]
"""Event → nanoseconds on the clock that all processes of the machine share."""


class Together:
    """Processes that end together: with this block, or when one of them fails."""

    def __init__(self) -> None:
        self.answers: Queue[Any] = SPAWN.Queue()
        self._processes: list[SpawnProcess] = []

    def start(self, target: Callable[..., None], *arguments: object) -> None:
        process = SPAWN.Process(target=target, args=arguments, daemon=True)
        process.start()
        self._processes.append(process)

    def answer(self, seconds: float) -> tuple[str, Times]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(Empty):
                answer: tuple[str, Times] = self.answers.get(timeout=0.5)
                return answer
            if failed := [process.exitcode for process in self._processes if process.exitcode is not None]:
                raise RuntimeError(f"a process ended early, with {failed}")
        raise RuntimeError(f"no answer within {seconds:.0f} s: is the machine too busy for this rate?")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(10)
            process.kill()
