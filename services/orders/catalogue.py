"""What the shop sells.

does    reads the products with their prices
reads   products, product_prices
writes  nothing
next    place_order.py
"""

from sqlalchemy.orm import Session, sessionmaker

from services.orders.schemas import Product

ALL = """
SELECT sku, name, description, tax_basis_points, '/static/products/' || sku || '.svg' AS picture,
       coalesce(jsonb_object_agg(currency, amount) FILTER (WHERE currency IS NOT NULL), '{}') AS prices
FROM products LEFT JOIN product_prices USING (sku)
GROUP BY sku ORDER BY position
"""


def products(sessions: sessionmaker[Session]) -> list[Product]:
    with sessions() as session:
        rows = session.connection().exec_driver_sql(ALL).mappings().all()
    return [Product(**row) for row in rows]
