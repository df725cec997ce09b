"""The ledger that shares its fsyncs. Needs gevent, which only load generation installs (make .venv/load-installed)."""

import json
import os
from pathlib import Path

import pytest

gevent = pytest.importorskip("gevent", reason="make .venv/load-installed")


def test_an_intent_is_on_the_disk_before_its_request_leaves_and_a_hundred_share_few_fsyncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from loadtest.load.group_ledger import GroupLedger

    path, on_disk, fsync = tmp_path / "ledger.jsonl", [0], os.fsync

    def noted(descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        fsync(descriptor)
        on_disk.append(size)

    monkeypatch.setattr(os, "fsync", noted)
    ledger = GroupLedger(path)

    def ask(number: int) -> None:
        ledger.intent(f"key-{number}", "POST", "/v1/orders", b"{}")
        written = path.read_bytes()
        assert written.index(f'"key-{number}"'.encode()) < on_disk[-1]
        ledger.answer(f"key-{number}", "POST", "/v1/orders", 201, "an id")

    shoppers = [gevent.spawn(ask, number) for number in range(100)]
    gevent.joinall(shoppers, timeout=30, raise_error=True)
    assert len(on_disk) < 50
    entries = [json.loads(line)["entry"] for line in path.read_text().splitlines()]
    assert (entries.count("intent"), entries.count("answer")) == (100, 100)
    ledger.close()
