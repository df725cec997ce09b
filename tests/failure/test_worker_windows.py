"""The billing worker dies, or falls asleep, in each of its crash windows: one mail, or as many more as it admits."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.support import streams
from tests.support.billing import Billing, Mailbox
from tests.support.wait import until

# window → unknown outcomes when the worker is killed there, copies in the mailbox then; the same when it sleeps
WINDOWS = {
    "after_lease": (0, 1, 0, 1),
    "after_render": (0, 1, 0, 1),
    "after_store": (0, 1, 0, 1),
    "before_smtp": (1, 1, 1, 1),
    "after_smtp": (1, 2, 1, 2),
}


@pytest.fixture(scope="module")
def mailbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mailbox]:
    with Mailbox.started(tmp_path_factory.mktemp("mails")) as mailbox:
        yield mailbox


@pytest.fixture(scope="module")
def billing(postgres: str, mailbox: Mailbox) -> Iterator[Billing]:
    with Billing.on(postgres, mailbox.smtp) as billing:
        yield billing


def check(billing: Billing, mailbox: Mailbox, order_id: UUID, unknown: int, copies: int) -> None:
    invoice, mails = billing.get(order_id), mailbox.copies(order_id)
    assert invoice["state"] == "sent"
    assert (invoice["unknown_outcomes"], len(mails)) == (unknown, copies)
    assert len(set(mails)) == 1, "copies are the same mail, byte for byte"
    assert streams.scalar(billing.url, "SELECT count(*) FROM invoice_pdfs") == streams.scalar(
        billing.url, "SELECT count(*) FROM invoices"
    )


@pytest.mark.parametrize("window", WINDOWS)
def test_a_worker_killed_in_the_window_leaves_a_mail_that_the_next_one_sends(
    billing: Billing, mailbox: Mailbox, window: str
) -> None:
    unknown, copies, _, _ = WINDOWS[window]
    order_id = billing.invoice()
    with billing.process(f"billing.worker.{window}=kill") as victim:
        victim.was_killed()
    billing.work_until_settled()
    check(billing, mailbox, order_id, unknown, copies)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_worker_that_wakes_after_another_has_sent_does_no_harm(
    billing: Billing, mailbox: Mailbox, window: str
) -> None:
    _, _, unknown, copies = WINDOWS[window]
    order_id = billing.invoice()
    with billing.process(f"billing.worker.{window}=pause:20") as sleeper:
        sleeper.stands_still()
        billing.work_until_settled()
        sent_at = billing.get(order_id)["sent_at"]
        sleeper.goes_on()
        next_order = billing.invoice()  # and now the sleeper is the only worker
        until(lambda: billing.get(next_order)["state"] == "sent", "the sleeper works again", seconds=30)
    assert billing.get(order_id)["sent_at"] == sent_at, "nobody records a second `sent`"
    check(billing, mailbox, order_id, unknown, copies)
    check(billing, mailbox, next_order, 0, 1)


def test_two_workers_send_each_mail_once(billing: Billing, mailbox: Mailbox) -> None:
    orders = [billing.invoice() for _ in range(12)]
    with billing.process(), billing.process():
        until(lambda: billing.unsent() == 0, "all sent", seconds=40)
    for order_id in orders:
        check(billing, mailbox, order_id, 0, 1)
