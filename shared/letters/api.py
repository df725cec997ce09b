"""Dead letters over HTTP, for the operator of a consumer: look, apply after all, correct, give up.

does    turns requests into calls of shared/messaging/dead_letters.py
reads   dead_letters
writes  through these calls: dead_letters, inbox, and what the handlers write
next    shared/messaging/dead_letters.py
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apiflask import APIBlueprint
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from shared.letters.shapes import (
    Discard,
    Done,
    LetterDetail,
    LetterOut,
    LetterPage,
    Oldest,
    Redrive,
    Repair,
)
from shared.messaging import dead_letters
from shared.messaging.dead_letters import DeadLetter
from shared.messaging.errors import Misuse, Permanent, Transient
from shared.messaging.event import Contracts
from shared.messaging.handlers import Handlers
from shared.runtime import problems, web
from shared.runtime.problems import Problem, documented

LETTER = f"/<int(max={2**63 - 1}):letter_id>"
ACTION: dict[str, Any] = {"security": "operator", "responses": documented(400, 401, 404, 409, 413, 422, 503)}


def create(engine: Engine, operator_token: str, handlers: Handlers, contracts: Contracts) -> APIBlueprint:
    api = APIBlueprint("dead_letters", __name__, url_prefix="/v1/dead-letters", tag="Dead letters")
    api.before_request(web.operator_only(operator_token))
    api.register_error_handler(Transient, lambda error: problems.of_database(error).response())

    @api.get("")
    @api.input(Oldest, location="query", arg_name="oldest")
    @api.output(LetterPage)
    @api.doc(summary="Dead letters, oldest first", security="operator", responses=documented(401, 422, 503))
    def listed(oldest: Oldest) -> LetterPage:
        with Session(engine) as session:
            letters = dead_letters.listed(
                session, reason=oldest.reason, closed=oldest.closed, after=oldest.cursor, most=oldest.limit + 1
            )
        shown = [_shown(letter) for letter in letters[: oldest.limit]]
        return LetterPage(items=shown, next_cursor=shown[-1].id if len(letters) > oldest.limit else None)

    @api.get(LETTER)
    @api.output(LetterDetail)
    @api.doc(summary="One dead letter with its bytes", security="operator", responses=documented(401, 404, 503))
    def show(letter_id: int) -> LetterDetail:
        letter = _existing(engine, letter_id)
        return LetterDetail(
            **_shown(letter).model_dump(), value=_text(letter.value), repaired_value=_text(letter.repaired_value)
        )

    @api.post(f"{LETTER}/redrive")
    @api.input(Redrive, arg_name="how")
    @api.output(Done)
    @api.doc(summary="Apply it after all, in one transaction", **ACTION)
    def redrive(letter_id: int, how: Redrive) -> Done:
        with _told(engine, letter_id):
            result = dead_letters.redrive(engine, letter_id, handlers, contracts, accept_late=how.accept_late)
        return Done(id=letter_id, result=result)

    @api.post(f"{LETTER}/repair")
    @api.input(Repair, arg_name="how")
    @api.output(Done)
    @api.doc(summary="Store corrected bytes beside the original, for the next redrive", **ACTION)
    def repair(letter_id: int, how: Repair) -> Done:
        with _told(engine, letter_id):
            dead_letters.repair(engine, letter_id, how.value.encode(), contracts)
        return Done(id=letter_id, result="repaired")

    @api.post(f"{LETTER}/discard")
    @api.input(Discard, arg_name="how")
    @api.output(Done)
    @api.doc(summary="Never apply it; a replay will not either", **ACTION)
    def discard(letter_id: int, how: Discard) -> Done:
        with _told(engine, letter_id):
            dead_letters.discard(engine, letter_id, how.why)
        return Done(id=letter_id, result="discarded")

    return api


def _existing(engine: Engine, letter_id: int) -> DeadLetter:
    with Session(engine) as session:
        try:
            return dead_letters.show(session, letter_id)
        except Misuse as error:
            raise Problem(404, "not-found", str(error)) from error


@contextmanager
def _told(engine: Engine, letter_id: int) -> Iterator[None]:
    _existing(engine, letter_id)
    try:
        yield
    except Misuse as error:
        raise Problem(409, "not-possible", str(error)) from error
    except Permanent as error:
        raise Problem(409, error.reason, str(error)) from error


def _shown(letter: DeadLetter) -> LetterOut:
    own = {name: getattr(letter, name) for name in LetterOut.model_fields if name != "repaired"}
    return LetterOut(**own, repaired=letter.repaired_value is not None)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
