"""An invoice as its document and its e-mail show it: everything on it is a function of the stored row."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from services.billing import amounts
from services.billing.amounts import AtRate

COLUMNS = "id, series, number, order_id, message_id, currency, customer, lines, net, tax, gross, issued_at"
BY_ORDER = f"SELECT {COLUMNS} FROM invoices WHERE order_id = %s"  # noqa: S608  the columns are ours


@dataclass(frozen=True, slots=True)
class Line:
    sku: str
    name: str
    quantity: int
    unit_price: int
    tax_basis_points: int

    @property
    def net(self) -> int:
        return self.quantity * self.unit_price


@dataclass(frozen=True, slots=True)
class Customer:
    name: str
    email: str
    address: list[str]


@dataclass(frozen=True, slots=True)
class Invoice:
    id: UUID
    series: int
    number: int
    order_id: UUID
    message_id: str
    currency: str
    customer: Customer
    lines: list[Line]
    net: int
    tax: int
    gross: int
    issued_at: datetime

    @property
    def printed_number(self) -> str:
        return printed_number(self.series, self.number)

    @property
    def issued_on(self) -> str:
        """The day in UTC, and in English whatever the locale of the machine: the bytes must not depend on it."""
        return f"{self.issued_at.astimezone(UTC):%Y-%m-%d}"

    def per_rate(self) -> list[AtRate]:
        return amounts.per_rate((line.net, line.tax_basis_points) for line in self.lines)

    def money(self, minor_units: int) -> str:
        return amounts.printed(minor_units, self.currency)


def of_order(session: Session, order_id: str) -> Invoice:
    row: Any = session.connection().exec_driver_sql(BY_ORDER, (order_id,)).one()._mapping
    customer, lines = Customer(**row["customer"]), [Line(**line) for line in row["lines"]]
    return Invoice(**{**row, "customer": customer, "lines": lines})


def printed_number(series: int, number: int) -> str:
    """From series and number alone: gapless numbers stay gapless in print."""
    return f"S{series}-{number:06}"
