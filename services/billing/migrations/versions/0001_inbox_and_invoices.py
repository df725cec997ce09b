"""the inbox, invoices, and the tasks that follow from them

Revision ID: 0001
Revises:
"""

from alembic import op

from shared.messaging import schema

revision = "0001"
down_revision = None

TABLES = """
-- The counter of each series of invoice numbers: one per partition of the topic, so that several consumers do not queue
-- on one row. Numbers are taken in the transaction of the invoices, so that a rollback burns none.
CREATE TABLE invoice_series (
    series      integer PRIMARY KEY CHECK (series >= 0),
    next_number bigint  NOT NULL CHECK (next_number >= 1)
);

-- One invoice per order, for ever: the unique order_id guards what the inbox has forgotten.
CREATE TABLE invoices (
    id        uuid        PRIMARY KEY DEFAULT gen_random_uuid(), -- unguessable: it is the address of the invoice
    series    integer     NOT NULL REFERENCES invoice_series,
    number    bigint      NOT NULL CHECK (number >= 1),
    order_id  uuid        NOT NULL UNIQUE,
    event_id  uuid        NOT NULL UNIQUE,
    currency  text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    customer  jsonb       NOT NULL,
    lines     jsonb       NOT NULL,
    net       bigint      NOT NULL CHECK (net >= 0), -- minor units, before tax
    issued_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (series, number) -- serves the check for gaps
);
"""


def upgrade() -> None:
    schema.install(op.get_bind(), "inbox", "tasks")
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("DROP TABLE invoices, invoice_series")
    schema.remove(op.get_bind(), "tasks", "inbox")
