"""A real browser: Chromium, driven by Playwright. Screenshots stay in .run/reports/screenshots, to be looked at."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from infra.native.stack import PROJECT

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
SCREENSHOTS = PROJECT / ".run" / "reports" / "screenshots"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
VIEWS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": PHONE,
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        sentence = "no Chromium on PATH: sudo apt-get install chromium, or CHROMIUM=/path/to/it"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)
    with sync_playwright() as playwright:
        # No sandbox: CI and containers often run as root, and we open nothing but our own pages.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=["desktop"])
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Parametrize indirectly with a name of VIEWS. Fails a test whose pages complain or ask another machine."""
    context = browser.new_context(**VIEWS[request.param])  # type: ignore[arg-type]
    page, faults = context.new_page(), list[str]()
    page.set_default_timeout(20_000)

    def complained(message: ConsoleMessage) -> None:
        # The browser itself reports every 404; that there is no invoice yet is no error.
        if message.type == "error" and not re.search(r"/v1/orders/[\w-]+/invoice$", message.location.get("url", "")):
            faults.append(f"console: {message.text}")

    def asked(sent: Request) -> None:
        if urlsplit(sent.url).hostname not in ("127.0.0.1", None):
            faults.append(f"a request to another host: {sent.url}")

    page.on("console", complained)
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("request", asked)
    yield page
    page.close()
    context.close()
    assert faults == []


def screenshot(page: Page, name: str) -> None:
    """`name` is a file's: desktop-1-products."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=Path(SCREENSHOTS, f"{name}.png"), full_page=True)
