"""The frame of the HTTP services: one shape for every error, headers on every answer."""

from typing import Any

import pytest
from flask.testing import FlaskClient
from pydantic import BaseModel
from sqlalchemy.exc import OperationalError

from shared.runtime import web
from shared.runtime.problems import Problem


class Wish(BaseModel):
    number: int


@pytest.fixture
def client() -> FlaskClient:
    app = web.create_app("tests", "Tests")

    @app.post("/wishes")
    @app.input(Wish, arg_name="wish")
    def wish(wish: Wish) -> dict[str, int]:
        if wish.number == 13:
            raise Problem(409, "unlucky", "not this one", headers={"Retry-After": "7"}, lucky=[7])
        if wish.number == 14:
            raise OperationalError("SELECT secret", {}, Exception("server closed the connection"))
        return {"granted": 100 // wish.number}

    guard = web.operator_only("s3cret")

    @app.get("/letters")
    def letters() -> dict[str, str]:
        guard()
        return {"all": "of them"}

    return app.test_client()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("POST", "/wishes", b'{"number": 13}', 409, "unlucky"),
        ("POST", "/wishes", b'{"number": "x"}', 422, "invalid"),
        ("POST", "/wishes", b"{}", 422, "invalid"),
        ("POST", "/wishes", b"not json", 400, "bad-request"),
        ("POST", "/wishes", b'{"number": 0}', 500, "internal-error"),
        ("POST", "/wishes", b'{"number": 14}', 503, "database-away"),
        ("POST", "/wishes", b'"' + b"x" * 300_000 + b'"', 413, "request-entity-too-large"),
        ("GET", "/nowhere", b"", 404, "not-found"),
        ("GET", "/wishes", b"", 405, "method-not-allowed"),
        ("GET", "/letters", b"", 401, "operator-only"),
    ],
)
def test_every_error_is_a_problem_document(
    client: FlaskClient, method: str, path: str, body: bytes, status: int, kind: str
) -> None:
    answer = client.open(path, method=method, data=body, content_type="application/json")
    problem: dict[str, Any] = answer.get_json(force=True)
    assert (answer.status_code, problem["status"], problem["type"]) == (status, status, f"/problems/{kind}")
    assert answer.content_type == "application/problem+json"
    assert problem["title"]
    assert problem["detail"]
    assert "secret" not in answer.text


def test_a_problem_names_the_field_and_keeps_its_headers(client: FlaskClient) -> None:
    invalid = client.post("/wishes", json={"number": "x"}).get_json(force=True)
    assert [error["field"] for error in invalid["errors"]] == ["number"]
    assert client.post("/wishes", json={"number": 13}).headers["Retry-After"] == "7"
    assert client.get("/wishes").headers["Allow"]


def test_the_description_promises_the_same_shape_for_every_error(client: FlaskClient) -> None:
    description = client.get("/openapi.json").get_json()
    errors = description["paths"]["/wishes"]["post"]["responses"]["422"]["content"]
    assert errors == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    assert set(description["components"]["schemas"]["Problem"]["required"]) == {"type", "title", "status", "detail"}


def test_every_answer_carries_the_security_headers(client: FlaskClient) -> None:
    for answer in (client.get("/healthz"), client.get("/nowhere"), client.post("/wishes", json={"number": 0})):
        assert {name: answer.headers[name] for name in web.SECURITY_HEADERS} == web.SECURITY_HEADERS


def test_the_operators_door_opens_with_the_token_only(client: FlaskClient) -> None:
    assert client.get("/letters", headers={"Authorization": "Bearer s3cret"}).status_code == 200
    assert client.get("/letters", headers={"Authorization": "Bearer other"}).status_code == 401


def test_vendored_files_are_served_and_nothing_beside_them(client: FlaskClient) -> None:
    with client.get("/vendor/uplot/uPlot.min.css") as style:
        assert style.content_type.startswith("text/css")
    for path in ("/vendor/../web.py", "/vendor/%2e%2e/%2e%2e/web.py", "/vendor/uplot"):
        assert client.get(path).status_code == 404
