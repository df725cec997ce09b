"""Merges sorted streams: for each key, everything that every place knows about it.

    for order_id, rows in merged({"orders": …, "invoices": …}):
        rows["invoices"]    # a list, often of one, sometimes of none, never to be trusted

Each stream is sorted by its first column. Only the rows of one key are in memory at a time.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

Rows = dict[str, list[tuple[Any, ...]]]


class NotSorted(Exception):
    """A stream that must be sorted is not: the audit would miss what it looks for."""


def merged(streams: Mapping[str, Iterable[tuple[Any, ...]]]) -> Iterator[tuple[UUID, Rows]]:
    groups = {name: _groups(name, stream) for name, stream in streams.items()}
    heads = {name: next(group, None) for name, group in groups.items()}
    while keys := [head[0] for head in heads.values() if head is not None]:
        key = min(keys)
        rows: Rows = {}
        for name, head in heads.items():
            if head is not None and head[0] == key:
                rows[name], heads[name] = head[1], next(groups[name], None)
            else:
                rows[name] = []
        yield key, rows


def _groups(name: str, stream: Iterable[tuple[Any, ...]]) -> Iterator[tuple[UUID, list[tuple[Any, ...]]]]:
    last: UUID | None = None
    for key, rows in groupby(stream, itemgetter(0)):
        if last is not None and key < last:
            raise NotSorted(f"{name}: {key} comes after {last}")
        last = key
        yield key, list(rows)
