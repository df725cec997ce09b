"""The auditor is itself audited: each promise is broken by hand, and that one, and no other, must be reported."""

import json
import smtplib
import socket
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from rich.console import Console

from services.control_room.audit import __main__ as command
from services.control_room.audit import audit, mailbox, settling, timeline, topic
from services.control_room.audit.mailbox import all_mails
from services.control_room.audit.streams import snapshot
from services.control_room.audit.verdicts import Verdicts
from services.control_room.settings import PlacesSettings
from shared.messaging import retention
from tests.support import settled_shop, streams
from tests.support.settled_shop import DATABASES, Settled
from tests.unit.test_mail_sink import Sink

ORDERS = 12


class Shop:
    """The settled shop, and databases of a test's own to break."""

    def __init__(
        self, postgres: str, kafka: str, folder: Path, *, orders: int = ORDERS, pdf: bytes = b"%PDF-1.7 small"
    ) -> None:
        self._postgres, self.kafka, self.ledger = postgres, kafka, folder / "ledger.jsonl"
        self.topic = streams.create_topic(kafka, settled_shop.PARTITIONS)
        self.settled = list(settled_shop.orders(orders))
        self._templates = {name: f"audit_{name}_{uuid4().hex[:8]}" for name in DATABASES}
        for template in self._templates.values():
            self._admin(f'CREATE DATABASE "{template}"')
        urls = {name: self._url(template) for name, template in self._templates.items()}
        settled_shop.prepare(urls)
        settled_shop.write(urls, kafka, self.topic, folder / "mails", self.settled, pdf)
        self.sink = Sink(folder)
        self.whole = {name: self.copy(name) for name in DATABASES}

    def copy(self, name: str) -> str:
        copy = f"test_{name}_{uuid4().hex[:8]}"
        self._admin(f'CREATE DATABASE "{copy}" TEMPLATE "{self._templates[name]}"')
        return self._url(copy)

    def places(self, urls: dict[str, str]) -> PlacesSettings:
        return PlacesSettings(
            orders_database_url=urls["orders"], billing_database_url=urls["billing"],
            analytics_database_url=urls["analytics"], kafka_bootstrap=self.kafka,
            mail_url=f"http://{self.sink.http}", topic=self.topic, ledger=str(self.ledger),
        )  # fmt: skip

    def close(self) -> None:
        """The databases go with the server; a DROP DATABASE is a checkpoint each, which takes longer than the tests."""
        self.sink.end(15)

    def _url(self, name: str) -> str:
        return self._postgres.rsplit("/", 1)[0] + "/" + name

    def _admin(self, statement: str) -> None:
        with psycopg.connect(self._postgres, autocommit=True) as admin:
            admin.execute(statement.encode())


@pytest.fixture(scope="module")
def shop(postgres: str, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(postgres, kafka, tmp_path_factory.mktemp("audit"))
    yield made
    made.close()


Break = Callable[..., Verdicts]


@pytest.fixture
def after(shop: Shop) -> Break:
    """Runs a statement in one of the databases, without their protection, then the audit."""

    def run(database: str = "orders", statement: str = "SELECT 1", *parameters: object) -> Verdicts:
        urls = {**shop.whole, database: shop.copy(database)}
        with psycopg.connect(urls[database], autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(statement.encode(), parameters)
        return audit.run(shop.places(urls))

    return run


def broken(verdicts: Verdicts) -> set[str]:
    return {name for name, verdict in verdicts.named.items() if not verdict.holds}


def offenders(verdicts: Verdicts) -> str:
    return "\n".join(line for verdict in verdicts for line in verdict.offenders)


@pytest.fixture
def victim(shop: Shop) -> Settled:
    return shop.settled[4]


def test_a_settled_shop_keeps_every_promise(after: Break) -> None:
    verdicts = after()
    assert broken(verdicts) == set()
    assert verdicts.one_event.checked == verdicts.one_invoice.checked == verdicts.counted.checked == ORDERS


def test_an_event_that_was_never_written_is_found(after: Break, victim: Settled) -> None:
    """Lost: a confirmed order without its event. What came of it seems to come from nowhere."""
    verdicts = after("orders", "DELETE FROM outbox WHERE event_id = %s", victim.event_id)
    assert broken(verdicts) == {"one_event", "same_bytes", "billing_inbox", "analytics_inbox"}
    assert str(victim.order.order_id) in offenders(verdicts)


def test_two_events_of_one_order_are_found(after: Break, victim: Settled) -> None:
    again = """INSERT INTO outbox (event_id, topic, key, value, headers)
               SELECT uuidv7(), topic, key, value, headers FROM outbox WHERE event_id = %s"""
    assert broken(after("orders", again, victim.event_id)) == {"one_event", "published"}


def test_an_event_of_an_order_that_was_rolled_back_is_found(after: Break, victim: Settled) -> None:
    back = "UPDATE orders SET status = 'draft', confirmed_at = NULL WHERE id = %s"
    assert broken(after("orders", back, victim.order.order_id)) == {"one_event", "orphans", "sums"}


def test_an_event_marked_but_not_on_the_topic_is_found(after: Break, shop: Shop) -> None:
    made = next(settled_shop.orders(1))
    insert = """INSERT INTO outbox (event_id, topic, key, value, headers, published_at)
                VALUES (%s, 'orders.confirmed', 'not-an-order', %s, '{}', now())"""
    verdicts = after("orders", insert, made.event_id, made.value)
    assert broken(verdicts) == {"on_topic", "billing_inbox", "analytics_inbox"}
    assert str(made.event_id) in offenders(verdicts)


def test_an_event_that_was_made_or_published_while_the_audit_read_is_not_missed_on_the_topic(after: Break) -> None:
    """Orders' snapshot is opened last, so it has events that are younger than what was read of the topic."""
    made, soon = next(settled_shop.orders(1)), datetime.now(UTC) + timedelta(minutes=1)
    insert = """INSERT INTO outbox (event_id, topic, key, value, headers, published_at)
                VALUES (%s, 'orders.confirmed', 'not-an-order', %s, '{}', %s)"""
    assert broken(after("orders", insert, streams.smallest_id(soon), made.value, None)) == set()
    verdicts = after("orders", insert, made.event_id, made.value, soon)
    assert broken(verdicts) == {"billing_inbox", "analytics_inbox"}


def test_an_unpublished_event_is_found(after: Break, victim: Settled) -> None:
    clear = "UPDATE outbox SET published_at = NULL WHERE event_id = %s"
    assert broken(after("orders", clear, victim.event_id)) == {"published"}


def test_other_bytes_on_the_topic_are_found(after: Break, victim: Settled) -> None:
    changed = "UPDATE outbox SET value = value || ' ' WHERE event_id = %s"
    assert broken(after("orders", changed, victim.event_id)) == {"same_bytes", "billing_inbox", "analytics_inbox"}


def test_what_retention_removes_while_the_audit_reads_leaves_no_verdict(shop: Shop) -> None:
    name = streams.create_topic(shop.kafka, 1)
    streams.publish(shop.kafka, name, [s.value for s in shop.settled], partition=0)
    opened = topic.Topic(shop.kafka, name)
    admin = AdminClient({"bootstrap.servers": shop.kafka})
    for removed in admin.delete_records([TopicPartition(name, 0, 5)]).values():
        removed.result(20)
    with pytest.raises(KafkaException):
        list(opened.records())
    opened.close()


@pytest.mark.parametrize("consumer", ["billing", "analytics"])
def test_a_forgotten_inbox_row_is_found(after: Break, victim: Settled, consumer: str) -> None:
    forget = "DELETE FROM inbox WHERE event_id = %s"
    assert broken(after(consumer, forget, victim.event_id)) == {f"{consumer}_inbox"}


def test_a_lost_invoice_is_found(after: Break, victim: Settled) -> None:
    lose = "DELETE FROM invoices WHERE order_id = %s"
    verdicts = after("billing", lose, victim.order.order_id)
    assert broken(verdicts) == {"one_invoice", "gapless"}
    assert str(victim.order.order_id) in offenders(verdicts)


def test_of_many_offenders_the_first_are_named_and_the_others_counted(after: Break) -> None:
    """In memory a thousand are kept, which --json gives; `broken` counts them all."""
    many = """INSERT INTO tasks (kind, key, state, finished_at)
              SELECT 'invoice.email', n, 'dead', now() FROM generate_series(1, 40) AS n"""
    tasks = after("billing", many).tasks
    assert (tasks.broken, len(tasks.offenders), len(tasks.told())) == (40, 40, 11)
    assert tasks.told()[-1] == "and 30 more"
    tasks.offenders, tasks.broken = [], 0
    for n in range(1500):
        tasks.check(False, n)
        tasks.note(str(n))
    assert (len(tasks.offenders), len(tasks.notes), tasks.broken, tasks.noted) == (1000, 1000, 1500, 1500)
    assert [line for line in tasks.told(notes=5) if "more" in line] == ["and 1,490 more", "and 1,495 more"]


def test_a_doubled_invoice_is_found(after: Break, victim: Settled) -> None:
    double = """ALTER TABLE invoices DROP CONSTRAINT invoices_order_id_key, DROP CONSTRAINT invoices_event_id_key;
                INSERT INTO invoices (series, number, order_id, event_id, currency, customer, lines, net, tax, gross,
                                      state, sent_at)
                SELECT 9, 1, order_id, event_id, currency, customer, lines, net, tax, gross, state, sent_at
                  FROM invoices LIMIT 1;
                INSERT INTO invoice_series VALUES (9, 2)"""
    assert broken(after("billing", double)) == {"one_invoice", "one_pdf"}


@pytest.mark.parametrize(
    "change",
    ["net = net + 1, gross = gross + 1", "tax = tax + 1, gross = gross + 1", "currency = 'USD'", "lines = '[]'"],
)
def test_a_changed_amount_is_found(after: Break, victim: Settled, change: str) -> None:
    assert broken(after("billing", f"UPDATE invoices SET {change} WHERE order_id = %s", victim.order.order_id)) == {
        "amounts"
    }


def test_a_gap_in_the_numbers_is_found(after: Break) -> None:
    assert broken(after("billing", "UPDATE invoices SET number = 99 WHERE number = 2 AND series = 0")) == {"gapless"}


def test_a_burnt_number_is_found(after: Break) -> None:
    assert broken(after("billing", "UPDATE invoice_series SET next_number = next_number + 1 WHERE series = 1")) == {
        "gapless"
    }


def test_a_missing_and_a_changed_pdf_are_found(after: Break, victim: Settled) -> None:
    lose = "DELETE FROM invoice_pdfs WHERE invoice_id = %s"
    assert broken(after("billing", lose, victim.invoice_id)) == {"one_pdf"}
    change = """ALTER TABLE invoice_pdfs DROP CONSTRAINT invoice_pdfs_check;
                UPDATE invoice_pdfs SET content = 'other' WHERE ctid = (SELECT min(ctid) FROM invoice_pdfs)"""
    assert broken(after("billing", change)) == {"one_pdf"}


def test_a_mail_that_was_never_sent_is_found(after: Break, victim: Settled) -> None:
    unsend = "UPDATE invoices SET state = 'rendered', sent_at = NULL WHERE order_id = %s"
    assert broken(after("billing", unsend, victim.order.order_id)) == {"mailed"}


def test_a_lost_count_and_a_wrong_sum_are_found(after: Break, victim: Settled) -> None:
    lose = "DELETE FROM counted_orders WHERE order_id = %s"
    assert broken(after("analytics", lose, victim.order.order_id)) == {"counted", "sums"}
    assert broken(after("analytics", "UPDATE daily_sales SET revenue = revenue + 1")) == {"sums"}
    twice = "UPDATE product_sales SET units = units + 1 WHERE sku = 'tea-1'"
    assert broken(after("analytics", twice)) == {"sums"}
    assert broken(after("analytics", "UPDATE minute_sales SET orders = orders + 1")) == {"sums"}
    assert broken(after("analytics", "DELETE FROM minute_sales")) == {"sums"}


def test_effects_without_an_order_are_found(after: Break, victim: Settled) -> None:
    remove = "DELETE FROM orders WHERE id = %s"
    verdicts = after("orders", remove, victim.order.order_id)
    assert broken(verdicts) == {"orphans", "sums"}


def test_dead_tasks_and_leases_that_never_end_are_found(after: Break) -> None:
    dead = "INSERT INTO tasks (kind, key, state, finished_at) VALUES ('invoice.email', 'x', 'dead', now())"
    assert broken(after("billing", dead)) == {"tasks"}
    leased = """INSERT INTO tasks (kind, key, state, lease_token, due_at)
                VALUES ('invoice.email', 'x', 'leased', gen_random_uuid(), now() - interval '1 hour')"""
    assert broken(after("billing", leased)) == {"tasks"}


def test_a_refused_address_is_an_end_and_its_dead_task_no_broken_promise(after: Break, victim: Settled) -> None:
    refused = f"""UPDATE invoices SET state = 'undeliverable', sent_at = NULL, refusal = '550 no such user'
                   WHERE order_id = '{victim.order.order_id}';
                  INSERT INTO tasks (kind, key, state, finished_at)
                  VALUES ('%s', '{victim.order.order_id}', 'dead', now())"""
    assert broken(after("billing", refused % "invoice.email")) == set()
    assert broken(after("billing", refused % "invoice.render")) == {"tasks"}


def test_a_parked_event_is_named_and_its_effect_not_expected(after: Break, victim: Settled) -> None:
    park = """INSERT INTO dead_letters (consumer, event_id, payload_hash, topic_id, topic, partition, "offset", reason,
                                        error)
              SELECT 'billing', event_id, payload_hash, 't', 'orders.confirmed', 0, 0, 'handler-failed', 'a bug'
                FROM inbox WHERE event_id = %(id)s;
              DELETE FROM inbox WHERE event_id = %(id)s;""".replace("%(id)s", f"'{victim.event_id}'")
    forget = f"""DELETE FROM invoice_pdfs WHERE invoice_id = '{victim.invoice_id}';
                 DELETE FROM invoices WHERE id = '{victim.invoice_id}'"""
    verdicts = after("billing", park + forget)
    assert broken(verdicts) == {"gapless"}
    assert str(victim.event_id) in "\n".join(verdicts.parked.notes)
    assert f"order {victim.order.order_id} has no invoice: billing letter 1 is open" in verdicts.parked.notes


def forgotten_by_billing(victim: Settled) -> str:
    return f"""DELETE FROM inbox WHERE event_id = '{victim.event_id}';
               DELETE FROM invoice_pdfs WHERE invoice_id = '{victim.invoice_id}';
               DELETE FROM invoices WHERE id = '{victim.invoice_id}';"""


def letter(victim: Settled, value: bytes, reason: str, *, repaired: bytes | None = None, outcome: str = "") -> str:
    """A statement that parks these bytes as the victim's event."""
    repair = f"'\\x{repaired.hex()}', sha256('\\x{repaired.hex()}')" if repaired else "NULL, NULL"
    closed = f"now(), '{outcome}', 'nobody needs it'" if outcome else "NULL, NULL, NULL"
    return f"""INSERT INTO dead_letters (consumer, event_id, payload_hash, value, topic_id, topic, partition, "offset",
                                         reason, error, repaired_value, repaired_hash, closed_at, outcome, note)
               VALUES ('billing', '{victim.event_id}', sha256('\\x{value.hex()}'), '\\x{value.hex()}', 't',
                       'orders.confirmed', 0, 99, '{reason}', 'bad', {repair}, {closed});"""


@pytest.mark.parametrize("outcome", ["", "discarded"])
def test_a_bad_copy_in_dead_letters_does_not_excuse_a_lost_event(after: Break, victim: Settled, outcome: str) -> None:
    bad_copy = letter(victim, b"bad", "invalid", outcome=outcome)
    assert broken(after("billing", bad_copy)) == set()
    assert broken(after("billing", bad_copy + forgotten_by_billing(victim))) == {
        "billing_inbox", "one_invoice", "gapless",
    }  # fmt: skip


DISCARDED_ROW = """
INSERT INTO inbox (consumer, event_id, payload_hash, deliveries, outcome, from_topic, from_partition, from_offset)
VALUES ('billing', '{}', sha256('\\x{}'), 1, 'discarded', 'orders.confirmed', 0, 99);
"""


def test_an_order_whose_event_was_discarded_is_named_with_the_reason(after: Break, victim: Settled) -> None:
    remembered = DISCARDED_ROW.format(victim.event_id, victim.value.hex())
    lost = forgotten_by_billing(victim) + remembered
    verdicts = after("billing", lost + letter(victim, victim.value, "handler-failed", outcome="discarded"))
    assert broken(verdicts) == {"gapless"}
    named = f"order {victim.order.order_id} has no invoice: billing letter 1 was discarded: nobody needs it"
    assert verdicts.parked.notes == [named]


@pytest.mark.parametrize("note", ["NULL", "' '"])
def test_a_letter_that_was_discarded_without_a_reason_is_found(after: Break, victim: Settled, note: str) -> None:
    discarded = letter(victim, b"bad", "invalid", outcome="discarded")
    assert broken(after("billing", f"{discarded} UPDATE dead_letters SET note = {note}")) == {"parked"}


def test_an_event_that_was_discarded_without_a_letter_is_found(after: Break, victim: Settled) -> None:
    lost = forgotten_by_billing(victim) + DISCARDED_ROW.format(victim.event_id, victim.value.hex())
    assert broken(after("billing", lost)) == {"one_invoice", "gapless", "parked"}


def test_an_event_that_is_parked_behind_its_bad_copy_is_not_expected(after: Break, victim: Settled) -> None:
    """The copy came first; the consumer cannot know which of the two is right."""
    both = letter(victim, b"bad", "invalid") + letter(victim, victim.value, "payload-mismatch")
    assert broken(after("billing", both + forgotten_by_billing(victim))) == {"gapless"}


def test_a_bad_copy_repaired_into_the_event_stands_for_it_until_it_is_redriven(after: Break, victim: Settled) -> None:
    lose = forgotten_by_billing(victim)
    repaired = letter(victim, b"bad", "invalid", repaired=victim.value)
    assert broken(after("billing", lose + repaired)) == {"gapless"}
    redriven = letter(victim, b"bad", "invalid", repaired=victim.value, outcome="redriven")
    assert broken(after("billing", lose + redriven)) == {"billing_inbox", "one_invoice", "gapless"}


SECOND_ORDER = """
INSERT INTO orders (id, currency, customer_name, customer_email, customer_address, total, created_at)
SELECT gen_random_uuid(), currency, customer_name, customer_email, customer_address, total, now() - interval '{}'
  FROM orders LIMIT 1;
"""
OLDEST_KEY = """
UPDATE idempotency_keys SET created_at = now() - interval '{}'
 WHERE ctid = (SELECT min(ctid) FROM idempotency_keys);
"""


@pytest.mark.parametrize(
    ("age", "oldest_key"), [("1 minute", "0"), ("30 minutes", "1 minute"), ("22 hours", "23 hours")]
)
def test_a_second_order_of_a_key_is_found_though_its_client_never_heard_of_it(
    after: Break, age: str, oldest_key: str
) -> None:
    assert broken(after("orders", SECOND_ORDER.format(age) + OLDEST_KEY.format(oldest_key))) == {"one_order_per_key"}


@pytest.mark.parametrize(("age", "oldest_key"), [("2 hours", "1 hour"), ("25 hours", "26 hours")])
def test_an_order_whose_key_may_have_been_deleted_by_now_is_not_complained_of(
    after: Break, age: str, oldest_key: str
) -> None:
    assert broken(after("orders", SECOND_ORDER.format(age) + OLDEST_KEY.format(oldest_key))) == set()


def test_an_event_that_topic_and_inboxes_have_forgotten_and_the_outbox_has_not_is_not_lost(after: Break) -> None:
    """OUTBOX_RETENTION_DAYS may be larger than INBOX_RETENTION_DAYS."""
    made, day = next(settled_shop.orders(1)), datetime.now(UTC).date()
    oldest, floor = retention.first_id(day - timedelta(days=20)), retention.first_id(day - timedelta(days=1))
    kept = f"""CREATE TABLE outbox_kept PARTITION OF outbox FOR VALUES FROM ('{oldest}') TO ('{floor}');
               INSERT INTO outbox (event_id, topic, key, value, headers, published_at)
               VALUES ('{oldest}', 'orders.confirmed', 'not-an-order', '\\x{made.value.hex()}', '{{}}', now())"""
    assert broken(after("orders", kept)) == set()


def test_an_order_that_came_and_was_mailed_while_the_audit_read_is_not_a_lost_one(
    after: Break, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, mails = uuid4(), list[tuple[str, str]]()

    @contextmanager
    def and_then_an_order(url: str, name: str) -> Iterator[psycopg.Connection[Any]]:
        with snapshot(url, name) as connection:
            if name == "orders":
                told = {"method": "POST", "path": f"/v1/orders/{late}/confirm", "status": 200, "order_id": str(late)}
                shop.ledger.write_text(json.dumps(told) + "\n")
                mails.append(("late", f"order-{late}@shop.invalid"))
            yield connection

    monkeypatch.setattr("services.control_room.audit.streams.snapshot", and_then_an_order)
    monkeypatch.setattr("services.control_room.audit.mailbox.all_mails", lambda url: chain(all_mails(url), mails))
    verdicts = after()
    shop.ledger.unlink()
    assert mails
    assert broken(verdicts) == set()


def test_a_torn_line_of_the_ledger_is_skipped_and_counted(after: Break, shop: Shop) -> None:
    known, lost = shop.settled[0].order.order_id, uuid4()
    line = '{{"method": "POST", "path": "/v1/orders", "key": "k", "status": 201, "order_id": "{}"}}\n'
    shop.ledger.write_text('{"method": "POST", "pa' + line.format(known) + line.format(lost))
    verdicts = after()
    shop.ledger.unlink()
    assert broken(verdicts) == {"acknowledged"}
    assert verdicts.acknowledged.notes == ["1 torn line(s) of the ledger skipped, the first is line 1"]


def test_an_order_that_a_client_was_promised_and_a_key_with_two_orders_are_found(after: Break, shop: Shop) -> None:
    known = shop.settled[0].order.order_id
    line = '{{"method": "POST", "path": "/v1/orders", "key": "{}", "status": 201, "order_id": "{}"}}\n'
    confirmed = f'{{"method": "POST", "path": "/v1/orders/{known}/confirm", "status": 200, "order_id": "{known}"}}\n'
    shop.ledger.write_text(line.format("k1", known) + confirmed + '{"method": "POST", "cut off')
    assert broken(after()) == set()
    shop.ledger.write_text(line.format("k1", known) + line.format("k2", uuid4()))
    assert broken(after()) == {"acknowledged"}
    shop.ledger.write_text(line.format("k1", known) + line.format("k1", shop.settled[1].order.order_id))
    assert broken(after()) == {"one_order_per_key"}
    shop.ledger.unlink()


def test_the_life_of_an_order_is_told_in_order(shop: Shop, victim: Settled) -> None:
    moments = timeline.of(shop.places(shop.whole), victim.order.order_id)
    assert {moment.where for moment in moments} >= {"orders", "orders outbox", "billing inbox", "analytics", "mailbox"}
    assert moments == sorted(moments, key=lambda moment: (moment.at is None, moment.at))
    assert timeline.of(shop.places(shop.whole), uuid4()) == []


OFFSETS = """
INSERT INTO consumer_offsets (consumer, topic_id, topic, partition, next_offset)
SELECT '{0}', id, '{1}', partition, next_offset
  FROM (VALUES ('{2}', {3}), ('deleted long ago', 1000)) AS t (id, next_offset), generate_series(0, 2) AS partition
"""


def test_settling_waits_for_records_that_nobody_has_read_whatever_a_deleted_topic_says(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, per_partition = topic.identity(shop.places(shop.whole)), ORDERS // settled_shop.PARTITIONS
    urls = {**shop.whole, "billing": shop.copy("billing"), "analytics": shop.copy("analytics")}
    for consumer, read in (("billing", per_partition), ("analytics", per_partition - 1)):
        with psycopg.connect(urls[consumer], autocommit=True) as connection:
            connection.execute(OFFSETS.format(consumer, shop.topic, known, read).encode())
    places = shop.places(urls)
    assert settling.unread(places) == {"billing": 0, "analytics": settled_shop.PARTITIONS}
    screen = Console(file=StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr(command, "aside", screen)
    assert not command._settle(places, Namespace(naive=False, wait=0.0))
    assert "of 0 s at the most" in screen.file.getvalue()  # type: ignore[attr-defined]
    with psycopg.connect(urls["analytics"], autocommit=True) as connection:
        connection.execute("UPDATE consumer_offsets SET next_offset = next_offset + 1")
    assert settling.settle(places, 0, lambda _now: None)


def changed(shop: Shop, database: str, statement: str) -> PlacesSettings:
    urls = {**shop.whole, database: shop.copy(database)}
    with psycopg.connect(urls[database], autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(statement.encode())
    return shop.places(urls)


def test_the_life_of_an_order_without_an_effect_shows_its_letter(shop: Shop, victim: Settled) -> None:
    parked = letter(victim, victim.value, "handler-failed", outcome="discarded")
    places = changed(shop, "billing", forgotten_by_billing(victim) + parked)
    life = [moment.what for moment in timeline.of(places, victim.order.order_id) if moment.where == "billing letters"]
    assert life == [
        "letter 1, from partition 0 offset 99, parked after 1 attempt(s): handler-failed, bad",
        "letter 1 discarded: nobody needs it",
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("state = 'sending', sending_token = gen_random_uuid()", "e-mail is being sent; unknown outcomes: 0"),
        ("state = 'undeliverable', refusal = '550 no'", "e-mail undeliverable: 550 no; unknown outcomes: 0"),
    ],
)
def test_the_life_of_an_order_says_how_far_its_mail_is(shop: Shop, victim: Settled, change: str, told: str) -> None:
    unsent = f"UPDATE invoices SET sent_at = NULL, {change} WHERE id = '{victim.invoice_id}'"
    life = timeline.of(changed(shop, "billing", unsent), victim.order.order_id)
    assert told in [moment.what for moment in life]


@pytest.mark.parametrize("says", [b"", b"HTTP/1.0 200 OK\r\nContent-Length: 900\r\n\r\n{"])
def test_a_mailbox_that_stalls_or_stops_in_the_middle_leaves_no_verdict(
    shop: Shop, says: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mailbox, "PATIENCE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        for name, value in shop.places(shop.whole).model_copy(update={"mail_url": url}).model_dump().items():
            monkeypatch.setenv(name.upper(), str(value))
        monkeypatch.setattr("sys.argv", ["audit"])

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                if says:
                    connection.recv(1000)
                    connection.sendall(says)
                else:
                    time.sleep(2)

        thread = threading.Thread(target=answer)
        thread.start()
        assert command.main() == 2
        thread.join()
    assert "something is away" in capsys.readouterr().err


def test_a_record_that_orders_never_wrote_is_found_unless_both_parked_it(after: Break, shop: Shop) -> None:
    """Last but one, because the topic keeps it."""
    streams.publish(shop.kafka, shop.topic, [b"not an event"], partition=0)
    assert broken(after()) == {"same_bytes"}


def test_a_copy_too_many_in_the_mailbox_is_found(after: Break, shop: Shop, victim: Settled) -> None:
    """Last, because the mailbox keeps it."""
    mail = EmailMessage()
    mail["To"], mail["Message-ID"] = "ada@example.org", f"<order-{victim.order.order_id}@shop.invalid>"
    mail.set_content("Thank you.")
    host, port = shop.sink.smtp.split(":")
    with smtplib.SMTP(host, int(port), timeout=5) as client:
        client.send_message(mail, "shop@example.org", "ada@example.org")
    assert broken(after()) == {"copies", "same_bytes"}
    allowed = "UPDATE invoices SET unknown_outcomes = 1 WHERE order_id = %s"
    assert broken(after("billing", allowed, victim.order.order_id)) == {"same_bytes"}
