"""What each API answers, from its own description. A running service serves that at `/openapi.json`, and `/reference`
renders it. Errors are RFC 9457 problem documents.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from infra.docs.markdown import code, table

APPS = {"orders": "Orders", "billing": "Billing", "analytics": "Analytics", "control_room": "Control room"}
NOWHERE = "postgresql://nobody@127.0.0.1:1/nowhere"
SETTINGS = {
    "PROCESS": "docs",
    "DATABASE_URL": NOWHERE,
    **{f"{name}_DATABASE_URL": NOWHERE for name in ("ORDERS", "BILLING", "ANALYTICS")},
    "KAFKA_BOOTSTRAP": "127.0.0.1:1",
    "OPS": "docs=127.0.0.1:1",
    **{f"{name}_URL": "http://127.0.0.1:1" for name in ("MAIL", "ORDERS", "BILLING", "ANALYTICS")},
    **{f"{name}_PUBLIC_URL": "http://127.0.0.1:1" for name in ("STOREFRONT", "BILLING", "SALES", "MAIL")},
}
"""Enough for an app to describe itself; it connects to nothing until it is asked something."""


def body() -> str:
    return "\n\n".join(f"## {title}\n\n{_routes(name)}" for name, title in APPS.items())


def _routes(name: str) -> str:
    with _environment():
        spec = import_module(f"services.{name}.api").create_app().spec
    rows = []
    for path, methods in sorted(spec["paths"].items()):
        for method, operation in methods.items():
            if method in ("get", "post", "put", "patch", "delete"):
                answers = ", ".join(sorted(map(str, operation["responses"])))
                rows.append([code(f"{method.upper()} {path}"), _told(operation), answers])
    return table(["request", "", "answers"], rows)


def _told(operation: dict[str, Any]) -> str:
    token = " Needs a token." if operation.get("security") else ""
    told = ". ".join(text.rstrip(".") for text in (operation.get("summary"), operation.get("description")) if text)
    return f"{told}.{token}"


@contextmanager
def _environment() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(SETTINGS)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
