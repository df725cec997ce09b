"""orders per minute, and what the products are called

Revision ID: 0002
Revises: 0001
"""

from alembic import op

revision = "0002"
down_revision = "0001"

TABLES = """
-- Sales per minute (UTC, of the confirmation) and currency: what the live chart shows. Housekeeping keeps two days.
CREATE TABLE minute_sales (
    minute   timestamptz NOT NULL CHECK (minute = date_trunc('minute', minute, 'UTC')),
    currency text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    orders   bigint      NOT NULL CHECK (orders >= 0),
    revenue  bigint      NOT NULL CHECK (revenue >= 0),
    PRIMARY KEY (minute, currency) -- serves the chart and the purge
);

-- The name of a product in the order confirmed last. `named_at` decides, not the order of arrival, so that a replay
-- ends with the same names.
CREATE TABLE product_names (
    sku      text        PRIMARY KEY,
    name     text        NOT NULL,
    named_at timestamptz NOT NULL
);

-- Serves the list of products by revenue.
CREATE INDEX product_sales_by_revenue ON product_sales (currency, revenue DESC, sku);
"""


def upgrade() -> None:
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("DROP INDEX product_sales_by_revenue; DROP TABLE product_names, minute_sales")
