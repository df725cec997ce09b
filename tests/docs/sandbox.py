"""A copy of the repository as a new user has it, on ports that are free, and a shell in it. Nothing of it stays
behind.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from infra.native.stack import PROJECT
from tests.support.stacks import on_free_ports

PATIENCE_S = 900
END = "\x1e"


class Stuck(Exception):
    """A command did not end in time."""


class Sandbox(NamedTuple):
    folder: Path
    port_offset: int


@contextmanager
def copy_of_the_repository() -> Iterator[Sandbox]:
    """Committed or not, but without what git ignores: installed packages and downloads are shared, data are not."""
    folder = Path(tempfile.mkdtemp(prefix="effectively-once-docs-")).resolve()
    folder.chmod(0o711)  # root's PostgreSQL runs as nobody and must get in
    known = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        check=True,
    )
    for name in known.stdout.decode().split("\0"):
        if name and (PROJECT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, folder / name)
    (folder / ".run").mkdir()
    (PROJECT / ".run" / "cache").mkdir(parents=True, exist_ok=True)
    (folder / ".run" / "cache").symlink_to(PROJECT / ".run" / "cache")
    (folder / ".venv").symlink_to(PROJECT / ".venv")
    guard = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.support.guard", str(folder / ".run")],
        stdin=subprocess.PIPE, cwd=PROJECT, start_new_session=True,
    )  # fmt: skip
    try:
        yield Sandbox(folder, on_free_ports(folder / ".run", frozenset()).offset)
    finally:
        guard.communicate()  # closes the pipe and waits until the guard has cleaned up


class Shell:
    """One bash for a whole page, so that its variables stay. Ports in commands and outputs are those of the page."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._offset = sandbox.port_offset
        hidden = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "C", "WRITE")  # ours, not the reader's
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        environment |= {"PORT_OFFSET": str(self._offset), "MODE": "native", "TERM": "dumb", "COLUMNS": "100"}
        self._bash = subprocess.Popen(
            ["bash", "--norc"], cwd=sandbox.folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def run(self, command: str) -> tuple[int, str]:
        """Exit status and output."""
        assert self._bash.stdin is not None
        sent = f"{{ {self._moved(command)}\n}} </dev/null; printf '{END}%s\\n' $?\n"
        self._bash.stdin.write(sent.encode())
        self._bash.stdin.flush()
        output, status = self._until_end().rsplit(END, 1)
        return int(status), self._moved_back(output)

    def close(self) -> None:
        """With everything it has started in the background."""
        os.killpg(self._bash.pid, signal.SIGTERM)
        self._bash.wait(30)

    def _until_end(self) -> str:
        assert self._bash.stdout is not None
        read, deadline = b"", time.monotonic() + PATIENCE_S
        while not re.search(END.encode() + rb"\d+\n$", read):
            ready, _, _ = select.select([self._bash.stdout], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._bash.stdout.fileno(), 65536) if ready else b""
            if not part:
                raise Stuck(f"no end after {PATIENCE_S} s, or the shell is gone; so far:\n{read.decode()}")
            read += part
        return read.decode(errors="replace")

    def _moved(self, text: str) -> str:
        return self._shifted(text, self._offset)

    def _moved_back(self, text: str) -> str:
        return self._shifted(text, -self._offset)

    def _shifted(self, text: str, by: int) -> str:
        return re.sub(r"127\.0\.0\.1:(\d{4,5})\b", lambda found: f"127.0.0.1:{int(found[1]) + by}", text)
