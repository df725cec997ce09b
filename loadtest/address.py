"""Where the running stack's services answer, in both modes: what docker-compose.yml publishes for them."""

import os

from infra.native.__main__ import RUN, variables
from infra.native.compose import read
from infra.native.stack import PROJECT


def url(service: str) -> str:
    """ORDERS_URL, BILLING_URL, … say otherwise."""
    if given := os.environ.get(service.removesuffix("-api").replace("-", "_").upper() + "_URL"):
        return given.rstrip("/")
    known = variables(PROJECT / ".env")
    native = (known.get("MODE") or _remembered("mode", "native")) == "native"
    offset = known.get("PORT_OFFSET") or _remembered("port-offset", "0") if native else "0"
    plan = read(PROJECT, RUN, known, offset=int(offset))
    return f"http://127.0.0.1:{plan.programs[service].published[0]}"


def _remembered(name: str, otherwise: str) -> str:
    file = RUN / name
    return file.read_text().strip() if file.exists() else otherwise
