"""Dead letters of both consumers, decided on through the consumers' own APIs.

does    passes an operator's decisions on to billing-api and analytics-api
reads   dead_letters as auditor; the outbox, for what an event was before it was damaged
writes  nothing itself
next    shared/letters/api.py, over HTTP
"""

import json
import urllib.error
import urllib.request
from typing import Any

import psycopg
from apiflask import APIBlueprint
from psycopg.rows import dict_row
from pydantic import BaseModel, ConfigDict, Field

from services.control_room.access import Access
from services.control_room.journal import Journal
from services.control_room.settings import ControlRoomSettings
from shared.runtime.problems import Problem, documented

SHOWN_BYTES = 20_000
"""A payload may be larger than anybody wants to see."""

LISTED = """
SELECT id, consumer, event_id::text, reason, error, attempts, partition, "offset", parked_at::text,
       repaired_value IS NOT NULL AS repaired
  FROM dead_letters WHERE closed_at IS NULL ORDER BY id DESC LIMIT 100
"""
ONE = """
SELECT id, consumer, event_id::text, reason, error, partition, "offset", value, length(value) AS bytes, repaired_value
  FROM dead_letters WHERE id = %s
"""
ORIGINAL = "SELECT value FROM outbox WHERE event_id = %s"

LETTER = f"/<any(billing, analytics):consumer>/<int(max={2**63 - 1}):letter_id>"


class Decision(BaseModel):
    model_config = ConfigDict(extra="forbid")

    value: str | None = Field(None, max_length=200_000, description="repair: the corrected event")
    why: str | None = Field(None, max_length=500, description="discard: the reason")
    accept_late: bool = Field(False, description="redrive: also what is older than the inbox remembers")


def create(settings: ControlRoomSettings, access: Access, journal: Journal) -> APIBlueprint:
    api = APIBlueprint("letters", __name__, url_prefix="/v1/letters", tag="Dead letters")
    api.before_request(access.required())
    answers: dict[str, Any] = {"security": "token", "responses": documented(200, 403, 404, 409, 503)}

    @api.get("")
    @api.doc(summary="The open letters of both consumers, newest first", **answers)
    def listed() -> dict[str, Any]:
        letters = [letter for name in ("billing", "analytics") for letter in _rows(settings, name, LISTED)]
        return {"letters": sorted(letters, key=lambda letter: str(letter["parked_at"]), reverse=True)}

    @api.get(LETTER)
    @api.doc(summary="One letter with its payload", **answers)
    def show(consumer: str, letter_id: int) -> dict[str, Any]:
        rows = _rows(settings, consumer, ONE, letter_id)
        if not rows:
            raise Problem(404, "not-found", "There is no such letter.")
        letter = rows[0]
        event_id = letter["event_id"]
        original = _rows(settings, "orders", ORIGINAL, event_id) if event_id else []
        texts = {name: _text(letter[name]) for name in ("value", "repaired_value")}
        return {**letter, **texts, "original": _text(original[0]["value"]) if original else None}

    @api.post(f"{LETTER}/<any(redrive, repair, discard):action>")
    @api.input(Decision, arg_name="decision")
    @api.doc(summary="Decide: redrive, repair or discard", **answers)
    def decide(consumer: str, letter_id: int, action: str, decision: Decision) -> dict[str, Any]:
        wanted: dict[str, dict[str, Any]] = {
            "redrive": {"accept_late": decision.accept_late},
            "repair": {"value": decision.value or ""},
            "discard": {"why": decision.why or ""},
        }
        answer = _tell(settings, consumer, f"/v1/dead-letters/{letter_id}/{action}", wanted[action])
        journal.note("mended", f"letter {letter_id} of {consumer.capitalize()}: {answer['result']}")
        return answer

    return api


def _rows(settings: ControlRoomSettings, database: str, statement: str, *parameters: object) -> list[dict[str, Any]]:
    url = settings.database_url(database)
    with psycopg.connect(url, autocommit=True, connect_timeout=5, row_factory=dict_row) as connection:
        return connection.execute(statement.encode(), parameters).fetchall()


def _text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value[:SHOWN_BYTES]).decode(errors="replace")


def _tell(settings: ControlRoomSettings, consumer: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    url = settings.billing_url if consumer == "billing" else settings.analytics_url
    headers = {"Authorization": f"Bearer {settings.operator_token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), headers, method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  the address is our own setting
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        with error:
            said = json.load(error)
        details = "; ".join(each["problem"] for each in said.get("errors", [])) or said["detail"]
        raise Problem(error.code if error.code in (404, 409, 422, 503) else 502, "refused", details) from error
    except OSError as error:
        raise Problem(503, "consumer-away", f"{consumer}-api does not answer: {error}") from error
