"""Alembic's entry: which tables this service has."""

from services.orders.models import metadata
from shared.runtime.migrate import run

run(metadata)
