"""The native stack from the command line; `make` calls it: make up, make ps, make kill S=billing-worker, …"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from infra.native import postgres
from infra.native.compose import BadComposeFile
from infra.native.kafka_jars import DownloadFailed
from infra.native.stack import PROJECT, CannotStart, Stack

RUN = PROJECT / ".run"


def variables(env_file: Path) -> dict[str, str]:
    """As Compose does: the .env file, and the caller's environment above it."""
    lines = env_file.read_text().splitlines() if env_file.exists() else []
    pairs = (line.partition("=")[::2] for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs} | dict(os.environ)


def this_stack() -> Stack:
    known = variables(PROJECT / ".env")
    remembered = RUN / "port-offset"
    offset = known.get("PORT_OFFSET") or (remembered.read_text() if remembered.exists() else "0")
    profiles = RUN / "profiles"
    asked_for = {"COMPOSE_PROFILES": profiles.read_text().strip()} if profiles.exists() else {}
    return Stack(RUN, asked_for | known, offset=int(offset))


def up(stack: Stack) -> None:
    RUN.mkdir(exist_ok=True)
    stack.up()
    (RUN / "port-offset").write_text(str(stack.offset))
    ps(stack)
    control_room, mail = (stack.plan.programs[name].published[-1] for name in ("control-room", "mail"))
    token = stack.variables["CONTROL_ROOM_TOKEN"]
    print(
        f"\nOpen the control room: http://127.0.0.1:{control_room}/?token={token}    the mailbox: http://127.0.0.1:{mail}"
    )
    print("Next: make ps · make logs S=orders-relay · make kill S=billing-consumer · make psql DB=orders · make down")


def ps(stack: Stack) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("process", "state", "health", "address", "pid"):
        table.add_column(title)
    states = stack.supervisor.states()
    for program in stack.plan.programs.values():
        if program.is_step:
            continue
        state = states.get(program.name, {"statename": "STOPPED", "pid": 0})
        problem = stack.problem(program) if state["pid"] else "-"
        health = "[green]healthy[/]" if problem is None else "-" if problem == "-" else f"[red]ill[/]: {problem[:60]}"
        address = " ".join(f"127.0.0.1:{port}" for port in program.published)
        table.add_row(program.name, state["statename"].lower(), health, address, str(state["pid"] or ""))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def logs(stack: Stack, name: str | None, follow: bool) -> None:
    files = [stack.log(name)] if name else sorted((stack.run / "logs").glob("*.log"))
    missing = [file for file in files if not file.exists()]
    if missing:
        raise CannotStart(f"no log of {name!r}; there are: {', '.join(f.stem for f in (RUN / 'logs').glob('*.log'))}")
    tail = ["tail", "-n", "40", *(["-F"] if follow else []), *map(str, files)]
    subprocess.run(tail, check=False)


def psql(stack: Stack, database: str) -> None:
    server = stack.plan.programs["postgres"]
    command = [postgres.binaries() / "psql", "-h", "127.0.0.1", "-p", server.published[0], "-U", "postgres", database]
    password = server.environment["POSTGRES_PASSWORD"]
    subprocess.run([str(word) for word in command], check=False, env={**os.environ, "PGPASSWORD": password})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.native", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, sentence in {
        "up": "start everything that does not run yet, and wait until it is healthy",
        "down": "stop everything; the data stays",
        "clean": "stop everything and remove the data",
        "ps": "what runs, and how it is",
    }.items():
        commands.add_parser(name, help=sentence)
    for name, sentence in {
        "kill": "SIGKILL a process; it is started again by itself",
        "stop": "stop a process until `start`",
        "start": "start a stopped process and wait until it is healthy",
        "restart": "stop and start",
    }.items():
        commands.add_parser(name, help=sentence).add_argument("process")
    log_parser = commands.add_parser("logs", help="the last lines of a log, or of all")
    log_parser.add_argument("process", nargs="?")
    log_parser.add_argument("-f", "--follow", action="store_true")
    run_parser = commands.add_parser("exec", help="run a command with the settings of a process")
    run_parser.add_argument("process")
    run_parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND …")
    commands.add_parser("psql", help="a prompt in a database").add_argument("database", nargs="?", default="orders")
    arguments = parser.parse_args()
    try:
        run(this_stack(), arguments)
    except (CannotStart, BadComposeFile, DownloadFailed, TimeoutError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def run(stack: Stack, arguments: argparse.Namespace) -> None:
    match arguments.command:
        case "up":
            up(stack)
        case "ps":
            ps(stack)
        case "down":
            stack.down()
            (RUN / "profiles").unlink(missing_ok=True)
            print("everything is stopped; the data is kept (make clean removes it)")
        case "clean":
            stack.clean()
            (RUN / "profiles").unlink(missing_ok=True)
            print("everything is stopped and the data is removed")
        case "logs":
            logs(stack, arguments.process, arguments.follow)
        case "psql":
            psql(stack, arguments.database)
        case "exec":
            sys.exit(stack.execute(arguments.process, arguments.words).returncode)
        case command:
            getattr(stack, command)(arguments.process)


if __name__ == "__main__":
    main()
