"""Watching: the page, the stream of samples behind it, and the last 15 minutes. Everybody may.

does    answers GET requests
reads   what the sampler has seen
writes  nothing
next    sampler.py
"""

from typing import Any

from apiflask import APIBlueprint
from flask import Response, render_template

from services.control_room.access import Access
from services.control_room.hub import Hub
from services.control_room.processes import Processes
from services.control_room.sampler import COLUMNS, Sampler
from services.control_room.settings import ControlRoomSettings

STREAM: dict[int | str, dict[str, Any]] = {200: {"description": "For ever", "content": {"text/event-stream": {}}}}


def create(
    settings: ControlRoomSettings, access: Access, hub: Hub, sampler: Sampler, processes: Processes
) -> APIBlueprint:
    api = APIBlueprint("watching", __name__, tag="Watching")

    @api.get("/")
    @api.doc(hide=True)
    def page() -> Response:
        if entering := access.let_in():
            return entering
        granted = access.granted()
        html = render_template(
            "room.html", granted=granted, page_token=access.page_token if granted else "", settings=settings
        )
        return Response(html, headers={"Cache-Control": "no-store"})

    @api.get("/v1/stream")
    @api.doc(
        summary="A sample a second, as server-sent events",
        responses=STREAM,
    )
    def stream() -> Response:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return Response(hub.stream(), content_type="text/event-stream", headers=headers)

    @api.get("/v1/history")
    @api.doc(summary="The last 15 minutes: a row a second")
    def history() -> dict[str, Any]:
        return {"columns": COLUMNS, "rows": list(sampler.history)}

    @api.get("/v1/processes")
    @api.doc(summary="How every process is, asked now")
    def all_processes() -> dict[str, Any]:
        processes.look()
        return {"processes": processes.shown()}

    return api
