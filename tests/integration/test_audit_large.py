"""The audit of a large shop: quick, and in little memory. `make test-campaigns` runs it."""

import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.test_audit import Shop

ORDERS = 100_000
SECONDS, MEBIBYTES = 30, 300
PDF = b"%PDF-1.7 " + bytes(14_000)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_hundred_thousand_orders_are_audited_in_half_a_minute_and_300_mib(
    postgres: str, kafka: str, tmp_path: Path
) -> None:
    shop = Shop(postgres, kafka, tmp_path, orders=ORDERS, pdf=PDF)
    try:
        write_ledger(shop)
        report, mebibytes = audited(shop, tmp_path / "report.json")
    finally:
        shop.close()
    print(f"{ORDERS:,} orders: {report['seconds']:.1f} s, {mebibytes:.0f} MiB")
    assert report["holds"]
    assert report["promises"]["one_invoice"]["checked"] == report["promises"]["one_order_per_key"]["checked"] == ORDERS
    assert report["promises"]["acknowledged"]["checked"] == 2 * ORDERS
    assert report["seconds"] < SECONDS
    assert mebibytes < MEBIBYTES


def write_ledger(shop: Shop) -> None:
    """As a run leaves it: an intent and an answer for placing, and the same for confirming."""
    with shop.ledger.open("w") as file:
        for settled in shop.settled:
            order_id = str(settled.order.order_id)
            for path, status in (("/v1/orders", 201), (f"/v1/orders/{order_id}/confirm", 200)):
                asked = {"key": uuid4().hex, "method": "POST", "path": path, "at": datetime.now(UTC).isoformat()}
                file.write(json.dumps({"entry": "intent", "body_sha256": "0" * 64, **asked}) + "\n")
                answer = {"entry": "answer", "status": status, "order_id": order_id, **asked}
                file.write(json.dumps(answer) + "\n")


def audited(shop: Shop, printed: Path) -> tuple[dict[str, Any], float]:
    """The command itself, as a process of its own: its report, and the most memory it had."""
    places = {name.upper(): str(value) for name, value in shop.places(shop.whole).model_dump().items()}
    command = [sys.executable, "-m", "services.control_room.audit", "--json"]
    most_kib = 0
    with (
        printed.open("wb") as output,
        subprocess.Popen(command, env={**os.environ, **places}, stdout=output) as process,
    ):
        # Not getrusage: a child inherits the high-water mark of its parent, which holds the whole shop.
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            most_kib = max([most_kib, *map(int, re.findall(r"^VmHWM:\s+(\d+)", status, re.MULTILINE))])
            time.sleep(0.05)
    return json.loads(printed.read_bytes()), most_kib / 1024
