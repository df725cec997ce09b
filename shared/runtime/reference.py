"""The API reference that people read: /openapi.json, rendered at /reference by Swagger UI from our own files."""

from pathlib import Path

from apiflask import APIFlask
from flask import Response, send_from_directory

FOLDER = Path(__file__).parent / "static"
# Swagger UI sets styles from its script and has pictures in its stylesheet; no other page may.
POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)


def install(app: APIFlask) -> None:
    @app.get("/reference")
    @app.doc(hide=True)
    def reference() -> Response:
        page = send_from_directory(FOLDER, "reference.html")
        page.headers["Content-Security-Policy"] = POLICY
        return page

    @app.get("/reference/reference.js")
    @app.doc(hide=True)
    def reference_script() -> Response:
        return send_from_directory(FOLDER, "reference.js")
