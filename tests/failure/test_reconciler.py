"""The reconciler finds what was forgotten, whatever else runs or does not run, and never causes a second mail."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from services.billing import reconciler, render, send
from tests.support.billing import FORKS, Billing, Mailbox, run_reconciler
from tests.support.smtp import DROP, troubled
from tests.support.wait import until


@pytest.fixture(scope="module")
def mailbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mailbox]:
    with Mailbox.started(tmp_path_factory.mktemp("mails")) as mailbox:
        yield mailbox


@pytest.fixture(scope="module")
def billing(postgres: str, mailbox: Mailbox) -> Iterator[Billing]:
    with Billing.on(postgres, mailbox.smtp) as billing:
        yield billing


def one_mail_each(billing: Billing, mailbox: Mailbox, orders: list[UUID]) -> None:
    billing.work_until_settled()
    assert [len(mailbox.copies(order_id)) for order_id in orders] == [1] * len(orders)
    assert {billing.get(order_id)["unknown_outcomes"] for order_id in orders} == {0}


def test_with_the_tasks_deleted_by_hand_the_reconciler_alone_gets_the_mails_out_one_each(
    billing: Billing, mailbox: Mailbox
) -> None:
    sent = billing.invoice()
    billing.work_until_settled()
    rendered, never_rendered = billing.invoice(), billing.invoice()
    one_at_a_time = billing.worker(lease_most=1)
    while billing.get(rendered)["state"] == "issued":
        one_at_a_time.step()
    assert billing.get(never_rendered)["state"] == "issued"
    billing.execute("DELETE FROM tasks")
    assert billing.reconcile() == 2
    assert {kind for kind in (render.KIND, send.KIND) if billing.task(kind, rendered)} == {send.KIND}
    one_mail_each(billing, mailbox, [never_rendered, rendered, sent])


def test_an_invoice_that_is_not_overdue_or_is_being_worked_on_is_left_alone(billing: Billing) -> None:
    billing.invoice()
    assert billing.reconcile() == 0, "its task is queued"
    billing.execute("DELETE FROM tasks WHERE state = 'queued'")
    assert billing.reconcile(overdue_after_s=3600) == 0, "it is young"
    assert billing.reconcile() == 1
    assert billing.reconcile() == 0
    billing.work_until_settled()


def test_a_task_that_was_given_up_is_taken_up_again(billing: Billing, mailbox: Mailbox) -> None:
    order_id = billing.invoice()
    hopeless = billing.worker(smtp_address="127.0.0.1:1", max_attempts=1)
    while billing.task("invoice.email", order_id).get("state") != "dead":
        hopeless.step()
    assert billing.reconcile() == 1
    one_mail_each(billing, mailbox, [order_id])


def test_a_mail_that_may_have_arrived_often_enough_is_left_to_a_person(billing: Billing, mailbox: Mailbox) -> None:
    """A server that takes every mail and answers too late: taken up for ever, it would fill the customer's mailbox."""
    order_id = billing.invoice()
    with troubled(END=DROP) as server:
        unlucky = billing.worker(smtp_address=server.address, max_attempts=2, first_retry_s=0)
        while billing.task("invoice.email", order_id).get("state") != "dead":
            unlucky.step()
        assert billing.reconcile(max_unknown_outcomes=3) == 1
        while billing.task("invoice.email", order_id).get("state") != "dead":
            unlucky.step()
        assert billing.reconcile(max_unknown_outcomes=3) == 0
        assert len(server.taken) == 4 == billing.get(order_id)["unknown_outcomes"]
    assert billing.reconcile() == 1
    billing.work_until_settled()
    assert len(mailbox.copies(order_id)) == 1


def test_a_sent_invoice_whose_task_comes_again_gets_no_second_mail(billing: Billing, mailbox: Mailbox) -> None:
    order_id = billing.invoice()
    billing.work_until_settled()
    billing.execute("UPDATE tasks SET state = 'queued', finished_at = NULL, due_at = now()")
    working = billing.worker()
    while working.step():
        pass
    assert billing.task("invoice.email", order_id)["state"] == "done"
    one_mail_each(billing, mailbox, [order_id])


def test_two_reconcilers_at_once_and_a_worker_beside_them_send_one_mail_each(
    billing: Billing, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "BATCH", 3)
    orders = [billing.invoice() for _ in range(12)]
    billing.execute("DELETE FROM tasks WHERE id % 2 = 0")
    with billing.process(), ThreadPoolExecutor(2) as pool:
        reopened = sum(pool.map(lambda _: billing.reconcile(), range(6)))
        billing.execute("DELETE FROM tasks WHERE id % 3 = 0 AND state <> 'leased'")
        reopened += sum(pool.map(lambda _: billing.reconcile(), range(6)))
        until(lambda: billing.reconcile() == 0 and billing.unsent() == 0, "all sent", seconds=40)
    assert reopened >= 5
    one_mail_each(billing, mailbox, orders)


def test_a_reconciler_killed_before_its_commit_has_done_nothing_and_the_next_run_does_it(
    billing: Billing, mailbox: Mailbox
) -> None:
    order_id = billing.invoice()
    billing.execute("DELETE FROM tasks")
    victim = FORKS.Process(target=run_reconciler, args=(billing.url, "billing.reconciler.before_commit=kill"))
    victim.start()
    victim.join(30)
    assert victim.exitcode == -9
    assert billing.task("invoice.render", order_id) == {}
    again = FORKS.Process(target=run_reconciler, args=(billing.url, ""))
    again.start()
    again.join(30)
    assert again.exitcode == 0
    one_mail_each(billing, mailbox, [order_id])
