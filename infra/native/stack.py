"""The native stack: start in the order of health, stop in the reverse, and say what is going on."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.native import kafka_jars, postgres, preflight
from infra.native.compose import Plan, Program, read
from infra.native.supervise import Supervisor, end, leftovers, wait_for

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE_S = 180


class CannotStart(Exception):
    """Nothing was started, or what was started did not become healthy; every reason is a line."""


@dataclass
class Stack:
    """One run folder: its plan, its supervisor, its data. Tests make their own, with other ports."""

    run: Path
    variables: Mapping[str, str]
    offset: int = 0
    only: frozenset[str] = frozenset()
    """Empty: everything. Tests of the pattern need two servers and no shop."""
    cache: Path = PROJECT / ".run" / "cache"
    say: Callable[[str], None] = print
    plan: Plan = field(init=False)
    supervisor: Supervisor = field(init=False)

    def __post_init__(self) -> None:
        self.run = self.run.resolve()
        plan = read(PROJECT, self.run, self.variables, offset=self.offset)
        self.plan = Plan({n: p for n, p in plan.programs.items() if n in self.only}) if self.only else plan
        self.supervisor = Supervisor(self.run)

    @property
    def environment(self) -> dict[str, str]:
        """What a process sees besides its settings: where programs are, and nothing of the caller's secrets."""
        path = [str(Path(sys.executable).parent), str(postgres.binaries()), os.environ.get("PATH", "")]
        kept = {key: os.environ[key] for key in ("HOME", "LANG", "TZ", "TMPDIR") if key in os.environ}
        libs = {"KAFKA_LIBS": str(self.cache / f"kafka-{kafka_jars.VERSION}")}
        return {**kept, **libs, "PATH": ":".join(path), "PYTHONPATH": str(PROJECT), "PYTHONUNBUFFERED": "1"}

    # ---- up and down

    def up(self) -> None:
        began = time.monotonic()
        self._check_first()
        for program in self.plan.programs.values():
            for folder in program.folders:
                folder.mkdir(parents=True, exist_ok=True)
        (self.run / "logs").mkdir(exist_ok=True)
        kafka_jars.fetch(self.cache, self.say)
        self.supervisor.configure(self.plan, self.environment, PROJECT)
        self.supervisor.start(self.environment)
        for wave in self.plan.waves():
            self._start_wave(wave)
        self.say(f"all healthy after {time.monotonic() - began:.1f} s")

    def _check_first(self) -> None:
        if not self.supervisor.is_running() and (orphans := leftovers(self.run)):
            self.say(f"ending {len(orphans)} process(es) that an earlier run left behind")
            end(orphans)
        problems = [*preflight.unwritable(self.run), *preflight.missing_java()]
        if not self.only:
            problems += preflight.missing_libraries()
        if not self.supervisor.is_running():
            problems += preflight.taken_ports(self.plan)
        if problems:
            raise CannotStart("Nothing was started:\n" + "\n".join(problems))

    def _start_wave(self, wave: list[Program]) -> None:
        began = time.monotonic()
        for program in wave:
            if not program.is_step:
                self.supervisor.start_program(program.name)
        steps = [(program, self._begin_step(program)) for program in wave if program.is_step]
        for program, running in steps:
            if running.wait(timeout=PATIENCE_S) != 0:
                raise CannotStart(f"{program.name} failed:\n{self.tail(program.name)}")
            self._report(program.name, "done", began)
        waiting = [program for program in wave if not program.is_step]
        while waiting:
            healthy = [program for program in waiting if self.problem(program) is None]
            for program in healthy:
                self._report(program.name, "healthy", began)
            waiting = [program for program in waiting if program not in healthy]
            if waiting and time.monotonic() - began > PATIENCE_S:
                raise CannotStart("\n".join(self._why_not(program) for program in waiting))
            time.sleep(0.1)

    def _begin_step(self, program: Program) -> subprocess.Popen[bytes]:
        with (self.run / "logs" / f"{program.name}.log").open("wb") as log:
            return subprocess.Popen(
                program.command,
                cwd=PROJECT,
                env={**self.environment, **program.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _report(self, name: str, what: str, began: float) -> None:
        self.say(f"  ✔ {name:<20} {what:<8} {time.monotonic() - began:4.1f} s")

    def _why_not(self, program: Program) -> str:
        return f"{program.name} is not healthy after {PATIENCE_S} s: {self.problem(program)}\n{self.tail(program.name)}"

    def down(self) -> None:
        """Stops everything, keeps the data."""
        if self.supervisor.is_running():
            for wave in reversed(self.plan.waves()):
                self.supervisor.stop_programs([program.name for program in wave if not program.is_step])
            self.supervisor.shut_down()
        end(leftovers(self.run))

    def clean(self) -> None:
        """Removes the data too; downloads are kept."""
        self.down()
        for name in ("data", "logs", "tmp", "reports"):
            shutil.rmtree(self.run / name, ignore_errors=True)
        for ledger in self.run.glob("*ledger.jsonl"):  # what clients were told of orders that are gone now
            ledger.unlink()

    # ---- one process

    def program(self, name: str) -> Program:
        program = self.plan.programs.get(name)
        if program is None or program.is_step:
            names = ", ".join(name for name, known in self.plan.programs.items() if not known.is_step)
            raise CannotStart(f"there is no process {name!r}; there are: {names}")
        if not self.supervisor.is_running():
            raise CannotStart("the stack is not running: make up")
        return program

    def problem(self, program: Program) -> str | None:
        """What its health check says is wrong, or None."""
        try:
            check = subprocess.run(
                program.health,
                cwd=PROJECT,
                env={**self.environment, **program.environment},
                capture_output=True,
                text=True,
                timeout=5,
            )
        except subprocess.TimeoutExpired:
            return "the health check does not answer"
        return None if check.returncode == 0 else (check.stdout + check.stderr).strip() or "not healthy"

    def kill(self, name: str) -> None:
        self.program(name)
        self.supervisor.call("signalProcess", name, "KILL")

    def stop(self, name: str) -> None:
        self.supervisor.stop_programs([self.program(name).name])

    def start(self, name: str) -> None:
        program = self.program(name)
        self.supervisor.start_program(name)
        wait_for(lambda: self.problem(program) is None, PATIENCE_S, self._why_not(program))

    def restart(self, name: str) -> None:
        self.stop(name)
        self.start(name)

    def execute(self, name: str, command: list[str]) -> subprocess.CompletedProcess[bytes]:
        """A command with the settings of a process: what `docker compose exec` does."""
        return subprocess.run(command, cwd=PROJECT, env={**self.environment, **self.program(name).environment})

    def log(self, name: str) -> Path:
        return self.run / "logs" / f"{name}.log"

    def tail(self, name: str, lines: int = 15) -> str:
        try:
            text = self.log(name).read_text(errors="replace")
        except FileNotFoundError:
            return "  (no log yet)"
        return "\n".join("  | " + line for line in text.splitlines()[-lines:])
