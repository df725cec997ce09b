"""products, orders and their lines, and the answers kept for clients that ask again

Revision ID: 0002
Revises: 0001
"""

from alembic import op

revision = "0002"
down_revision = "0001"

TABLES = """
-- What the shop sells. The picture is services/orders/static/products/<sku>.svg.
CREATE TABLE products (
    sku              text     PRIMARY KEY CHECK (sku ~ '^[a-z0-9-]{1,40}$'),
    position         smallint NOT NULL, -- the order on the page
    name             text     NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    description      text     NOT NULL,
    tax_basis_points integer  NOT NULL CHECK (tax_basis_points BETWEEN 0 AND 10000)
);

-- One price per currency, before tax, in the currency's smallest unit (cents; whole yen). A price is decided by a
-- person, never converted at some rate: a product without a price in a currency is not sold in it.
CREATE TABLE product_prices (
    sku      text   NOT NULL REFERENCES products ON DELETE CASCADE,
    currency text   NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    amount   bigint NOT NULL CHECK (amount BETWEEN 0 AND 1000000000000),
    PRIMARY KEY (sku, currency)
);

-- A draft can be changed; a confirmed order cannot, and has caused exactly one event. Confirming is a conditional
-- UPDATE of this row, which is what makes a double click harmless.
CREATE TABLE orders (
    id               uuid        PRIMARY KEY, -- random, so unguessable: whoever knows it may see the order
    seq              bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    status           text        NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'confirmed')),
    version          integer     NOT NULL DEFAULT 1 CHECK (version >= 1), -- the ETag: every change adds one
    currency         text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    customer_name    text        NOT NULL CHECK (length(customer_name) BETWEEN 1 AND 200),
    customer_email   text        NOT NULL CHECK (length(customer_email) BETWEEN 3 AND 254),
    customer_address text[]      NOT NULL CHECK (cardinality(customer_address) <= 6),
    total            bigint      NOT NULL, -- before tax: the sum of quantity × unit_price
    created_at       timestamptz NOT NULL DEFAULT now(),
    confirmed_at     timestamptz,
    CONSTRAINT total_in_bounds CHECK (total BETWEEN 0 AND 1000000000000),
    CHECK ((status = 'confirmed') = (confirmed_at IS NOT NULL))
);

-- Serves the list of orders, newest first.
CREATE UNIQUE INDEX orders_newest ON orders (seq);

-- Name, price and tax are copied: an order is what was agreed, whatever the catalogue says later. For the same reason
-- sku refers to nothing; a foreign key would also make all orders queue for the row of a popular product.
CREATE TABLE order_lines (
    order_id         uuid     NOT NULL REFERENCES orders ON DELETE CASCADE,
    sku              text     NOT NULL,
    position         smallint NOT NULL CHECK (position >= 1),
    name             text     NOT NULL,
    quantity         integer  NOT NULL CHECK (quantity BETWEEN 1 AND 100000),
    unit_price       bigint   NOT NULL CHECK (unit_price BETWEEN 0 AND 1000000000000),
    tax_basis_points integer  NOT NULL CHECK (tax_basis_points BETWEEN 0 AND 10000),
    PRIMARY KEY (order_id, sku)
);

-- What a client was answered, for the case that it never heard it and asks again with the same Idempotency-Key. Written
-- in the transaction of the order: there is no order without its answer, and no answer without its order.
-- Kept for 24 hours (housekeeping deletes older rows).
CREATE TABLE idempotency_keys (
    scope       text        NOT NULL, -- method and path
    key         text        NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    fingerprint bytea       NOT NULL CHECK (octet_length(fingerprint) = 32), -- SHA-256 of the body
    status      smallint,             -- these two are NULL only inside the transaction that is still at work
    answer      text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key)
);

-- Serves housekeeping: the keys of more than 24 hours ago.
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
"""


def upgrade() -> None:
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("DROP TABLE idempotency_keys, order_lines, orders, product_prices, products")
