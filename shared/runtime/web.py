"""What every HTTP service has in common: the app's frame, health, problems, security headers, the operator's door."""

import hmac
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from apiflask import APIFlask
from flask import Response, request, send_from_directory

from shared.runtime import problems, reference
from shared.runtime.ops import Check
from shared.runtime.problems import Problem

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
MAX_BODY_BYTES = 256 * 1024
VENDOR = Path(__file__).parent / "static" / "vendor"
"""Other people's scripts and styles, as they published them: a page may load nothing from another host."""


def create_app(name: str, title: str, *, ready: Sequence[Check] = (), **flask: Any) -> APIFlask:
    """`flask` is what Flask itself takes (template_folder, static_folder, …)."""
    app = APIFlask(name, title=title, json_errors=False, docs_path=None, spec_path="/openapi.json", **flask)
    app.config["OPENAPI_VERSION"] = "3.1.0"
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    problems.install(app)
    reference.install(app)

    @app.get("/healthz")
    @app.doc(hide=True)
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    @app.doc(hide=True)
    def readyz() -> tuple[dict[str, object], int]:
        found = [problem for check in ready if (problem := check())]
        return {"status": "ill" if found else "ok", "problems": found}, 503 if found else 200

    @app.get("/vendor/<path:name>")
    @app.doc(hide=True)
    def vendor(name: str) -> Response:
        return send_from_directory(VENDOR, name)

    @app.after_request
    def secure(response: Response) -> Response:
        """A page that needs more (a connection to another service, an image as data) sets its own policy first."""
        for header, value in SECURITY_HEADERS.items():
            response.headers.setdefault(header, value)
        return response

    return app


def operator_only(token: str) -> Callable[[], None]:
    """A `before_request` for what shows or changes other people's data. Customers hold an unguessable id instead."""

    def check() -> None:
        given = request.headers.get("Authorization", "")
        if not token or not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise Problem(
                401,
                "operator-only",
                "This needs the operator's token: Authorization: Bearer … (OPERATOR_TOKEN in .env)",
                headers={"WWW-Authenticate": "Bearer"},
            )

    return check
