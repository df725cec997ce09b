"""Keeps the processes running: a supervisord of the project's own, told what to do over its socket.

It restarts what dies (with growing pauses for what dies at once), reaps its children, and rotates a log per process.
What it lacks, order by health, is in stack.py.
"""

import getpass
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
import xmlrpc.client
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from supervisor.xmlrpc import SupervisorTransport

from infra.native.compose import Plan, Program

MARKER = "EFFECTIVELY_ONCE_RUN"
"""In the environment of everything we start, with the run folder as value: how leftovers are recognised."""

GONE = (ConnectionError, FileNotFoundError, xmlrpc.client.ProtocolError)


class Supervisor:
    def __init__(self, run: Path) -> None:
        self.run = run
        self.configuration = run / "supervisord.conf"
        self.socket = _socket(run)

    def call(self, method: str, *arguments: Any) -> Any:
        """supervisord's own vocabulary: startProcess, signalProcess, getAllProcessInfo, …"""
        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        with xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)

    def is_running(self) -> bool:
        try:
            return bool(self.call("getState"))
        except GONE:
            return False

    def configure(self, plan: Plan, environment: Mapping[str, str], project: Path) -> None:
        sections = [_head(self.run, self.socket)]
        sections += [
            _section(program, environment, project, self.run)
            for program in plan.programs.values()
            if not program.is_step
        ]
        self.configuration.touch(mode=0o600)  # it holds the passwords of the services
        self.configuration.write_text("\n".join(sections))

    def start(self, environment: Mapping[str, str]) -> None:
        """Start it, or make one that runs follow a changed configuration.

        Its children inherit all that it sees: what the caller has exported must not reach them through it.
        """
        if self.is_running():
            ((added, changed, removed),) = self.call("reloadConfig")
            for name in [*changed, *removed]:
                self.call("stopProcessGroup", name)
                self.call("removeProcessGroup", name)
            for name in [*added, *changed]:
                self.call("addProcessGroup", name)
            return
        self.socket.unlink(missing_ok=True)
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "supervisor.supervisord", "-c", str(self.configuration)],
            check=True,
            stdin=subprocess.DEVNULL,
            env={**environment, MARKER: str(self.run)},
        )
        wait_for(self.is_running, 10, "supervisord did not answer")

    def states(self) -> dict[str, dict[str, Any]]:
        return {info["name"]: info for info in self.call("getAllProcessInfo")} if self.is_running() else {}

    def start_program(self, name: str) -> None:
        if self.states()[name]["statename"] not in ("RUNNING", "STARTING", "BACKOFF"):
            self.call("startProcess", name, False)

    def stop_programs(self, names: list[str]) -> None:
        states = self.states()
        names = [name for name in names if name in states]
        for name in names:
            if states[name]["statename"] not in ("STOPPED", "EXITED", "FATAL", "STOPPING"):
                self.call("stopProcess", name, False)

        def stopped() -> bool:
            now = self.states()
            return all(now[name]["statename"] in ("STOPPED", "EXITED", "FATAL") for name in names)

        wait_for(stopped, 45, f"did not stop: {', '.join(names)}")

    def shut_down(self) -> None:
        pid = int(self.call("getPID"))
        self.call("shutdown")
        wait_for(lambda: not _alive(pid), 20, "supervisord did not stop")


def leftovers(run: Path) -> list[psutil.Process]:
    """Processes of this run folder whose supervisor is gone: after a kill -9 of it, or of everything at once."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == str(run) and process.pid != os.getpid():
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def end(processes: list[psutil.Process]) -> None:
    for process in processes:
        _tell(process, "terminate")
    _gone, alive = psutil.wait_procs(processes, timeout=10)
    for process in alive:
        _tell(process, "kill")
    psutil.wait_procs(alive, timeout=5)


def _tell(process: psutil.Process, action: str) -> None:
    try:
        getattr(process, action)()
    except psutil.NoSuchProcess:
        return


def wait_for(done: Any, seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise)
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _socket(run: Path) -> Path:
    """A unix socket's path may have about 100 characters; a deep project gets one in the temporary folder."""
    if len(str(run)) < 80:
        return run / "supervisor.sock"
    digest = hashlib.sha256(str(run).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"effectively-once-{getpass.getuser()}-{digest}.sock"


def _head(run: Path, socket: Path) -> str:
    return f"""
[supervisord]
logfile = {_escaped(run / "logs" / "supervisord.log")}
pidfile = {_escaped(run / "supervisord.pid")}
childlogdir = {_escaped(run / "logs")}
strip_ansi = false
silent = true
{"user = root" if os.geteuid() == 0 else ""}

[unix_http_server]
file = {_escaped(socket)}
chmod = 0600

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""


def _section(program: Program, environment: Mapping[str, str], project: Path, run: Path) -> str:
    variables = {**environment, **program.environment, MARKER: str(run)}
    return f"""
[program:{program.name}]
command = {_escaped(shlex.join(program.command))}
directory = {_escaped(project)}
environment = {_escaped(",".join(f'{key}="{_quotable(value)}"' for key, value in variables.items()))}
autostart = false
autorestart = true
startsecs = 1
startretries = 1000000
stopsignal = {program.stop_signal}
stopwaitsecs = {program.stop_seconds}
killasgroup = true
redirect_stderr = true
stdout_logfile = {_escaped(run / "logs" / f"{program.name}.log")}
stdout_logfile_maxbytes = 20MB
stdout_logfile_backups = 2
"""


def _escaped(text: object) -> str:
    return str(text).replace("%", "%%")


def _quotable(value: str) -> str:
    if '"' in value or "\n" in value or "\\" in value:
        raise ValueError(
            f"a setting with a double quote, a backslash or a line break cannot be passed on: {value[:20]}…"
        )
    return value
