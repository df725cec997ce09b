"""orders.confirmed: a customer has confirmed an order. All that an invoice or a sales figure needs is in here."""

from typing import Annotated
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field, StringConstraints

Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
MinorUnits = Annotated[int, Field(ge=0, le=10**12, strict=True)]
"""Money is a whole number of the currency's smallest unit (cents): no floats, no rounding on the way."""


class Customer(BaseModel):
    name: Text
    email: Annotated[str, StringConstraints(min_length=3, max_length=254)]
    address: list[Text] = Field(max_length=6)


class Line(BaseModel):
    sku: Text
    name: Text
    quantity: Annotated[int, Field(ge=1, le=100_000, strict=True)]
    unit_price: MinorUnits
    tax_basis_points: Annotated[int, Field(ge=0, le=10_000, strict=True)]


class OrderConfirmed(BaseModel):
    order_id: UUID
    currency: Currency
    customer: Customer
    lines: list[Line] = Field(min_length=1, max_length=200)
    total: MinorUnits
    """Before tax: the sum of quantity × unit_price."""
    confirmed_at: AwareDatetime
