"""What the wanted lines cost: the part that placing and changing an order share.

does    joins wanted products with the catalogue, inside the statement that writes the lines
reads   products, product_prices
writes  order_lines
next    read_orders.py
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from psycopg.errors import CheckViolation
from sqlalchemy.exc import IntegrityError

from services.orders.schemas import Order, WantedLine
from shared.runtime.problems import Problem

PRICED = """
    SELECT wanted.position, sku, products.name, wanted.quantity, product_prices.amount AS unit_price,
           products.tax_basis_points
    FROM unnest(%(skus)s::text[], %(quantities)s::integer[]) WITH ORDINALITY AS wanted (sku, quantity, position)
    JOIN products USING (sku)
    JOIN product_prices USING (sku)
    WHERE product_prices.currency = %(currency)s
"""
INSERT_LINES = """
    INSERT INTO order_lines (order_id, position, sku, name, quantity, unit_price, tax_basis_points)
    SELECT %(id)s, position, sku, name, quantity, unit_price, tax_basis_points FROM priced
"""


def parameters(order_id: UUID, currency: str, lines: Sequence[WantedLine]) -> dict[str, object]:
    return {
        "id": order_id,
        "currency": currency,
        "skus": [line.sku for line in lines],
        "quantities": [line.quantity for line in lines],
    }


def refuse_unpriced(wanted: Sequence[WantedLine], order: Order) -> None:
    """A product without a price fell out of the join: the caller's transaction ends here, with nothing written."""
    if missing := sorted({line.sku for line in wanted} - {line.sku for line in order.lines}):
        raise Problem(
            422, "unknown-product", f"Not sold here, or not in {order.currency}: {', '.join(missing)}", skus=missing
        )


@contextmanager
def refused_in_words(wanted: Sequence[WantedLine]) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        if isinstance(error.orig, CheckViolation) and error.orig.diag.constraint_name == "total_in_bounds":
            count = sum(line.quantity for line in wanted)
            raise Problem(422, "total-too-large", f"{count} pieces cost more than an order may.") from error
        raise
