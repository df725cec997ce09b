"""The HTTP API of Orders, described by /openapi.json.

does    turns requests into calls of the use cases, and their results into answers
reads   HTTP
writes  nothing itself
next    place_order.py
"""

from uuid import UUID

from apiflask import APIBlueprint
from flask import Response, request, url_for
from sqlalchemy.orm import Session, sessionmaker

from services.orders import catalogue, etags, read_orders
from services.orders.change_order import change
from services.orders.confirm_order import confirm
from services.orders.place_order import place
from services.orders.schemas import (
    Catalogue,
    IfMatch,
    IfNoneMatch,
    Lines,
    Order,
    OrderPage,
    Paging,
    Placed,
    PlaceHeaders,
    Versioned,
    WantedOrder,
)
from shared.runtime import web
from shared.runtime.problems import documented


def v1(sessions: sessionmaker[Session], operator_token: str) -> APIBlueprint:
    api = APIBlueprint("orders", __name__, url_prefix="/v1", tag="Orders")
    require_operator = web.operator_only(operator_token)

    @api.get("/products")
    @api.output(Catalogue)
    @api.doc(summary="What the shop sells", responses=documented(503))
    def products() -> Catalogue:
        return Catalogue(items=catalogue.products(sessions))

    @api.post("/orders")
    @api.input(PlaceHeaders, location="headers", arg_name="headers")
    @api.input(WantedOrder, arg_name="wanted")
    @api.output(Order, status_code=201, headers=Placed)
    @api.doc(summary="Place an order (a draft)", responses=documented(400, 409, 413, 422, 503))
    def place_order(headers: PlaceHeaders, wanted: WantedOrder) -> Response:
        answer = place(sessions, headers.idempotency_key, wanted)
        first = Order.model_validate_json(answer.body)
        said = {"Location": url_for(".read_order", order_id=first.id), "ETag": first.etag}
        response = Response(answer.body, answer.status, said, content_type="application/json")
        if answer.replayed:
            response.headers["Idempotent-Replayed"] = "true"
        return response

    @api.post("/orders/<uuid:order_id>/confirm")
    @api.input(IfMatch, location="headers", arg_name="headers")
    @api.output(Order, headers=Versioned)
    @api.doc(
        summary="Confirm an order",
        description="Once or many times, also at the same moment: the order is confirmed once and causes one event.",
        responses=documented(400, 404, 412, 503),
    )
    def confirm_order(order_id: UUID, headers: IfMatch) -> Response:
        return shown(confirm(sessions, order_id, seen=etags.versions(headers.if_match)).order)

    @api.put("/orders/<uuid:order_id>/lines")
    @api.input(IfMatch, location="headers", arg_name="headers")
    @api.input(Lines, arg_name="wanted")
    @api.output(Order, headers=Versioned)
    @api.doc(
        summary="Replace the lines of a draft",
        description="If-Match is required: it says which version is changed.",
        responses=documented(400, 404, 409, 412, 413, 422, 428, 503),
    )
    def change_lines(order_id: UUID, headers: IfMatch, wanted: Lines) -> Response:
        return shown(change(sessions, order_id, wanted, seen=etags.required(headers.if_match)))

    @api.get("/orders/<uuid:order_id>")
    @api.input(IfNoneMatch, location="headers", arg_name="headers")
    @api.output(Order, headers=Versioned)
    @api.doc(
        summary="Read an order",
        responses=documented(400, 404, 503) | {304: {"description": "The client has this version"}},
    )
    def read_order(order_id: UUID, headers: IfNoneMatch) -> Response:  # noqa: ARG001  for the description
        with sessions() as session:
            order = read_orders.one(session, order_id)
        response = shown(order)
        response.make_conditional(request)
        return response

    @api.get("/orders")
    @api.input(Paging, location="query", arg_name="paging")
    @api.output(OrderPage)
    @api.doc(
        summary="All orders, newest first",
        description="For the operator: an order's id is the key to its invoice.",
        security="operator",
        responses=documented(401, 422, 503),
    )
    def list_orders(paging: Paging) -> Response:
        require_operator()
        page = read_orders.page(sessions, cursor=paging.cursor, limit=paging.limit)
        return Response(page.model_dump_json(), content_type="application/json")

    return api


def shown(order: Order) -> Response:
    return Response(order.model_dump_json(), content_type="application/json", headers={"ETag": order.etag})
