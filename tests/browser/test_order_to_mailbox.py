"""The whole shop, in a real browser: from the storefront to the PDF in the mailbox, once."""

import json
import urllib.request
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest
from playwright.sync_api import Page, expect

from infra.native.stack import Stack
from tests.browser.conftest import screenshot
from tests.support.shopping import check_out, fill_cart
from tests.support.stacks import temporary_stack

pytestmark = pytest.mark.timeout(420)
EMAILED_MS = 120_000


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with temporary_stack() as stack:
        stack.up()
        yield stack


def test_an_order_confirmed_by_a_double_click_becomes_one_pdf_in_one_mail(page: Page, stack: Stack) -> None:
    shop = f"http://127.0.0.1:{stack.plan.programs['orders-api'].published[0]}"
    fill_cart(page, shop)
    check_out(page, shop)
    page.dblclick("#confirm")
    expect(page.get_by_text("Already confirmed: still one order.")).to_be_visible()
    expect(page.locator("#emailed.done")).to_be_visible(timeout=EMAILED_MS)
    screenshot(page, "stack-order-emailed")
    pdf = page.context.request.get(page.locator("#pdf").get_attribute("href") or "")
    assert (pdf.status, pdf.headers["content-type"]) == (200, "application/pdf")
    assert pdf.body().startswith(b"%PDF-")
    (mail,) = mails(f"http://127.0.0.1:{stack.plan.programs['mail'].published[-1]}")
    assert "ada@example.org" in str(mail["To"])
    assert [part.get_content() for part in mail.iter_attachments()] == [pdf.body()]


def mails(url: str) -> list[EmailMessage]:
    found = json.loads(_get(f"{url}/api/v1/messages"))["messages"]
    return [message_from_bytes(_get(f"{url}/api/v1/message/{one['ID']}/raw"), policy=policy.default) for one in found]


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        read: bytes = answer.read()
    return read
