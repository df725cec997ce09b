"""Creates the three databases and their roles, or brings them to what this file says; `--naive`: the naive shop's two.

A service's role owns its own database and cannot connect to another's. `auditor` can read all three and write none.
Passwords are set at every run, so a changed password in .env is rotated by `make up`.
"""

import sys
import time

import psycopg
from psycopg import sql
from pydantic import Field
from pydantic_settings import BaseSettings

from shared.runtime import settings

SERVICES = ("orders", "billing", "analytics")
NAIVE = {"naive_orders": "orders", "naive_billing": "billing"}
"""Databases of the naive shop, and whose they are: apart from the real ones, and without a password more."""

LOCK = 0x5109_0000_0002

TIMEOUTS = {
    # A process that hangs or was stopped in a transaction blocks the others for seconds, not for ever.
    "idle_in_transaction_session_timeout": "5s",
    "lock_timeout": "5s",
    "transaction_timeout": "30s",
}


class DatabaseSettings(BaseSettings):
    admin_url: str = Field(repr=False)
    orders_db_password: str = Field(repr=False, min_length=1)
    billing_db_password: str = Field(repr=False, min_length=1)
    analytics_db_password: str = Field(repr=False, min_length=1)
    auditor_db_password: str = Field(repr=False, min_length=1)

    def password(self, role: str) -> str:
        return str(getattr(self, f"{role}_db_password"))


def main() -> None:
    wanted = settings.load(DatabaseSettings)
    with _connected(wanted.admin_url) as admin:
        # Two runs at once take turns; CREATE DATABASE cannot be in a transaction, so the lock is the session's.
        admin.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        _role(admin, "auditor", wanted.password("auditor"))
        admin.execute("GRANT pg_read_all_data TO auditor")
        admin.execute("ALTER ROLE auditor SET default_transaction_read_only = on")
        for name in SERVICES:
            _role(admin, name, wanted.password(name))
            _database(admin, name, owner=name)
        for name, owner in NAIVE.items() if "--naive" in sys.argv else ():
            _database(admin, name, owner)
        print(f"databases {', '.join(SERVICES)}: ready, each with its own role; auditor reads all")


def _connected(url: str) -> psycopg.Connection:
    """The server may still be recovering from a crash: it says so, and is asked again."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return psycopg.connect(url, autocommit=True, connect_timeout=5)
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                sys.exit("The database was created with another POSTGRES_PASSWORD than the one in .env. "
                         "Put the old one back, or start anew with `make clean`.")  # fmt: skip
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _role(admin: psycopg.Connection, name: str, password: str) -> None:
    role = sql.Identifier(name)
    if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone():
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
    admin.execute(sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(role, sql.Literal(password)))
    for setting, value in TIMEOUTS.items():
        admin.execute(sql.SQL("ALTER ROLE {} SET {} = {}").format(role, sql.Identifier(setting), sql.Literal(value)))


def _database(admin: psycopg.Connection, name: str, owner: str) -> None:
    database = sql.Identifier(name)
    if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, sql.Identifier(owner)))
    admin.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    admin.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO auditor").format(database))


if __name__ == "__main__":
    main()
