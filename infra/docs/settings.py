"""Every process reads its environment once, at the start, into one frozen object; what is wrong is reported together,
and nothing has been started. Units are in the names. Most people set only what the first table lists: variables of
the compose file, in `.env` (or before every `make up`). Two more are read by `make up` itself: `MODE` (docker or
native) and `PORT_OFFSET` (natively: all ports so much higher).
"""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import yaml
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from infra.docs.markdown import code, table
from infra.native.stack import PROJECT
from shared.consumer_process import ConsumerProcessSettings
from shared.runtime.settings import ProcessSettings

VARIABLE = re.compile(r"\$\{([A-Z_]+):([-?])([^}]*)\}")
MADE = {"?": "made by `make up`", "-": "made by `make up`; may be set empty"}
MANY = 5
MODULES = {
    "services.orders.settings": "Orders",
    "services.billing.settings": "Billing",
    "services.analytics.settings": "Analytics",
    "services.housekeeping.settings": "Housekeeping",
    "services.control_room.settings": "Control room",
    "infra.kafka.topics": "Topics",
}


def body() -> str:
    parts = [
        "## Variables of the compose file\n\n" + table(["variable", "default", "read by"], _variables()),
        "## Every process\n\n" + _fields(ProcessSettings, BaseSettings),
        "## Every consumer\n\n" + _fields(ConsumerProcessSettings, ProcessSettings),
    ]
    for module, title in MODULES.items():
        for settings in _declared(module):
            parts.append(f"## {title}: `{settings.__name__}`\n\n{_fields(settings, _known(settings))}")
    return "\n\n".join(parts)


def _variables() -> Iterator[list[str]]:
    """With the anchors resolved, so that a variable stands beside every process that gets it."""
    compose = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
    secrets = _secrets()
    seen: dict[str, tuple[str, list[str]]] = {}
    for process, description in compose["services"].items():
        for name, kind, default in VARIABLE.findall(str(description)):
            told = MADE[kind] if name in secrets else code(default) or "(empty)"
            seen.setdefault(name, (told, []))[1].append(process)
    for name, (told, processes) in sorted(seen.items()):
        distinct = list(dict.fromkeys(processes))
        yield [code(name), told, ", ".join(distinct) if len(distinct) <= MANY else f"{len(distinct)} processes"]


def _secrets() -> set[str]:
    """What `make up` writes into .env where it finds no such line."""
    script = (PROJECT / "infra" / "stack.sh").read_text()
    return set(re.findall(r"[A-Z_]+", re.findall(r"^make_secrets.+?for name in (.+?); do", script, re.M | re.S)[0]))


def _declared(module: str) -> list[type[BaseSettings]]:
    found = vars(import_module(module)).values()
    settings = [each for each in found if isinstance(each, type) and issubclass(each, BaseSettings)]
    return [each for each in settings if each.__module__ == module and set(each.model_fields) - _known_names(each)]


def _known(settings: type[BaseSettings]) -> type[BaseSettings]:
    for base in (ConsumerProcessSettings, ProcessSettings):
        if issubclass(settings, base):
            return base
    return BaseSettings


def _known_names(settings: type[BaseSettings]) -> set[str]:
    return set(_known(settings).model_fields)


def _fields(settings: type[BaseSettings], without: type[BaseSettings]) -> str:
    own = {name: field for name, field in settings.model_fields.items() if name not in without.model_fields}
    rows = [[code(name.upper()), _type(field), _default(field), field.description or ""] for name, field in own.items()]
    return table(["variable", "type", "default", ""], rows)


def _type(field: Any) -> str:
    limits = [
        f"{sign} {getattr(limit, name):g}"
        for limit in field.metadata
        for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"))
        if getattr(limit, name, None) is not None
    ]
    return " ".join([getattr(field.annotation, "__name__", str(field.annotation)), *limits])


def _default(field: Any) -> str:
    return "**required**" if field.default is PydanticUndefined else code(field.default) or "(empty)"
