"""Every error of an HTTP service is a problem+json document (RFC 9457): what went wrong, in words, and nothing more.

Raise `Problem` for what the service itself finds wrong. What Flask, the validation or the database finds is turned into
one here, so that a client meets a single shape; an unexpected exception is logged and answered without its details.
"""

from http import HTTPStatus
from typing import Any

from apiflask import APIFlask, HTTPError
from flask import Response, json, request
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import HTTPException

from shared.runtime import logs

CONTENT_TYPE = "application/problem+json"


class Problem(Exception):
    """`kind` is a short name that a program can compare (it becomes `type`); `detail` is for the person."""

    def __init__(
        self, status: int, kind: str, detail: str, *, headers: dict[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.headers, self.members = headers or {}, members

    def document(self) -> dict[str, Any]:
        title = HTTPStatus(self.status).phrase
        return {"type": f"/problems/{self.kind}", "title": title, "status": self.status, "detail": self.detail} | (
            self.members
        )

    def response(self) -> Response:
        return Response(json.dumps(self.document()), self.status, self.headers, content_type=CONTENT_TYPE)


def install(app: APIFlask) -> None:
    app.register_error_handler(Problem, lambda problem: problem.response())
    app.register_error_handler(HTTPError, lambda error: _of_validation(error).response())
    app.register_error_handler(HTTPException, lambda error: _of_flask(error).response())
    app.register_error_handler(OperationalError, lambda error: of_database(error).response())
    app.register_error_handler(InterfaceError, lambda error: of_database(error).response())
    app.register_error_handler(InternalError, lambda error: _of_internal(error).response())
    app.register_error_handler(PoolTimeout, lambda error: of_database(error).response())
    app.register_error_handler(RecursionError, lambda _error: _TOO_DEEP.response())
    app.spec_processor(_described)
    app.register_error_handler(Exception, lambda error: _unexpected(error).response())


def _described(spec: Any) -> Any:
    """In /openapi.json too, every error has this one shape, whatever the framework would have written there."""
    operations = [operation for path in spec["paths"].values() for operation in path.values()]
    responses = [found for operation in operations for found in operation["responses"].items()]
    for status, response in responses:
        if int(status) >= 400:
            response["content"] = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    schemas: dict[str, Any] = spec.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = Document.model_json_schema()
    for unused in ("HTTPError", "ValidationError"):
        schemas.pop(unused, None)
    return spec


class Document(BaseModel):
    """The shape of every error, for the API descriptions."""

    type: str
    title: str
    status: int
    detail: str


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For `app.doc(responses=…)`: from 400 on these answers are problems."""
    problem = {"content": {CONTENT_TYPE: {"schema": Document}}}
    return {
        status: {"description": HTTPStatus(status).phrase, **(problem if status >= HTTPStatus.BAD_REQUEST else {})}
        for status in statuses
    }


# What reads JSON gives up at some depth.
_TOO_DEEP = Problem(400, "bad-request", "The body is nested too deeply.")


def _of_flask(error: HTTPException) -> Problem:
    status = HTTPStatus(error.code or 500)
    headers = {name: value for name, value in error.get_headers() if name in ("Allow", "Retry-After", "Location")}
    return Problem(status, _slug(status.phrase), error.description or status.phrase, headers=headers)


def _of_validation(error: HTTPError) -> Problem:
    """Which field, and why; never the value, which may be somebody's data."""
    places = error.detail if isinstance(error.detail, dict) else {}
    errors = [
        {"field": field, "problem": message}
        for place in places.values()
        if isinstance(place, dict)
        for field, messages in place.items()
        for message in (messages if isinstance(messages, list) else [str(messages)])
    ]
    # A header that is missing or malformed is a bad request; a body or query that is well-formed but wrong is a 422.
    status = HTTPStatus(400 if "headers" in places else error.status_code)
    said = error.message or status.phrase
    return Problem(status, "invalid", said, errors=errors) if errors else Problem(status, _slug(status.phrase), said)


def of_database(error: Exception) -> Problem:
    """Away, overloaded or busy: nothing was committed that the client was not told of, so it may try again."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    logs.get().warning("the database did not answer", path=request.path, error=str(cause).splitlines()[0])
    return Problem(503, "database-away", "The database does not answer; try again.", headers={"Retry-After": "1"})


SESSION_ENDED = {
    "25006": "read only: the connection reached a server that was demoted in a failover",
    "25P03": "idle_in_transaction_session_timeout",
    "25P04": "transaction_timeout",
}


def _of_internal(error: InternalError) -> Problem:
    """The server has ended a transaction that slept too long, or no longer takes writes; otherwise there is a bug."""
    return of_database(error) if getattr(error.orig, "sqlstate", None) in SESSION_ENDED else _unexpected(error)


def _unexpected(error: Exception) -> Problem:
    logs.get().error("request failed", method=request.method, path=request.path, exc_info=error)
    return Problem(500, "internal-error", "Something went wrong on our side. It has been logged.")


def _slug(phrase: str) -> str:
    return phrase.lower().replace(" ", "-").replace("'", "")
