"""Kafka's clients complain on standard error while it is away. That belongs into a file, not across the live view."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog


@contextmanager
def into(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    terminal = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(sys.stderr))
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
