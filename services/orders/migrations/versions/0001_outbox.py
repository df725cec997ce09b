"""the outbox

Revision ID: 0001
Revises:
"""

from alembic import op

from shared.messaging import schema

revision = "0001"
down_revision = None


def upgrade() -> None:
    schema.install(op.get_bind(), "outbox")


def downgrade() -> None:
    schema.remove(op.get_bind(), "outbox")
