"""The cart: a cookie of the customer's own. It says what and how many; what it costs is the catalogue's business."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated
from uuid import uuid4

from flask import Request, Response
from pydantic import BaseModel, Field, ValidationError

from services.orders.schemas import MAX_QUANTITY, Currency, Product, Sku

COOKIE = "cart"
MAX_PRODUCTS = 40
"""So that it fits into a cookie."""
Quantity = Annotated[int, Field(ge=1, le=MAX_QUANTITY)]


class Cart(BaseModel):
    key: str = Field(default_factory=lambda: uuid4().hex, pattern=r"^[0-9a-f]{32}$")
    """The Idempotency-Key of the order that this cart becomes: pressing twice, or trying again, is one order."""
    currency: Currency = "EUR"
    quantities: dict[Sku, Quantity] = Field(default_factory=dict, max_length=MAX_PRODUCTS)

    @property
    def pieces(self) -> int:
        return sum(self.quantities.values())

    def put(self, sku: str, quantity: int) -> None:
        """0 takes it out."""
        self.quantities.pop(sku, None)
        if quantity > 0:
            self.quantities[sku] = min(quantity, MAX_QUANTITY)

    def sold(self, products: list[Product]) -> list[Product]:
        """Not everything has a price in every currency."""
        return [product for product in products if self.currency in product.prices]

    def lines(self, products: list[Product]) -> list[tuple[Product, int]]:
        known = {product.sku: product for product in self.sold(products)}
        return [(known[sku], quantity) for sku, quantity in self.quantities.items() if sku in known]


def read(request: Request) -> Cart:
    """What cannot be read is an empty cart: the cookie may be old, cut off or made up."""
    try:
        return Cart.model_validate_json(urlsafe_b64decode(request.cookies.get(COOKIE, "")))
    except (ValidationError, binascii.Error, ValueError):
        return Cart()


def keep(response: Response, cart: Cart) -> Response:
    value = urlsafe_b64encode(cart.model_dump_json().encode()).decode()
    response.set_cookie(COOKIE, value, max_age=7 * 86_400, httponly=True, samesite="Lax")
    return response
