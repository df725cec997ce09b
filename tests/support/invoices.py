"""Invoices for tests and benchmarks: ordinary ones, and those that break layouts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from services.billing import amounts
from services.billing.invoice import Customer, Invoice, Line

ADA = Customer("Ada Lovelace", "ada@example.org", ["12 St James’s Square", "London SW1Y 4JH", "United Kingdom"])


def invoice(lines: Sequence[Line] = (), customer: Customer = ADA, currency: str = "EUR") -> Invoice:
    bought = list(lines) or [Line("tea-earl-grey", "Earl Grey, 250 g", 2, 1250, 700)]
    net = sum(line.net for line in bought)
    tax = sum(amounts.tax(line.net, line.tax_basis_points) for line in bought)
    order_id = UUID("0198c0de-0000-4000-8000-000000000001")
    return Invoice(
        UUID("0198c0de-0000-4000-8000-000000000002"), 0, 123, order_id, f"order-{order_id}@shop.invalid", currency,
        customer, bought, net, tax, net + tax, datetime(2026, 11, 18, 9, 30, tzinfo=UTC),
    )  # fmt: skip


def many_lines(count: int) -> list[Line]:
    rates = (1900, 700, 0, 550)
    return [
        Line(f"sku-{n:03}", f"Article number {n} with an ordinary name", n % 7 + 1, 199 + 37 * n, rates[n % 4])
        for n in range(1, count + 1)
    ]
