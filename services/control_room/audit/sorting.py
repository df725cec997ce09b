"""Sorting more than fits into memory: sorted runs on disk, merged while they are read."""

import heapq
import pickle
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import IO, TypeVar

Row = TypeVar("Row", bound=tuple[object, ...])

RUN_ROWS = 100_000
BLOCK_ROWS = 1000
"""Written and read at once, which costs less than a row at a time."""


def on_disk(rows: Iterable[Row], closing: ExitStack, *, run_rows: int = RUN_ROWS) -> Iterator[Row]:
    """The rows in order. They must be comparable as tuples; the runs vanish when `closing` does."""
    source = iter(rows)
    runs: list[IO[bytes]] = []
    while run := sorted(islice(source, run_rows)):
        file = closing.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  closed with `closing`
        for first in range(0, len(run), BLOCK_ROWS):
            pickle.dump(run[first : first + BLOCK_ROWS], file, pickle.HIGHEST_PROTOCOL)
        file.seek(0)
        runs.append(file)
    return heapq.merge(*(_read(file) for file in runs))


def _read(file: IO[bytes]) -> Iterator[Row]:
    """Our own bytes from a file without a name, so unpickling them is safe."""
    while True:
        try:
            yield from pickle.load(file)  # noqa: S301
        except EOFError:
            return
