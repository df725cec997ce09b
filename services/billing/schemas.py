"""What goes in and out of the HTTP API; /openapi.json shows it. Money is in smallest units: cents, whole yen."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

State = Literal["issued", "rendered", "sending", "sent", "undeliverable"]


class InvoiceOut(BaseModel):
    id: UUID
    order_id: UUID
    number: str = Field(description="gapless within its series, which is the part before the dash")
    state: State
    currency: str
    net: int
    tax: int
    gross: int
    issued_at: datetime
    pdf_url: str | None = Field(description="null until the PDF is there")
    emailed_at: datetime | None


class LineOut(BaseModel):
    sku: str
    name: str
    quantity: int
    unit_price: int
    net: int
    tax_basis_points: int
    tax: int = Field(description="of this line, rounded half up")


class InvoiceDetail(InvoiceOut):
    lines: list[LineOut]


class InvoicePage(BaseModel):
    items: list[InvoiceOut]
    next_cursor: UUID | None = Field(description="pass it as `cursor` for older invoices; null: there are none")


class Newest(BaseModel):
    cursor: UUID | None = None
    limit: int = Field(20, ge=1, le=100)
