"""The clients' side of the story: what `make order`, load and chaos have asked, and what they were told.

A line is written before a request and another after its answer (loadtest/ledger.py). An intent without an answer is
"unknown": the order may be there or not, and either is right. A line that a crash cut off is no line.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import UUID

from services.control_room.audit import sorting


def acknowledged(path: str, torn: list[int]) -> Iterator[tuple[UUID, str, str]]:
    """(order id, Idempotency-Key or '', 'placed' or 'confirmed') of every positive answer."""
    for line in lines(path, torn):
        if line.get("order_id") and line.get("status") in (200, 201):
            told = "confirmed" if line["path"].endswith("/confirm") else "placed"
            yield UUID(line["order_id"]), line.get("key") or "", told


def orders_by_key(path: str) -> Iterator[tuple[str, list[str]]]:
    """Every Idempotency-Key with the orders that its clients were told of."""
    with ExitStack() as closing:
        pairs = ((key, str(order_id)) for order_id, key, told in acknowledged(path, []) if key and told == "placed")
        for key, rows in groupby(sorting.on_disk(pairs, closing), itemgetter(0)):
            yield key, sorted({order_id for _, order_id in rows})


def lines(path: str, torn: list[int]) -> Iterator[dict[str, Any]]:
    """Every whole line; the numbers of torn ones are added to `torn`. The last may be in the middle of its writing."""
    if not path or not Path(path).exists():
        return
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                try:
                    yield json.loads(line)
                except ValueError:
                    torn.append(number)
