"""Stacks of a test run's own: the native stack in a temporary folder, on ports that are free."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.native import preflight
from infra.native.stack import PROJECT, Stack

SECRETS = {
    f"{name}_PASSWORD": "not-a-secret-in-a-test"
    for name in ("POSTGRES", "ORDERS_DB", "BILLING_DB", "ANALYTICS_DB", "AUDITOR_DB")
} | dict.fromkeys(("FAILPOINTS_TOKEN", "OPERATOR_TOKEN", "CONTROL_ROOM_TOKEN"), "not-a-secret-in-a-test")


@contextmanager
def messaging_servers() -> Iterator[Stack]:
    """PostgreSQL and Kafka alone, started. Consumers may be declared dead after one second instead of six.

    Nothing is forced to the disk: tests kill servers, but not the machine, and make and drop hundreds of databases.
    """
    with temporary_stack("postgres", "kafka") as stack:
        stack.plan.programs["postgres"].command.extend(["-c", "fsync=off"])
        stack.plan.programs["kafka"].environment["KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS"] = "1000"
        stack.up()
        yield stack


def postgres_url(stack: Stack) -> str:
    port = stack.plan.programs["postgres"].published[0]
    return f"postgresql://postgres:{SECRETS['POSTGRES_PASSWORD']}@127.0.0.1:{port}/postgres"


def kafka_bootstrap(stack: Stack) -> str:
    return f"127.0.0.1:{stack.plan.programs['kafka'].published[0]}"


@contextmanager
def temporary_stack(*only: str, profile: str = "") -> Iterator[Stack]:
    """Not started yet. Whatever happens to this test run, nothing of it stays behind."""
    folder = Path(tempfile.mkdtemp(prefix="effectively once "))  # with a space: paths of real people have some
    folder.chmod(0o711)  # root's PostgreSQL runs as nobody and must get in
    run = (folder / "run").resolve()
    run.mkdir()
    stack = on_free_ports(run, frozenset(only), profile)
    guard = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.support.guard", str(run)],
        stdin=subprocess.PIPE,
        cwd=PROJECT,
        start_new_session=True,
    )
    try:
        yield stack
        stack.down()
    finally:
        guard.communicate()  # closes the pipe and waits until the guard has cleaned up


def on_free_ports(run: Path, only: frozenset[str], profile: str = "") -> Stack:
    for offset in range(2000, 13000, 500):
        stack = Stack(run, SECRETS | {"COMPOSE_PROFILES": profile}, offset=offset, only=only, say=lambda _line: None)
        if not preflight.taken_ports(stack.plan):
            return stack
    raise RuntimeError("no 500 free ports between 3000 and 32000")
