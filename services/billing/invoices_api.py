"""Invoices over HTTP. Customers reach theirs by an unguessable id; the list of all is the operator's.

does    answers GET requests
reads   invoices, invoice_pdfs
writes  nothing
next    schemas.py
"""

from typing import Any
from uuid import UUID

from apiflask import APIBlueprint
from flask import Response, request, url_for
from sqlalchemy import Engine

from services.billing import amounts
from services.billing.invoice import printed_number
from services.billing.schemas import InvoiceDetail, InvoiceOut, InvoicePage, LineOut, Newest
from shared.runtime import web
from shared.runtime.problems import Problem, documented

COLUMNS = """
SELECT id, order_id, series, number, state, currency, net, tax, gross, issued_at, sent_at, lines, event_id,
       EXISTS (SELECT FROM invoice_pdfs WHERE invoice_id = i.id) AS has_pdf
  FROM invoices AS i
"""
# Newest first without an index of its own: event ids are UUIDv7, so they sort by the time of the confirmation.
PAGE = COLUMNS + " WHERE %(cursor)s::uuid IS NULL OR event_id < %(cursor)s ORDER BY event_id DESC LIMIT %(limit)s"
PDF = """
SELECT i.series, i.number, p.sha256, p.content FROM invoices AS i JOIN invoice_pdfs AS p ON p.invoice_id = i.id
 WHERE i.id = %s
"""
# The browser's own PDF viewer is an object in a page that the browser makes.
PDF_POLICY = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'"
PDF_ANSWERS: dict[int | str, Any] = {
    200: {"description": "The document; it never changes", "content": {"application/pdf": {}}},
    304: {"description": "The client has it"},
    **documented(404, 503),
}


def create(engine: Engine, operator_token: str) -> APIBlueprint:
    api = APIBlueprint("invoices", __name__, url_prefix="/v1", tag="Invoices")
    require_operator = web.operator_only(operator_token)

    @api.get("/orders/<uuid:order_id>/invoice")
    @api.output(InvoiceOut)
    @api.doc(
        summary="The invoice of an order",
        description="404 until the order has been invoiced.",
        responses=documented(404, 503),
    )
    def of_order(order_id: UUID) -> Response:
        return _readable_by_any_page(_json(_shown(_one(engine, COLUMNS + " WHERE order_id = %s", order_id))))

    @api.get("/invoices/<uuid:invoice_id>")
    @api.output(InvoiceDetail)
    @api.doc(summary="An invoice with its lines", responses=documented(404, 503))
    def by_id(invoice_id: UUID) -> Response:
        return _readable_by_any_page(_json(_detail(_one(engine, COLUMNS + " WHERE id = %s", invoice_id))))

    @api.get("/invoices/<uuid:invoice_id>/pdf")
    @api.doc(
        summary="The PDF of an invoice",
        responses=PDF_ANSWERS,
    )
    def pdf(invoice_id: UUID) -> Response:
        row = _one(engine, PDF, invoice_id)
        response = Response(row.content, content_type="application/pdf")
        response.set_etag(bytes(row.sha256).hex())
        response.headers["Cache-Control"] = "private, max-age=31536000, immutable"
        response.headers["Content-Security-Policy"] = PDF_POLICY
        name = f"invoice-{printed_number(row.series, row.number)}.pdf"
        response.headers["Content-Disposition"] = f'inline; filename="{name}"'
        response.make_conditional(request)
        return response

    @api.get("/invoices")
    @api.input(Newest, location="query", arg_name="newest")
    @api.output(InvoicePage)
    @api.doc(summary="All invoices, newest first", security="operator", responses=documented(401, 422, 503))
    def listed(newest: Newest) -> Response:
        require_operator()
        with engine.connect() as connection:
            given = {"cursor": newest.cursor, "limit": newest.limit + 1}
            rows = connection.exec_driver_sql(PAGE, given).all()
        more = rows[newest.limit - 1].event_id if len(rows) > newest.limit else None
        return _json(InvoicePage(items=[_shown(row) for row in rows[: newest.limit]], next_cursor=more))

    return api


def _one(engine: Engine, statement: str, wanted: UUID) -> Any:
    with engine.connect() as connection:
        row = connection.exec_driver_sql(statement, (wanted,)).one_or_none()
    if row is None:
        raise Problem(404, "not-found", "There is no such invoice (yet).", headers={"Access-Control-Allow-Origin": "*"})
    return row


def _shown(row: Any) -> InvoiceOut:
    link = url_for("invoices.pdf", invoice_id=row.id, _external=True) if row.has_pdf else None
    return InvoiceOut(
        id=row.id, order_id=row.order_id, number=printed_number(row.series, row.number), state=row.state,
        currency=row.currency, net=row.net, tax=row.tax, gross=row.gross, issued_at=row.issued_at, pdf_url=link,
        emailed_at=row.sent_at,
    )  # fmt: skip


def _detail(row: Any) -> InvoiceDetail:
    lines = []
    for line in row.lines:
        net = line["quantity"] * line["unit_price"]
        lines.append(LineOut(**line, net=net, tax=amounts.tax(net, line["tax_basis_points"])))
    return InvoiceDetail(**_shown(row).model_dump(), lines=lines)


def _json(answer: InvoiceOut | InvoicePage) -> Response:
    response = Response(answer.model_dump_json(), content_type="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def _readable_by_any_page(response: Response) -> Response:
    """The storefront asks from another origin; who knows the id may know the answer, and no cookie is involved."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    return response
