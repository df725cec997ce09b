"""Sending old events again, by hand: `python -m services.orders.republish --since 2026-11-18T00:00Z`.

does    makes the events since a time unpublished again; the relay sends them, and every inbox knows them already
reads   its settings
writes  outbox
next    shared/messaging/outbox.py
"""

import argparse
import time
from datetime import datetime

import psycopg
from pydantic import Field
from pydantic_settings import BaseSettings

from shared.messaging import outbox
from shared.runtime import settings


class Settings(BaseSettings):
    database_url: str = Field(repr=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.orders.republish", description=outbox.republish.__doc__)
    parser.add_argument("--since", required=True, type=_moment, help="ISO 8601, with an offset, e.g. 2026-11-18T00:00Z")
    since = parser.parse_args().since
    started = time.monotonic()
    with psycopg.connect(settings.load(Settings).database_url, autocommit=True) as connection:
        count = outbox.republish(connection, since)
    print(f"{count} events since {since.isoformat()} will be published again ({time.monotonic() - started:.1f} s)")


def _moment(given: str) -> datetime:
    moment = datetime.fromisoformat(given)
    if moment.tzinfo is None:
        raise ValueError("an offset is missing")
    return moment


if __name__ == "__main__":
    main()
