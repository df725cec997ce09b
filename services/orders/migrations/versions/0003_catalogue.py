"""the first catalogue

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy
from alembic import op

revision = "0003"
down_revision = "0002"

FOOD, GOODS = 700, 1900
PRODUCTS = [
    # sku, name, description, tax, EUR cents, USD cents, JPY
    ("assam", "Assam, 250 g", "Malty black tea for the first cup of the day.", FOOD, 890, 990, 1450),
    ("sencha", "Sencha, 100 g", "Steamed green leaves, grassy and bright.", FOOD, 1290, 1390, 1980),
    ("earl-grey", "Earl Grey, 200 g", "Black tea with oil of bergamot.", FOOD, 950, 1050, 1540),
    ("espresso", "Espresso beans, 500 g", "A dark roast, chocolate and nut.", FOOD, 1450, 1590, 2300),
    ("filter-roast", "Filter roast, 250 g", "A light roast, apricot and jasmine.", FOOD, 1190, 1290, 1900),
    ("honey", "Lime-blossom honey", "A jar of 250 grams from the edge of town.", FOOD, 720, 790, 1180),
    ("teapot", "Stoneware teapot", "Glazed by hand, holds four cups.", GOODS, 4490, 4900, 7200),
    ("cup", "Stoneware cup", "Made by the same hands as the teapot.", GOODS, 1490, 1650, 2400),
    ("kettle", "Gooseneck kettle", "Pours slowly and exactly where you want it.", GOODS, 6990, 7600, 11200),
    ("dripper", "Porcelain dripper", "Spiral ribs, for one or two cups.", GOODS, 2290, 2500, 3700),
    ("grinder", "Hand grinder", "Steel burrs and a walnut handle.", GOODS, 8900, 9700, 14300),
    ("caddy", "Tea caddy", "A tin with an inner lid that keeps the air out.", GOODS, 1890, 2050, 3000),
]


def upgrade() -> None:
    for position, (sku, name, description, tax, *prices) in enumerate(PRODUCTS, start=1):
        op.execute(
            sqlalchemy.text("INSERT INTO products VALUES (:sku, :position, :name, :description, :tax)").bindparams(
                sku=sku, position=position, name=name, description=description, tax=tax
            )
        )
        for currency, amount in zip(("EUR", "USD", "JPY"), prices, strict=True):
            op.execute(
                sqlalchemy.text("INSERT INTO product_prices VALUES (:sku, :currency, :amount)").bindparams(
                    sku=sku, currency=currency, amount=amount
                )
            )


def downgrade() -> None:
    op.execute("TRUNCATE products CASCADE")
