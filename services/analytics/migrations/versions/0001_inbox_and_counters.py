"""the inbox and the sales figures

Revision ID: 0001
Revises:
"""

from alembic import op

from shared.messaging import schema

revision = "0001"
down_revision = None

TABLES = """
-- Which orders are in the figures: guards what the inbox has forgotten.
CREATE TABLE counted_orders (
    order_id   uuid        PRIMARY KEY,
    event_id   uuid        NOT NULL UNIQUE,
    counted_at timestamptz NOT NULL DEFAULT now()
);

-- Sales per day (UTC, of the confirmation) and currency. Money is in minor units, before tax.
CREATE TABLE daily_sales (
    day      date   NOT NULL,
    currency text   NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    orders   bigint NOT NULL CHECK (orders >= 0),
    revenue  bigint NOT NULL CHECK (revenue >= 0),
    PRIMARY KEY (day, currency)
);

-- Units and revenue per product and currency.
CREATE TABLE product_sales (
    sku      text   NOT NULL,
    currency text   NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    units    bigint NOT NULL CHECK (units >= 0),
    revenue  bigint NOT NULL CHECK (revenue >= 0),
    PRIMARY KEY (sku, currency)
);
"""


def upgrade() -> None:
    schema.install(op.get_bind(), "inbox")
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("DROP TABLE product_sales, daily_sales, counted_orders")
    schema.remove(op.get_bind(), "inbox")
