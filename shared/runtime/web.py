"""What every HTTP service has in common: the app's frame, its health routes and its security headers."""

from collections.abc import Sequence

from apiflask import APIFlask
from flask import Response

from shared.runtime.ops import Check

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def create_app(name: str, title: str, *, ready: Sequence[Check] = ()) -> APIFlask:
    app = APIFlask(name, title=title, docs_path=None, spec_path="/openapi.json")
    app.config["OPENAPI_VERSION"] = "3.1.0"
    app.config["MAX_CONTENT_LENGTH"] = 256 * 1024

    @app.get("/healthz")
    @app.doc(hide=True)
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    @app.doc(hide=True)
    def readyz() -> tuple[dict[str, object], int]:
        problems = [problem for check in ready if (problem := check())]
        return {"status": "ill" if problems else "ok", "problems": problems}, 503 if problems else 200

    @app.after_request
    def secure(response: Response) -> Response:
        for header, value in SECURITY_HEADERS.items():
            response.headers.setdefault(header, value)
        return response

    return app
