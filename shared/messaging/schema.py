"""The tables of the pattern, for a service's own database.

does    runs the SQL files beside it: `schema.install(connection, "outbox", "inbox")` in a migration or a test
reads   shared/messaging/schema/*.sql
writes  tables, inside the caller's transaction
next    retention.py (the partitions; without them nothing can be written)
"""

from pathlib import Path

from psycopg import Connection
from sqlalchemy import Connection as AlchemyConnection

FILES = Path(__file__).with_suffix("")
REMOVE = {
    "outbox": "DROP TABLE outbox; DROP FUNCTION outbox_shards CASCADE; DROP DOMAIN kafka_topic",
    "inbox": "DROP TABLE inbox, inbox_floor, consumer_offsets, consumer_slots, handling_attempts, dead_letters",
    "tasks": "DROP TABLE tasks",
}


def install(connection: Connection | AlchemyConnection, *parts: str) -> None:
    """Never commits: in a migration, the tables appear together with the revision that made them."""
    for part in parts:
        statements = (FILES / f"{part}.sql").read_text()
        if isinstance(connection, AlchemyConnection):
            connection.exec_driver_sql(statements.replace("%", "%%"))
        else:
            connection.execute(statements.encode())


def remove(connection: AlchemyConnection, *parts: str) -> None:
    """For a downgrade. The data goes too."""
    for part in parts:
        connection.exec_driver_sql(REMOVE[part])
