"""A database, and what has to be done in it.

does    creates the coming days' partitions, drops the expired ones, purges old rows; says in one line what it did
reads   partitions
writes  partitions, inbox_floor, and what purges.py deletes
next    shared/messaging/retention.py, purges.py
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from services.housekeeping import metrics, purges
from services.housekeeping.purges import Purge
from shared.messaging import retention
from shared.messaging.database_errors import translated
from shared.messaging.errors import Transient
from shared.runtime import logs

CarryOn = Callable[[], bool]
"""Asked between two pieces of work: False when the process was told to stop."""


@dataclass(frozen=True)
class House:
    database: str
    url: str
    engine: Engine
    partitioned: str
    """The table whose rows live in daily partitions, and for how many days."""
    keep_days: int
    purges: tuple[Purge, ...]


def visit(house: House, carry_on: CarryOn = lambda: True) -> int | None:
    """How many partitions and rows were changed. None: it failed, whatever the reason was in this database; the others
    must not suffer for it."""
    started = time.monotonic()
    try:
        with translated():
            changes = _keep(house, carry_on)
    except (Transient, psycopg.Error, SQLAlchemyError) as error:
        metrics.FAILURES.labels(house.database).inc()
        logs.get().error("house not kept", database=house.database, error=str(error).splitlines()[0])
        return None
    metrics.DURATION.labels(house.database).set(time.monotonic() - started)
    metrics.LAST_SUCCESS.labels(house.database).set_to_current_time()
    logs.get().info("house kept", database=house.database, **changes, seconds=round(time.monotonic() - started, 3))
    return sum(changes.values())


def _keep(house: House, carry_on: CarryOn) -> dict[str, int]:
    changes = _keep_partitions(house)
    for purge in house.purges:
        purged = purges.run(house.engine, purge, carry_on)
        metrics.PURGED.labels(house.database, purge.table).inc(purged)
        changes[f"{purge.table}_purged"] = purged
    return changes


def _keep_partitions(house: House) -> dict[str, int]:
    """First of all: without partitions nothing can be written, while old rows only cost room."""
    labels = (house.database, house.partitioned)
    with psycopg.connect(house.url, autocommit=True, connect_timeout=5) as connection:
        created = retention.create_partitions(connection, house.partitioned, back_days=house.keep_days)
        metrics.CREATED.labels(*labels).inc(created)
        dropped = retention.drop_expired(connection, house.partitioned, keep_days=house.keep_days)
        metrics.DROPPED.labels(*labels).inc(len(dropped))
        metrics.AHEAD.labels(*labels).set(retention.days_ahead(connection, house.partitioned))
    return {"partitions_created": created, "partitions_dropped": len(dropped)}
