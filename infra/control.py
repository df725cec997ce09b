"""Hands on the running processes, in Docker or natively: kill, pause, one more of the same.

A killed process comes back by itself natively (the supervisor) and after a failpoint under Docker (the restart policy);
after `docker kill` it does not, because Docker takes that for a wish, so `kill` starts it again there.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import psutil

from infra.native.__main__ import RUN, this_stack
from infra.native.stack import PROJECT, Stack


class Control(Protocol):
    def kill(self, name: str) -> None:
        """SIGKILL. It comes back."""

    def pause(self, name: str) -> None:
        """Every thread of it stands still, until `resume`."""

    def resume(self, name: str) -> None: ...

    @contextmanager
    def replica(self, name: str) -> Iterator[None]:
        """One more of the same, for as long as the block lasts."""


def of_running_stack() -> Control:
    mode = RUN / "mode"
    return Docker() if mode.exists() and mode.read_text().strip() == "docker" else Native(this_stack())


class Native:
    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def kill(self, name: str) -> None:
        self._stack.kill(name)

    def pause(self, name: str) -> None:
        processes = self._processes(name)
        if not processes:
            raise psutil.NoSuchProcess(0, name, "nothing of it runs")
        processes[0].suspend()
        for process in processes[1:]:
            with suppress(psutil.NoSuchProcess):  # a backend that has just left
                process.suspend()

    def resume(self, name: str) -> None:
        for process in self._processes(name):
            with suppress(psutil.NoSuchProcess):
                process.resume()

    @contextmanager
    def replica(self, name: str) -> Iterator[None]:
        program = self._stack.program(name)
        here = {"OPS_BIND": f"127.0.0.1:{_free_port()}"}
        with (self._stack.run / "logs" / f"{name}-replica.log").open("ab") as log:
            process = subprocess.Popen(
                program.command,
                cwd=PROJECT,
                env={**self._stack.environment, **program.environment, **here},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:  # a busy machine; it may not stay, whatever it is doing
                process.kill()
                process.wait()

    def _processes(self, name: str) -> list[psutil.Process]:
        """The process and what it has started: the workers of a web server, the backends of a database."""
        pid = self._stack.supervisor.states()[self._stack.program(name).name]["pid"]
        try:
            return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)] if pid else []
        except psutil.NoSuchProcess:
            return []


class Docker:
    def kill(self, name: str) -> None:
        self._compose("kill", "--signal", "SIGKILL", name)
        self._compose("start", name)

    def pause(self, name: str) -> None:
        self._compose("pause", name)

    def resume(self, name: str) -> None:
        self._compose("unpause", name)

    @contextmanager
    def replica(self, name: str) -> Iterator[None]:
        self._scale(name, 2)
        try:
            yield
        finally:
            self._scale(name, 1)

    def _scale(self, name: str, count: int) -> None:
        self._compose("up", "--detach", "--no-deps", "--no-recreate", "--scale", f"{name}={count}", name)

    def _compose(self, *words: str) -> None:
        subprocess.run(["docker", "compose", *words], cwd=PROJECT, check=True, capture_output=True, env=os.environ)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
