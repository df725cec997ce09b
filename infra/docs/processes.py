"""What runs, from `docker-compose.yml` and the first lines of each process's file. Ports are those on 127.0.0.1;
natively all of them move by `PORT_OFFSET`.
"""

import ast
import re
from pathlib import Path
from typing import Any

import yaml

from infra.docs.markdown import code, table
from infra.native.stack import PROJECT


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
    return found


def entry_file(service: dict[str, Any]) -> Path | None:
    """The file of ours that a service runs; None for what an image brings."""
    words = " ".join(map(str, service.get("command", [])))
    module = re.search(
        r"\b((?:services|shared|infra)\.[a-z_.]+)", words.replace("shared/runtime/gunicorn_config.py", "")
    )
    return Path(module[1].replace(".", "/") + ".py") if module else None


def body() -> str:
    found = services()
    steps = {name for service in found.values() for name, when in _after(service).items() if "completed" in when}
    servers = {name: s for name, s in found.items() if entry_file(s) is None}
    ours = {name: s for name, s in found.items() if name not in servers and name not in steps}
    once = {name: s for name, s in found.items() if name in steps}
    return "\n\n".join(
        [
            "## Servers\n\n" + table(["name", "image", "port"], _servers(servers)),
            "## Steps that prepare them, in this order\n\n" + table(["name", "runs", "after"], _steps(once)),
            "## Processes\n\n" + table(["name", "file", "HTTP", "operations"], _processes(ours)),
            *(_details(name, service) for name, service in ours.items()),
        ]
    )


def _servers(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    return [[name, code(s["image"]), ", ".join(_published(s)) + _profile(s)] for name, s in found.items()]


def _steps(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    return [[name, code(" ".join(map(str, s["command"]))), ", ".join(_after(s))] for name, s in found.items()]


def _processes(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    rows = []
    for name, service in found.items():
        operations = str(service.get("environment", {}).get("OPS_BIND", "")).rpartition(":")[2]
        rows.append([name + _profile(service), code(entry_file(service)), ", ".join(_published(service)), operations])
    return rows


def _details(name: str, service: dict[str, Any]) -> str:
    file = entry_file(service)
    told = ast.get_docstring(ast.parse((PROJECT / file).read_text())) if file else ""
    first, _, rest = (told or "").partition("\n")
    facts = re.findall(r"^(does|reads|writes|next) +(.+(?:\n {8}.+)*)", rest, re.MULTILINE)
    lines = [f"- **{word}** {' '.join(text.split())}" for word, text in facts]
    told = first.partition(": ")[2] or first
    return f"### {name}\n\n{told[:1].upper()}{told[1:]}\n\n" + "\n".join(lines)


def _after(service: dict[str, Any]) -> dict[str, str]:
    after = service.get("depends_on", {})
    return {name: how["condition"] for name, how in after.items()} if isinstance(after, dict) else {}


def _published(service: dict[str, Any]) -> list[str]:
    return re.findall(r":-(\d+)\}", " ".join(service.get("ports", [])))


def _profile(service: dict[str, Any]) -> str:
    return f" (profile {', '.join(service['profiles'])})" if "profiles" in service else ""
