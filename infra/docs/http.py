"""What each API answers, from its own description. A running service serves that at `/openapi.json`, and `/reference`
renders it. Errors are RFC 9457 problem documents.
"""

import json
import os
import subprocess
import sys
from typing import Any

from infra.docs.markdown import code, table
from infra.native.stack import PROJECT
from shared.runtime import ops

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
"""Enough for an app to describe itself."""
# In a process of its own, which ends at once: an app may begin to watch the world as soon as it is made.
DESCRIBE = """
import importlib, json, os, sys
print(json.dumps(importlib.import_module(f"services.{sys.argv[1]}.api").create_app().spec), flush=True)
os._exit(0)
"""


def body() -> str:
    apis = "\n\n".join(f"## {title}\n\n{_routes(name)}" for name, title in APPS.items())
    return f"{apis}\n\n## The operations port of every process\n\n```text\n{ops.__doc__}```"


def _routes(name: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", DESCRIBE, name]
    told = subprocess.run(command, cwd=PROJECT, env=os.environ | SETTINGS, capture_output=True, check=True)
    spec = json.loads(told.stdout)
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
