"""What make load measures on the databases, after the last order."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from loadtest.load import afterwards
from loadtest.load.outcome import Outcome
from loadtest.load.run import Run
from tests.integration.test_audit import Shop

APPLIED = """
INSERT INTO inbox (consumer, event_id, payload_hash, deliveries, from_topic, from_partition, from_offset)
VALUES ('billing', %s, sha256(%s), 1, 'orders.confirmed', 0, 0)
"""


def test_an_invoice_is_there_when_it_is_committed_not_when_its_transaction_began(
    postgres: str, kafka: str, tmp_path: Path
) -> None:
    shop = Shop(postgres, kafka, tmp_path, orders=3)
    first, now = shop.settled[0], datetime.now(UTC)
    with psycopg.connect(shop.whole["billing"]) as billing:
        billing.execute("DELETE FROM inbox")
        billing.execute(APPLIED, (first.event_id, first.value))
        time.sleep(0.5)
    run, outcome = Run("limit", 1, 1, 1, 60, half_since_s=0.0), Outcome()
    run.started, run.ended = (now - timedelta(minutes=5)).timestamp(), (now + timedelta(minutes=1)).timestamp()
    afterwards._measure(run, shop.places(shop.whole), outcome)
    assert outcome.invoiced_s is not None
    assert 0.5 < outcome.invoiced_s[0] < 60
    assert outcome.invoiced_at_half_s == outcome.invoiced_s
    run.half_since_s = 360.0
    afterwards._measure(run, shop.places(shop.whole), outcome)
    assert outcome.invoiced_at_half_s is None
    shop.close()
