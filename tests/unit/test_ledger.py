"""The clients' ledger: what a crash or a full disk cuts off stays a matter of one line."""

from pathlib import Path
from typing import Any

import pytest

from loadtest import ledger
from loadtest.ledger import Ledger


def test_a_line_that_a_crash_cut_off_does_not_swallow_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    for _ in range(2):
        written = Ledger(path)
        written.intent("key", "POST", "/v1/orders", b"{}")
        written.close()
    assert len(path.read_bytes().splitlines()) == 2
    path.write_bytes(path.read_bytes()[:-10])
    written = Ledger(path)
    written.answer("key", "POST", "/v1/orders", 201, "order-1")
    written.close()
    assert [entry["entry"] for entry in ledger.read(path)] == ["intent", "answer"]


def test_a_line_that_does_not_fit_onto_the_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk:
        name = "ledger"

        def write(self, line: bytes) -> int:
            return len(line) - 1

    full: Any = FullDisk()
    written = Ledger(tmp_path / "ledger.jsonl")
    written.close()
    monkeypatch.setattr(written, "_file", full)
    with pytest.raises(OSError, match="is the disk full"):
        written.intent("key", "POST", "/v1/orders", b"{}")
