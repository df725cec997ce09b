"""what an invoice comes to, how far its e-mail has got, and its PDF

Revision ID: 0002
Revises: 0001
"""

from alembic import op

revision = "0002"
down_revision = "0001"

AMOUNTS = """
ALTER TABLE invoices ADD COLUMN tax bigint, ADD COLUMN gross bigint;

-- The rule of services/billing/amounts.py: per line, half up.
UPDATE invoices SET tax = t.tax, gross = net + t.tax
  FROM (SELECT id, sum(((line->>'quantity')::bigint * (line->>'unit_price')::bigint
                        * (line->>'tax_basis_points')::bigint + 5000) / 10000) AS tax
          FROM invoices, jsonb_array_elements(lines) AS line GROUP BY id) AS t
 WHERE t.id = invoices.id;

ALTER TABLE invoices
    ALTER COLUMN tax SET NOT NULL,
    ALTER COLUMN gross SET NOT NULL,
    ADD CHECK (tax >= 0),
    ADD CHECK (net + tax = gross);
"""

# issued → rendered (the PDF is stored, the e-mail queued) → sending → sent, or undeliverable. From sending back to
# rendered when the server said "not now". unknown_outcomes counts how often nobody knows whether the server took it:
# the mailbox may hold that many copies too many, all under one Message-ID.
DELIVERY = """
ALTER TABLE invoices
    ADD COLUMN state            text    NOT NULL DEFAULT 'issued'
               CHECK (state IN ('issued', 'rendered', 'sending', 'sent', 'undeliverable')),
    ADD COLUMN sending_token    uuid,        -- the lease under which it is being sent; whoever lost it may not speak
    ADD COLUMN sent_at          timestamptz,
    ADD COLUMN unknown_outcomes integer NOT NULL DEFAULT 0 CHECK (unknown_outcomes >= 0),
    ADD COLUMN refusal          text,        -- what the mail server said, for good
    ADD COLUMN message_id       text    GENERATED ALWAYS AS ('order-' || order_id || '@shop.invalid') VIRTUAL,
    ADD CHECK ((state = 'sending') = (sending_token IS NOT NULL)),
    ADD CHECK ((state = 'sent') = (sent_at IS NOT NULL)),
    ADD CHECK ((state = 'undeliverable') = (refusal IS NOT NULL));

-- Serves the reconciler: the few invoices whose e-mail is still to come. On columns that change once in an invoice's
-- life, so that the other changes of state touch no index.
CREATE INDEX invoices_unsent ON invoices (issued_at) WHERE sent_at IS NULL AND refusal IS NULL;

-- Apart from invoices, so that lists of invoices do not drag their documents along.
CREATE TABLE invoice_pdfs (
    invoice_id  uuid        PRIMARY KEY REFERENCES invoices,
    content     bytea       NOT NULL,
    sha256      bytea       NOT NULL CHECK (sha256 = sha256(content)),
    rendered_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE invoice_pdfs ALTER COLUMN content SET STORAGE EXTERNAL; -- compressed already
"""


def upgrade() -> None:
    op.execute(AMOUNTS)
    op.execute(DELIVERY)


def downgrade() -> None:
    op.execute("DROP TABLE invoice_pdfs")
    op.execute("DROP INDEX invoices_unsent")
    op.execute("""
        ALTER TABLE invoices DROP COLUMN tax, DROP COLUMN gross, DROP COLUMN state, DROP COLUMN sending_token,
                             DROP COLUMN sent_at, DROP COLUMN unknown_outcomes, DROP COLUMN refusal,
                             DROP COLUMN message_id
    """)
