"""Brings one service's database to the newest revision: `python -m shared.runtime.migrate services/orders`.

Safe when two run at once: the second waits for the first's advisory lock and then finds nothing to do.
Every service keeps its own revisions in <service>/migrations; their env.py calls `run`.
"""

import argparse
from pathlib import Path

from alembic import command, context
from alembic.config import Config
from pydantic import Field
from pydantic_settings import BaseSettings
from sqlalchemy import MetaData, text

from shared.runtime import database, settings

LOCK = 0x5109_0000_0001
"""Any fixed number; it is taken per database, so services do not wait for each other."""


class MigrationSettings(BaseSettings):
    database_url: str = Field(repr=False)


def config(service: Path, url: str) -> Config:
    alembic = Config()
    alembic.set_main_option("script_location", str(service / "migrations").replace("%", "%%"))
    alembic.attributes["url"] = url
    return alembic


def run(metadata: MetaData) -> None:
    """The body of every env.py."""
    engine = database.engine(context.config.attributes["url"], "migrate", pool_size=1)
    with engine.connect() as connection:
        context.configure(connection=connection, target_metadata=metadata, compare_server_default=True)
        with context.begin_transaction():
            # The role's time-outs are for services; a migration may have to wait for its turn and may take long.
            connection.execute(text("SET LOCAL transaction_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = '60s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
            context.run_migrations()
    engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m shared.runtime.migrate", description=__doc__)
    parser.add_argument("service", type=Path, help="the folder that has migrations/, e.g. services/orders")
    parser.add_argument("--to", default="head", help="revision to go to (default: the newest); downgrades too")
    arguments = parser.parse_args()
    alembic = config(arguments.service, settings.load(MigrationSettings).database_url)
    (command.upgrade if arguments.to == "head" else _to)(alembic, arguments.to)
    print(f"{arguments.service}: at {arguments.to}")


def _to(alembic: Config, revision: str) -> None:
    """Forward if the revision is ahead, otherwise back."""
    if revision.startswith("-") or revision == "base":
        command.downgrade(alembic, revision)
    else:
        command.upgrade(alembic, revision)


if __name__ == "__main__":
    main()
