"""an index for the purge of tasks that were done long ago

Revision ID: 0003
Revises: 0002
"""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    # A new database has it from shared/messaging/schema/tasks.sql already.
    op.execute("CREATE INDEX IF NOT EXISTS tasks_done ON tasks (finished_at) WHERE state = 'done'")


def downgrade() -> None:
    op.execute("DROP INDEX IF EXISTS tasks_done")
