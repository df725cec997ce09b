"""What goes in and out of the HTTP API: the limits are here, and /openapi.json shows them.

Money is a whole number of the currency's smallest unit: cents of a euro, whole yen.
"""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from email_validator import EmailNotValidError, validate_email
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, field_validator

MAX_LINES = 100
MAX_QUANTITY = 10_000

Currency = Literal["EUR", "USD", "JPY"]
Status = Literal["draft", "confirmed"]
Sku = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,40}$")]

# A name ends up in a mail's header and on an invoice: no line breaks, no NUL, nothing that is not a character.
Text = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$"
    ),
]


def _deliverable_form(address: str) -> str:
    """Only its form is checked, nobody is asked over the network. A domain of another script becomes its ASCII form."""
    try:
        found = validate_email(address, check_deliverability=False, allow_smtputf8=False)
    except EmailNotValidError as error:
        raise ValueError(str(error)) from None
    return found.ascii_email or found.normalized


Email = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=3, max_length=254), AfterValidator(_deliverable_form)
]


class Given(BaseModel):
    """What a client sends: an unknown field is a misunderstanding, and is said to be one."""

    model_config = ConfigDict(extra="forbid")


class Customer(Given):
    name: Text
    email: Email
    address: list[Text] = Field(min_length=1, max_length=6)


class WantedLine(Given):
    sku: Sku
    quantity: int = Field(ge=1, le=MAX_QUANTITY, strict=True)


class Lines(Given):
    lines: list[WantedLine] = Field(min_length=1, max_length=MAX_LINES)

    @field_validator("lines")
    @classmethod
    def _each_product_once(cls, lines: list[WantedLine]) -> list[WantedLine]:
        if len({line.sku for line in lines}) < len(lines):
            raise ValueError("a product appears twice; add up its quantities")
        return lines


class WantedOrder(Lines):
    currency: Currency
    customer: Customer


class Line(BaseModel):
    sku: str
    name: str
    quantity: int
    unit_price: int
    tax_basis_points: int


class Order(BaseModel):
    id: UUID
    status: Status
    version: int
    currency: Currency
    customer: Customer
    lines: list[Line]
    total: int = Field(description="before tax: the sum of quantity × unit_price")
    created_at: datetime
    confirmed_at: datetime | None

    @property
    def etag(self) -> str:
        return f'"{self.version}"'


class OrderPage(BaseModel):
    items: list[Order]
    next_cursor: int | None = Field(description="pass it as `cursor` for older orders; null: there are none")


class Product(BaseModel):
    sku: str
    name: str
    description: str
    tax_basis_points: int
    prices: dict[str, int] = Field(description="currency → smallest units, before tax")
    picture: str


class Catalogue(BaseModel):
    items: list[Product]


class Paging(Given):
    cursor: int | None = Field(None, ge=1, le=2**63 - 1)
    limit: int = Field(50, ge=1, le=100)


class _Headers(BaseModel):
    model_config = ConfigDict(populate_by_name=True)


class PlaceHeaders(_Headers):
    idempotency_key: str = Field(
        alias="Idempotency-Key",
        pattern=r"^[\x21-\x7e]{1,255}$",
        description="One per order, made by the client, kept for 24 hours. The same key with the same body gives the "
        "first answer again.",
    )


class IfMatch(_Headers):
    if_match: str | None = Field(None, alias="If-Match", description='The ETag that was read, e.g. "1"')


class IfNoneMatch(_Headers):
    if_none_match: str | None = Field(None, alias="If-None-Match", description="The ETag that the client has")


class Versioned(_Headers):
    etag: str = Field(alias="ETag", pattern=r'^"\d+"$', description="The version that was answered, for If-Match")


class Placed(Versioned):
    location: str = Field(alias="Location", description="Where the order can be read")
