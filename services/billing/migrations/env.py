"""Alembic's entry: which tables this service has."""

from services.billing.models import metadata
from shared.runtime.migrate import run

run(metadata)
