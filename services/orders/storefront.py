"""The shop for people: products, cart, checkout, and an order page that follows the order.

does    renders pages on the server; forms work without a script
reads   HTTP forms, the cart's cookie
writes  nothing itself: it calls the same use cases as the API
next    cart.py, templates/
"""

from uuid import UUID

import orjson
from apiflask import APIBlueprint
from flask import Response, make_response, redirect, render_template, request, url_for
from pydantic import ValidationError
from sqlalchemy.orm import Session, sessionmaker

from services.orders import cart as carts
from services.orders import catalogue, etags, money, read_orders
from services.orders.cart import Cart
from services.orders.confirm_order import confirm
from services.orders.etags import OrderChanged
from services.orders.idempotency import Answer, KeyReused
from services.orders.place_order import place
from services.orders.schemas import WantedOrder
from shared.runtime.problems import Problem


def storefront(sessions: sessionmaker[Session], billing_url: str) -> APIBlueprint:
    shop = APIBlueprint("shop", __name__, enable_openapi=False)
    shop.add_app_template_filter(money.shown, "money")
    shop.before_request(refuse_other_sites)
    shop.register_error_handler(Problem, problem_page)

    @shop.after_request
    def allow_billing(response: Response) -> Response:
        """The order page's script asks Billing about the invoice; nothing else leaves this origin."""
        response.headers["Content-Security-Policy"] = (
            f"default-src 'self'; connect-src 'self' {billing_url}; object-src 'none'; base-uri 'none'; "
            "form-action 'self'; frame-ancestors 'none'"
        )
        return response

    @shop.get("/")
    def products() -> str:
        cart = carts.read(request)
        return page("products.html", cart, products=cart.sold(catalogue.products(sessions)))

    @shop.post("/cart")
    def put_into_cart() -> Response:
        cart, sku = carts.read(request), request.form.get("sku", "")
        if currency := request.form.get("currency"):
            cart = _validated(cart, currency=currency)
        else:
            already = cart.quantities.get(sku, 0) if "add" in request.form else 0
            changed = cart.model_copy(deep=True)
            changed.put(sku, already + request.form.get("quantity", 1, type=int))
            cart = _validated(changed)
        back = url_for("shop.cart") if request.form.get("from") == "cart" else url_for("shop.products", _anchor=sku)
        return carts.keep(make_response(redirect(back, 303)), cart)

    @shop.get("/cart")
    def cart() -> str:
        return cart_page(carts.read(request), {}, {})

    @shop.post("/checkout")
    def checkout() -> Response:
        cart, given = carts.read(request), request.form.to_dict()
        if not cart.quantities:
            return make_response(redirect(url_for("shop.cart"), 303))
        try:
            answer = place(sessions, cart.key, _wanted(cart, given), scope="POST /checkout")
        except ValidationError as error:
            return make_response(cart_page(cart, given, _by_field(error)), 422)
        except KeyReused as reused:
            return _to_order(reused.first, seen="before")
        return _to_order(answer)

    @shop.get("/orders/<uuid:order_id>")
    def order(order_id: UUID) -> str:
        with sessions() as session:
            found = read_orders.one(session, order_id)
        return page("order.html", carts.read(request), order=found, seen=request.args.get("seen"), billing=billing_url)

    @shop.post("/orders/<uuid:order_id>/confirm")
    def confirm_order(order_id: UUID) -> Response:
        version = request.form.get("version")
        try:
            first = confirm(sessions, order_id, seen=etags.versions(None if version is None else f'"{version}"')).first
            seen = "confirmed" if first else "again"
        except OrderChanged:
            seen = "changed"
        return make_response(redirect(url_for("shop.order", order_id=order_id, seen=seen), 303))

    def cart_page(cart: Cart, given: dict[str, str], errors: dict[str, str]) -> str:
        lines = cart.lines(catalogue.products(sessions))
        total = sum(quantity * product.prices[cart.currency] for product, quantity in lines)
        return page("cart.html", cart, lines=lines, total=total, given=given, errors=errors)

    return shop


def refuse_other_sites() -> None:
    """A form on somebody else's page must not act for our customer. Browsers say where a POST comes from."""
    if request.method == "POST":
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
        if not (origin == request.host_url.rstrip("/") or (origin is None and site == "same-origin")):
            raise Problem(403, "cross-site", "This form was not sent from our own page.")


def problem_page(problem: Problem) -> Response:
    return make_response(page("problem.html", carts.read(request), problem=problem), problem.status)


def page(template: str, cart: Cart, **values: object) -> str:
    return render_template(template, cart=cart, currencies=money.SYMBOLS, **values)


def _validated(cart: Cart, **changed: object) -> Cart:
    try:
        return Cart.model_validate(cart.model_dump() | changed)
    except ValidationError:
        raise Problem(422, "invalid", "That cannot be put into the cart.") from None


def _wanted(cart: Cart, given: dict[str, str]) -> WantedOrder:
    customer = {
        "name": given.get("name", ""),
        "email": given.get("email", ""),
        "address": [line for line in given.get("address", "").splitlines() if line.strip()],
    }
    lines = [{"sku": sku, "quantity": quantity} for sku, quantity in cart.quantities.items()]
    return WantedOrder.model_validate({"currency": cart.currency, "customer": customer, "lines": lines})


def _by_field(error: ValidationError) -> dict[str, str]:
    """customer.email → email: the name of the form's field."""
    return {str([*part["loc"], "", ""][1]): SENTENCES.get(part["loc"][1:2], part["msg"]) for part in error.errors()}


SENTENCES: dict[tuple[int | str, ...], str] = {
    ("name",): "Please tell us your name, in one line.",
    ("email",): "This does not look like an e-mail address.",
    ("address",): "Please give one to six lines of address.",
}


def _to_order(answer: Answer, seen: str | None = None) -> Response:
    order_id = orjson.loads(answer.body)["id"]
    response = make_response(redirect(url_for("shop.order", order_id=order_id, seen=seen), 303))
    response.delete_cookie(carts.COOKIE)
    return response
