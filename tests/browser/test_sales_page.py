"""The sales page in a real browser, with the server that `make up` starts."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import Engine

from infra.native.stack import PROJECT
from shared.runtime import database
from shared.runtime.probe import probe
from tests.browser.conftest import screenshot
from tests.integration.test_migrations import migrate
from tests.support.sales import sell
from tests.support.wait import until

LIVE_MS = 20_000
"""The page asks every two seconds; a loaded machine may take longer."""


@pytest.fixture(scope="module")
def url(postgres: str) -> Iterator[str]:
    """A database for all tests of this file."""
    name = f"sales_page_{uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
    url = postgres.rsplit("/", 1)[0] + "/" + name
    migrate("analytics", url)
    yield url
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """Nothing has been sold yet."""
    with psycopg.connect(url) as connection:
        connection.execute("TRUNCATE counted_orders, daily_sales, minute_sales, product_sales, product_names")
    engine = database.engine(url, "tests")
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def server(url: str) -> Iterator[str]:
    """gunicorn, started as docker-compose.yml starts it."""
    http, ops = free_address(), free_address()
    running = subprocess.Popen(
        [Path(sys.executable).with_name("gunicorn"), "-c", "shared/runtime/gunicorn_config.py",
         "services.analytics.api:create_app()"],
        env=os.environ | {"PROCESS": "analytics-api", "DATABASE_URL": url, "HTTP_BIND": http, "OPS_BIND": ops},
        cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: probe(f"{http}/readyz", 2.0)[0], "analytics-api is ready", seconds=60)
        yield f"http://{http}"
    finally:
        running.terminate()
        running.wait(20)


def free_address() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_sale_shows_without_a_reload(engine: Engine, server: str, page: Page) -> None:
    page.goto(server)
    expect(page.get_by_role("heading", name="No orders yet")).to_be_visible()
    screenshot(page, "sales-empty")
    sell(engine, at=datetime.now(UTC), cents=1250, name="Assam tea, 250 g")
    expect(page.locator("#orders")).to_have_text("1", timeout=LIVE_MS)
    expect(page.get_by_text("No orders yet")).to_be_hidden()
    expect(page.locator("#products")).to_contain_text("Assam tea, 250 g")
    charts = [ink(page, name) for name in ("minutes", "days")]
    sell(engine, at=datetime.now(UTC), cents=1000, sku="mug", name="<b>Mug</b>", orders=2)
    expect(page.locator("#revenue")).to_have_text("€32.50", timeout=LIVE_MS)
    expect(page.locator("#orders-today")).to_have_text("3")
    expect(page.locator("#minutes-caption")).to_contain_text("3 in the last hour")
    expect(page.locator("#products tbody tr").first).to_contain_text("<b>Mug</b>")
    assert [ink(page, name) for name in ("minutes", "days")] != charts, "the bars have grown"
    page.locator("#days .u-over").hover()
    expect(page.locator("#days .pointed")).to_have_text(re.compile(r"\w+ \w+: €0.00"))


def test_every_currency_has_its_own_figures_and_can_be_chosen_with_the_keyboard(
    engine: Engine, server: str, page: Page
) -> None:
    history(engine)
    page.goto(server)
    expect(page.locator("#revenue")).to_contain_text("€")
    page.get_by_role("radio", name="EUR").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#revenue")).to_have_text("¥900", timeout=LIVE_MS)
    page.get_by_text("As a table").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#days-table tbody tr")).to_have_count(1)


@pytest.mark.parametrize("page", ["desktop", "dark", "phone"], indirect=True)
def test_it_fits_every_screen(engine: Engine, server: str, page: Page, request: pytest.FixtureRequest) -> None:
    history(engine)
    page.emulate_media(reduced_motion="reduce")
    page.goto(server)
    expect(page.locator("#minutes canvas")).to_be_visible()
    assert page.viewport_size is not None
    # Not innerWidth: a phone makes that as wide as what sticks out.
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"], "nothing sticks out"
    assert page.evaluate("document.getAnimations().length") == 0, "who wants no motion sees none"
    screenshot(page, f"sales-{request.node.callspec.id}")


def test_it_says_so_when_the_server_is_away_and_recovers(engine: Engine, server: str, page: Page) -> None:
    sell(engine)
    page.goto(server)
    expect(page.locator("#orders")).to_have_text("1", timeout=LIVE_MS)  # not what the server remembers of another test
    expect(page.get_by_role("status")).to_have_text("Live")
    page.route("**/v1/summary", lambda route: route.fulfill(status=204))
    expect(page.get_by_role("status")).to_contain_text("No connection", timeout=LIVE_MS)
    expect(page.locator("#orders")).to_have_text("1")
    page.unroute("**/v1/summary")
    expect(page.get_by_role("status")).to_have_text("Live", timeout=LIVE_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for(scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", (PROJECT / "services/analytics/static/sales.css").read_text(), re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): #([0-9a-f]{6});", blocks[0 if scheme == "light" else 1]))
    pairs = [(text, ground) for text in ("ink", "quiet", "accent", "warning") for ground in ("card", "ground")]
    for text, ground in [*pairs, ("ink", "accent-soft")]:
        lighter, darker = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, f"{scheme}: {text} on {ground}"


def luminance(colour: str) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-relative-luminance"""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def history(engine: Engine) -> None:
    now = datetime.now(UTC)
    for n in range(30):
        tea = {"sku": f"tea-{n % 6}", "name": f"Tea no. {n % 6 + 1}"}
        sell(engine, at=now - timedelta(days=n), cents=900, orders=n % 5 + 1, **tea)
        sell(engine, at=now - timedelta(minutes=2 * n), sku="mug", name="Stoneware mug", cents=1850, orders=n % 7 + 1)
    sell(engine, at=now, currency="JPY", cents=900)


def ink(page: Page, chart: str) -> str:
    return str(page.evaluate(f"document.querySelector('#{chart} canvas').toDataURL()"))
