"""Reads docker-compose.yml and answers what to run natively.

Four rules turn a container's view of the world into a process's:

    names      inside, a service is `kafka:19094` and listens on `0.0.0.0:19094`; here both are 127.0.0.1 and the port
               that the file publishes for it (or the same number where it publishes none), plus PORT_OFFSET;
               127.0.0.1 and a port that only another service publishes is what a browser opens: that service's
    folders    a named volume is <run>/data/<volume>, a tmpfs is <run>/tmp/<service>
    x-native   `entrypoint` starts what an image would, `healthcheck` replaces a check that needs the image
    profiles   a service that has some is left out unless COMPOSE_PROFILES names one of them

All else (command, environment, order, health) is taken as it stands.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FILE = "docker-compose.yml"
MACHINE = "127.0.0.1"
LOCAL = ("0.0.0.0", "127.0.0.1", "localhost")  # noqa: S104


class BadComposeFile(Exception):
    """The compose file says something that a native run cannot follow."""


@dataclass(frozen=True)
class Program:
    name: str
    command: list[str]
    environment: dict[str, str]
    is_step: bool
    """Runs once and must succeed, like a migration; everything else runs until it is stopped."""
    health: list[str]
    after: dict[str, str]
    """service → the condition of Compose's depends_on"""
    ports: frozenset[int]
    published: tuple[int, ...]
    """of these, what a person opens"""
    folders: list[Path]
    stop_signal: str = "TERM"
    stop_seconds: int = 20


@dataclass(frozen=True)
class Plan:
    programs: dict[str, Program] = field(default_factory=dict)

    def waves(self) -> list[list[Program]]:
        """Programs in the order in which they can start: each wave needs only those before it."""
        left, done, waves = dict(self.programs), set[str](), []
        while left:
            wave = [program for program in left.values() if set(program.after) <= done]
            if not wave:
                raise BadComposeFile(f"depends_on goes in a circle: {', '.join(sorted(left))}")
            waves.append(wave)
            done |= {program.name for program in wave}
            left = {name: program for name, program in left.items() if name not in done}
        return waves


def read(project: Path, run: Path, variables: Mapping[str, str], *, offset: int = 0) -> Plan:
    document = yaml.safe_load((project / FILE).read_text())
    active = set(variables.get("COMPOSE_PROFILES", "").split(","))
    wanted = {name: s for name, s in document["services"].items() if active & set(s.get("profiles", active))}
    services: dict[str, Any] = _interpolated(wanted, variables)
    ports = {name: _ports(service, offset) for name, service in services.items()}
    entries = [entry for service in services.values() for entry in service.get("ports", [])]
    ports[MACHINE] = {published: published + offset for published, _inside in map(_split_port, entries)}
    steps = {
        name
        for service in services.values()
        for name, dependency in _after(service).items()
        if dependency == "service_completed_successfully"
    }
    return Plan({name: _program(name, services[name], ports, run, name in steps) for name in services})


def _program(name: str, service: dict[str, Any], ports: dict[str, dict[int, int]], run: Path, is_step: bool) -> Program:
    native = service.get("x-native", {})
    folders = _folders(name, service, run)
    here = _Translator(name, ports, folders)
    command = [*native.get("entrypoint", []), *service.get("command", [])]
    if not command:
        raise BadComposeFile(f"{name}: no command, and no x-native.entrypoint to start it without its image")
    if "build" not in service and "entrypoint" not in native:
        raise BadComposeFile(f"{name}: an image needs Docker; x-native.entrypoint says what to run instead")
    health = native.get("healthcheck") or service.get("healthcheck", {}).get("test", [])
    if health and health[0] != "CMD":
        raise BadComposeFile(f"{name}: a health check must be a list that starts with CMD")
    return Program(
        name=name,
        command=[here(word) for word in command],
        environment={key: here(value) for key, value in service.get("environment", {}).items()}
        | _told_to_entrypoint(native, service, ports[name], folders),
        is_step=is_step,
        health=[here(word) for word in health[1:]],
        after=_after(service),
        ports=frozenset(ports[name].values()),
        published=tuple(ports[name][_split_port(entry)[1]] for entry in service.get("ports", [])),
        folders=list(folders.values()),
        stop_signal=service.get("stop_signal", "SIGTERM").removeprefix("SIG"),
        stop_seconds=int(service.get("stop_grace_period", "20s").removesuffix("s")),
    )


def _told_to_entrypoint(
    native: dict[str, Any], service: dict[str, Any], ports: dict[int, int], folders: dict[str, Path]
) -> dict[str, str]:
    """An image knows by itself where its data is and which port it has; its stand-in is told."""
    if "entrypoint" not in native:
        return {}
    volume = folders[service["volumes"][0].split(":")[1]]
    return {"NATIVE_VOLUME": str(volume), "NATIVE_PORT": str(next(iter(ports.values())))}


class _Translator:
    """Container's words → this machine's."""

    def __init__(self, service: str, ports: dict[str, dict[int, int]], folders: dict[str, Path]) -> None:
        self._service, self._ports = service, ports
        self._folders = sorted(folders.items(), key=lambda folder: -len(folder[0]))
        hosts = "|".join(re.escape(host) for host in (*LOCAL, *ports))
        self._address = re.compile(rf"(?<![\w.-])({hosts}):(\d+)(?![\w@])")  # user:0password@ is no address

    def __call__(self, value: object) -> str:
        text = self._address.sub(self._translated, str(value))
        for mount, folder in self._folders:
            if text == mount or text.startswith(mount + "/"):
                return str(folder) + text[len(mount) :]
        return text

    def _translated(self, match: re.Match[str]) -> str:
        host, port = self._service if match[1] in LOCAL else match[1], int(match[2])
        try:
            if match[1] == MACHINE and port not in self._ports[host]:
                host = MACHINE
            return f"127.0.0.1:{self._ports[host][port]}"
        except KeyError:
            raise BadComposeFile(
                f"{self._service}: {match[0]}: {host} neither publishes nor exposes port {port}"
            ) from None


def _ports(service: dict[str, Any], offset: int) -> dict[int, int]:
    """Both the container's port and the published one lead to the port here: a broker advertises the latter."""
    ports = {}
    for entry in service.get("ports", []):
        published, inside = _split_port(entry)
        ports[inside] = ports[published] = published + offset
    for port in service.get("expose", []):
        ports[int(port)] = int(port) + offset
    return ports


def _split_port(entry: str) -> tuple[int, int]:
    parts = str(entry).split(":")
    if len(parts) != 3 or parts[0] != "127.0.0.1":
        raise BadComposeFile(f"port {entry!r}: write 127.0.0.1:<published>:<inside>, so that nobody else can reach it")
    return int(parts[1]), int(parts[2])


def _folders(name: str, service: dict[str, Any], run: Path) -> dict[str, Path]:
    """Mount point in the container → folder here."""
    folders = {entry.split(":")[0]: run / "tmp" / name for entry in service.get("tmpfs", [])}
    for entry in service.get("volumes", []):
        volume, mount = entry.split(":")[:2]
        if volume.startswith((".", "/")):
            raise BadComposeFile(f"{name}: {entry}: use a named volume")
        folders[mount] = run / "data" / volume
    return folders


def _after(service: dict[str, Any]) -> dict[str, str]:
    after = service.get("depends_on", {})
    return {name: entry["condition"] for name, entry in after.items()}


_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:-|:\?)([^}]*))?\})")


def _interpolated(node: Any, variables: Mapping[str, str]) -> Any:
    """Compose's ${NAME}, ${NAME:-default} and ${NAME:?sentence}, in every text of the file."""
    if isinstance(node, dict):
        return {key: _interpolated(value, variables) for key, value in node.items()}
    if isinstance(node, list):
        return [_interpolated(value, variables) for value in node]
    if not isinstance(node, str):
        return node

    def replace(match: re.Match[str]) -> str:
        dollar, name, operator, word = match.groups()
        if dollar:
            return "$"
        if value := variables.get(name, ""):
            return value
        if operator == ":?":
            raise BadComposeFile(f"{name} is not set: {word}")
        return word or ""

    return _VARIABLE.sub(replace, node)
