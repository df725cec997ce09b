"""The clients' side of the story: what `make order`, load and chaos have asked, and what they were told.

A line is written before a request and another after its answer (loadtest/ledger.py). An intent without an answer is
"unknown": the order may be there or not, and either is right. A line that a crash cut off is no line.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from services.control_room.audit.verdicts import Verdict

Told = tuple[str, str, str]
"""Idempotency-Key or '', order id, 'placed' or 'confirmed': a positive answer."""


def acknowledged(path: str, torn: list[int]) -> Iterator[Told]:
    for line in lines(path, torn):
        if line.get("order_id") and line.get("status") in (200, 201):
            told = "confirmed" if line["path"].endswith("/confirm") else "placed"
            yield line.get("key") or "", line["order_id"], told


def one_order_per_key(by_key: Iterator[Told], verdict: Verdict) -> Iterator[Told]:
    """Hands on what it judges: a ledger of a million lines is read once."""
    for key, told in groupby(by_key, itemgetter(0)):
        placed = set()
        for answer in told:
            if answer[2] == "placed":
                placed.add(answer[1])
            yield answer
        if key and placed:
            verdict.check(len(placed) == 1, key, f"orders {', '.join(sorted(placed))}")


def lines(path: str, torn: list[int]) -> Iterator[dict[str, Any]]:
    """Every whole line; the numbers of torn ones are added to `torn`. The last may be in the middle of its writing."""
    if not path or not Path(path).exists():
        return
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                try:
                    yield orjson.loads(line)
                except ValueError:
                    torn.append(number)
