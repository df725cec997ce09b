"""Named places where a process can be made to die, sleep or fail: the crash windows, reproducible.

    kill              SIGKILL to itself, nothing is cleaned up
    pause:<seconds>   every thread stands still (SIGSTOP), then goes on: this is how zombies are made
    error             raises InjectedFault

A failpoint fires once per arming. It is armed by the environment (FAILPOINTS=name=action,…), which arms it again at
every start, or at run time through the operations port, which writes a file that the first process to come by takes
away. A file, because the workers of a web server share no memory.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

CATALOGUE = {
    "orders.api.before_commit": "before the order is committed",
    "orders.api.after_commit": "after the commit, before the answer",
    "orders.relay.after_claim": "rows read, nothing produced",
    "orders.relay.after_produce": "sent, not acknowledged",
    "orders.relay.after_ack": "on the topic, not marked",
    "*.consumer.after_receive": "before BEGIN",
    "*.consumer.after_claim": "inbox row written, not committed",
    "*.consumer.before_commit": "effect written, not committed",
    "*.consumer.after_commit": "committed, offset not moved: the dangerous one",
    "*.consumer.after_offset": "offset moved",
    "*.consumer.before_park": "a bad event about to be parked",
    "billing.worker.after_lease": "row leased",
    "billing.worker.after_render": "PDF made, not stored",
    "billing.worker.after_store": "stored, e-mail row written",
    "billing.worker.before_smtp": "marked `sending`, nothing sent",
    "billing.worker.after_smtp": "the server said 250, not recorded",
    "billing.reconciler.before_commit": "re-queued, not committed",
    "billing.redrive.before_commit": "a dead letter applied, not committed",
    "housekeeping.before_commit": "a partition dropped, not committed",
}


class InjectedFault(Exception):
    """A failpoint armed with `error` was passed."""


class UnknownFailpoint(ValueError):
    """No failpoint has this name, or the action is none of kill, pause:<seconds>, error."""


_directory: Path | None = None
_from_environment: dict[str, str] = {}


def configure(armed: str = "", directory: str = "") -> None:
    """Called once at the start of a process. Without it, or with neither argument, every hit() is free."""
    global _directory
    _from_environment.clear()
    for name, _, action in (entry.partition("=") for entry in armed.split(",") if entry):
        _from_environment[name] = _checked(name, action)
    _directory = Path(directory) if directory else None
    if _directory:
        _directory.mkdir(parents=True, exist_ok=True)


def hit(name: str) -> None:
    """The crash window `name` is open now."""
    if _from_environment and (action := _from_environment.pop(name, None)):
        _fire(name, action)
    if _directory and (action := _take(_directory / name)):
        _fire(name, action)


def arm(name: str, action: str) -> None:
    """Make `name` fire at the next pass, in whichever process passes first."""
    if _directory is None:
        raise UnknownFailpoint("this process has no FAILPOINTS_DIR: nothing can be armed at run time")
    path = _directory / name
    unfinished = path.with_name(f"{name}.new")  # with_suffix would make one name of before_commit and after_commit
    unfinished.write_text(_checked(name, action))
    unfinished.rename(path)


def disarm(name: str) -> None:
    if _directory is not None:
        (_directory / _known(name)).unlink(missing_ok=True)


def armed() -> dict[str, str]:
    files = sorted(_directory.iterdir()) if _directory else []
    waiting = {file.name: file.read_text() for file in files if file.suffix != ".new"}
    return _from_environment | waiting


def _known(name: str) -> str:
    """Also keeps a name from being a path."""
    if not re.fullmatch(r"[a-z_.]+", name) or not any(fnmatchcase(name, known) for known in CATALOGUE):
        raise UnknownFailpoint(f"no failpoint is called {name!r}; known: {', '.join(CATALOGUE)}")
    return name


def _checked(name: str, action: str) -> str:
    _known(name)
    if not re.fullmatch(r"kill|error|pause:\d+(\.\d+)?", action):
        raise UnknownFailpoint(f"{action!r} is not an action: kill, pause:<seconds> or error")
    return action


def _take(path: Path) -> str | None:
    """Read and remove; of several processes that try, one succeeds, because rename has one winner."""
    taken = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.rename(taken)
    except FileNotFoundError:
        return None
    action = taken.read_text()
    with contextlib.suppress(FileNotFoundError):
        taken.unlink()
    return action


def _fire(name: str, action: str) -> None:
    print(
        f'{{"event": "failpoint fires", "failpoint": "{name}", "action": "{action}"}}',
        file=sys.stderr,
        flush=True,
    )
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "error":
        raise InjectedFault(name)
    else:
        # Somebody else must wake us: a stopped process cannot set its own alarm.
        seconds = action.removeprefix("pause:")
        subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {os.getpid()}"], start_new_session=True)
        os.kill(os.getpid(), signal.SIGSTOP)
