"""Faults over HTTP, for the page and for `make crash`, `make duplicate` and their kin. Needs the token.

does    turns requests into faults, and notes each in the journal
reads   HTTP
writes  through faults.py and ops_ports.py
next    faults.py, ops_ports.py
"""

from typing import Annotated, Any, Literal
from uuid import UUID

from apiflask import APIBlueprint
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from services.control_room import faults
from services.control_room.access import Access
from services.control_room.buying import Buyer
from services.control_room.journal import Journal
from services.control_room.naive import NaiveShop
from services.control_room.ops_ports import FAILPOINTS, OpsPorts
from services.control_room.processes import Processes
from services.control_room.settings import PlacesSettings
from shared.runtime.problems import documented

Action = Annotated[str, StringConstraints(pattern=r"^(kill|error|pause:\d{1,3}(\.\d+)?)$")]
Poison = Literal["undecodable", "invalid", "too-large", "unknown-type", "null"]


class Given(BaseModel):
    model_config = ConfigDict(extra="forbid")


class About(Given):
    order_id: UUID | None = Field(None, description="null: the order published last")


class Both(Given):
    naive: bool = Field(False, description="the same to the naive shop, if it runs")


class Duplicate(About, Both):
    times: int = Field(100, ge=1, le=10_000)


class Replay(Given):
    last: int = Field(1000, ge=1, le=10_000, description="so many records, the newest; all are held in memory")


class PoisonKind(Given):
    poison: Poison = "invalid"


class Failpoint(Given):
    name: str
    action: Action = "kill"


class Disarm(Given):
    name: str | None = Field(None, description="null: everything")


class Kill(Both):
    process: str


class Orders(Both):
    count: int = Field(1, ge=1, le=1000)


def create(
    places: PlacesSettings,
    ports: OpsPorts,
    processes: Processes,
    journal: Journal,
    buyer: Buyer,
    naive: NaiveShop,
    access: Access,
) -> APIBlueprint:
    api = APIBlueprint("faults", __name__, url_prefix="/v1", tag="Faults")
    api.before_request(access.required())
    answers: dict[str, Any] = {"security": "token", "responses": documented(200, 403, 404, 409, 422, 503)}

    @api.post("/orders")
    @api.input(Orders, arg_name="wanted")
    @api.doc(
        summary="Place and confirm orders, in the background",
        security="token",
        responses=documented(202, 403, 409, 422, 503),
    )
    def orders(wanted: Orders) -> tuple[dict[str, Any], int]:
        buyer.buy(wanted.count)
        if wanted.naive:
            naive.buy(wanted.count)
        return {"placing": wanted.count}, 202

    @api.post("/faults/duplicate")
    @api.input(Duplicate, arg_name="wanted")
    @api.doc(summary="Publish an event again, byte for byte, so many times", **answers)
    def duplicate(wanted: Duplicate) -> dict[str, Any]:
        done = faults.duplicate(places, wanted.order_id, wanted.times)
        if wanted.naive:
            naive.duplicate(wanted.times)
        journal.note("fault", f"one event published {wanted.times} × more")
        return done

    @api.post("/faults/replay")
    @api.input(Replay, arg_name="wanted")
    @api.doc(summary="Deliver the newest records of the topic once more", **answers)
    def replay(wanted: Replay) -> dict[str, Any]:
        done = faults.replay(places, wanted.last)
        journal.note("fault", f"{done['records']} records of the topic published again")
        return done

    @api.post("/faults/tamper")
    @api.input(About, arg_name="wanted")
    @api.doc(summary="Publish a known id with another payload", **answers)
    def tamper(wanted: About) -> dict[str, Any]:
        done = faults.tamper(places, wanted.order_id)
        journal.note("fault", "an event published with a changed payload")
        return done

    @api.post("/faults/late")
    @api.input(About, arg_name="wanted")
    @api.doc(summary="Publish an event that is older than the inbox remembers", **answers)
    def late(wanted: About) -> dict[str, Any]:
        done = faults.late(places, wanted.order_id)
        journal.note("fault", "an event published that is older than the inbox remembers")
        return done

    @api.post("/faults/poison")
    @api.input(PoisonKind, arg_name="wanted")
    @api.doc(summary="Publish an event that no consumer can apply", **answers)
    def poison(wanted: PoisonKind) -> dict[str, Any]:
        done = faults.poison(places, wanted.poison)
        journal.note("fault", f"a poison event published: {wanted.poison}")
        return done

    @api.post("/faults/failpoint")
    @api.input(Failpoint, arg_name="wanted")
    @api.doc(summary="Arm a failpoint: it fires once, at the next pass", **answers)
    def failpoint(wanted: Failpoint) -> dict[str, Any]:
        process = ports.arm(wanted.name, wanted.action)
        journal.note("fault", f"{wanted.name} armed with {wanted.action}")
        return {"process": process, "armed": {wanted.name: wanted.action}}

    @api.post("/faults/disarm")
    @api.input(Disarm, arg_name="wanted")
    @api.doc(summary="Disarm a failpoint, or all", **answers)
    def disarm(wanted: Disarm) -> dict[str, Any]:
        processes = ports.disarm(wanted.name)
        if processes:
            journal.note("mended", f"{wanted.name or 'everything'} disarmed")
        return {"processes": processes}

    @api.post("/faults/kill")
    @api.input(Kill, arg_name="wanted")
    @api.doc(summary="kill -9 a process, now", **answers)
    def kill(wanted: Kill) -> dict[str, Any]:
        processes.kill(wanted.process)
        if wanted.naive:
            naive.kill_twin_of(wanted.process)
        journal.note("fault", f"kill -9 {wanted.process}")
        return {"killed": wanted.process}

    @api.get("/failpoints")
    @api.doc(summary="Every failpoint, and what is armed", security="token", responses=documented(200, 403))
    def failpoints() -> dict[str, Any]:
        armed = ports.armed()
        known = [
            {"name": name, "when": sentence, "process": ports.process_of(name)} for name, sentence in FAILPOINTS.items()
        ]
        return {"failpoints": known, "armed": armed}

    return api
