"""The control room in a real browser, with a whole shop behind it: see it travel, break it, see it mended."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from infra.native.stack import PROJECT
from tests.browser.conftest import VIEWS
from tests.browser.conftest import screenshot as photograph
from tests.browser.test_sales_page import luminance
from tests.support.control_room import Room, running_room
from tests.support.wait import until

pytestmark = pytest.mark.timeout(420)
SEEN_MS = 180_000
"""For things that take a second: the machine may be busy."""


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with running_room() as room:
        room.order(5)
        yield room


@pytest.fixture
def watched(page: Page, room: Room) -> Page:
    """The page, opened with the printed link."""
    page.goto(room.link)
    expect(page.locator("#live")).to_have_text("Live", timeout=SEEN_MS)
    assert room.token not in page.url
    if room.sample()["naive"]:
        page.locator("#both").uncheck(timeout=SEEN_MS)
    return page


def screenshot(page: Page, name: str) -> None:
    """From the top: further down the ledger goes along with the reader."""
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    photograph(page, name)


def count(page: Page, name: str) -> int:
    return int(figure(page, name).inner_text().replace(",", ""))


def figure(page: Page, name: str) -> Locator:
    return page.locator(f'[data-count="{name}"] dd')


def settled(page: Page) -> None:
    expect(page.locator("#ledger")).to_have_attribute("data-verdict", "equal", timeout=SEEN_MS)


def grows_to(page: Page, name: str, value: int) -> None:
    expect(figure(page, name)).to_have_text(f"{value:,}", timeout=SEEN_MS)


def outcome(page: Page, experiment: str) -> Locator:
    return page.locator(f'[data-experiment="{experiment}"] .outcome')


def test_a_placed_order_is_seen_to_travel(watched: Page) -> None:
    settled(watched)
    before = {name: count(watched, name) for name in ("orders", "invoices", "pdfs", "mails", "counted")}
    newest = watched.locator("#newest li").first.get_attribute("data-order")
    watched.get_by_role("button", name="Place 1", exact=True).click()
    arrived = watched.locator(f'#newest li:first-child:not([data-order="{newest}"])')
    expect(arrived).to_be_visible(timeout=SEEN_MS)
    for name, value in before.items():
        grows_to(watched, name, value + 1)
    for edge in ("shop-orders", "orders-relay", "relay-kafka", "kafka-billing", "billing-worker", "worker-mail",
                 "kafka-analytics", "analytics-sales"):  # fmt: skip
        expect(watched.locator(f'[data-edge="{edge}"]')).not_to_have_attribute("data-carried", "0")
    expect(arrived).to_have_attribute("data-reached", "6", timeout=SEEN_MS)
    expect(outcome(watched, "orders")).to_contain_text("As promised", timeout=SEEN_MS)
    settled(watched)


def test_events_are_dots_that_move_along_the_track(watched: Page) -> None:
    watched.evaluate("""() => {
        window.dots = new Set();
        new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach((node) => {
            if (node.tagName !== "circle") return;
            const from = node.getAttribute("cx");
            setTimeout(() => node.getAttribute("cx") !== from && window.dots.add(node.classList.contains("copy")), 200);
        }))).observe(document.getElementById("tracks"), { childList: true });
    }""")
    watched.locator('[data-run="orders"][data-value="10"]').click()
    watched.locator('[data-run="duplicate"]').click()
    until(lambda: watched.evaluate("window.dots.size") == 2, "events and copies have moved", seconds=60)
    settled(watched)


def test_publishing_an_event_100_times_adds_100_deliveries_and_no_invoice(watched: Page) -> None:
    settled(watched)
    delivered, suppressed, invoices = (count(watched, name) for name in ("delivered", "duplicates", "invoices"))
    watched.get_by_role("button", name="Publish the newest order’s event").click()
    grows_to(watched, "delivered", delivered + 100)
    grows_to(watched, "duplicates", suppressed + 100)
    expect(outcome(watched, "duplicate")).to_contain_text("As promised", timeout=SEEN_MS)
    expect(outcome(watched, "duplicate")).to_contain_text("deliveries +100")
    settled(watched)
    assert count(watched, "invoices") == invoices
    screenshot(watched, "control-room-100-times")


def test_a_killed_consumer_turns_red_its_work_waits_it_comes_back_and_the_ledger_is_equal(
    watched: Page, room: Room
) -> None:
    settled(watched)
    station = watched.locator("#at-billing")
    expect(station).to_have_attribute("data-state", "up", timeout=SEEN_MS)
    watched.get_by_label("process").select_option("billing-consumer")
    watched.evaluate("""() => {
        window.lag = 0;
        const fact = document.querySelector('[data-facts="billing"] dd');
        new MutationObserver(() => { window.lag = Math.max(window.lag, Number(fact.textContent.replace(",", ""))); })
            .observe(fact, { childList: true, characterData: true, subtree: true });
    }""")
    room.post("/v1/orders", count=30)
    watched.locator('[data-run="kill"]').click()
    expect(station).to_have_attribute("data-state", "down", timeout=SEEN_MS)
    assert luminance_is_of(watched, station.locator(".stop"), "--broken")
    screenshot(watched, "control-room-killed")
    until(lambda: watched.evaluate("window.lag") > 0, "the lag has grown", seconds=60)
    expect(station).to_have_attribute("data-state", "up", timeout=SEEN_MS)
    expect(outcome(watched, "kill")).to_contain_text("As promised", timeout=SEEN_MS)
    settled(watched)
    assert count(watched, "orders") == count(watched, "invoices") == count(watched, "counted")
    expect(watched.locator("#journal")).to_contain_text("kill -9 billing-consumer")


def luminance_is_of(page: Page, element: Locator, variable: str) -> bool:
    probe = (
        "name => { const e = document.createElement('i'); e.style.color = `var(${name})`; document.body.append(e);"
        "const c = getComputedStyle(e).color; e.remove(); return c; }"
    )
    return bool(element.evaluate("e => getComputedStyle(e).backgroundColor") == page.evaluate(probe, variable))


def test_a_poison_event_is_listed_repaired_and_redriven_and_another_discarded(watched: Page, room: Room) -> None:
    settled(watched)
    invoices = count(watched, "invoices")
    known = {letter["id"] for letter in room.get("/v1/letters")["letters"] if letter["consumer"] == "billing"}
    watched.get_by_label("kind of poison").select_option("invalid")
    watched.locator('[data-run="poison"]').click()
    expect(outcome(watched, "poison")).to_contain_text("As promised", timeout=SEEN_MS)
    letter = newest_letter(watched, room, known)
    letter.locator("summary").click()
    expect(letter.locator("pre")).to_contain_text('"total": -1')
    letter.get_by_role("button", name="Repair").click()
    expect(letter.get_by_role("status")).to_contain_text("Repaired")
    screenshot(watched, "control-room-repaired")
    letter.get_by_role("button", name="Redrive").click()
    expect(letter).to_be_hidden(timeout=SEEN_MS)
    watched.get_by_label("kind of poison").select_option("undecodable")
    watched.locator('[data-run="poison"]').click()
    letter = newest_letter(watched, room, known)
    letter.locator("summary").click()
    letter.get_by_role("button", name="Discard").click()
    expect(letter).to_be_hidden(timeout=SEEN_MS)
    settled(watched)
    assert count(watched, "invoices") == invoices


def newest_letter(page: Page, room: Room, known: set[int]) -> Locator:
    def fresh() -> set[int]:
        found = {each["id"] for each in room.get("/v1/letters")["letters"] if each["consumer"] == "billing"}
        return found - known

    until(fresh, "a new letter", seconds=60)
    (number,) = fresh()
    known.add(number)
    letter = page.locator(f'[data-letter="billing-{number}"]')
    expect(letter).to_be_visible(timeout=SEEN_MS)
    return letter


def test_one_orders_life_is_a_timeline_with_its_pdf_and_its_mail(watched: Page) -> None:
    settled(watched)
    watched.locator("#newest button").first.click()
    life = watched.locator("#life")
    for where in ("orders outbox", "billing inbox", "analytics inbox", "mailbox"):
        expect(life).to_contain_text(where)
    pdf = watched.context.request.get(life.get_by_role("link", name="The PDF").get_attribute("href") or "")
    assert pdf.body().startswith(b"%PDF-")
    mail = watched.context.request.get(life.get_by_role("link", name="The mail").get_attribute("href") or "")
    assert "Message-ID: <order-" in mail.text()
    screenshot(watched, "control-room-life")


def test_a_failpoint_fires_and_the_ledger_is_equal_again(watched: Page) -> None:
    watched.get_by_label("failpoint").select_option("analytics.consumer.after_commit")
    watched.locator('[data-run="failpoint"]').click()
    expect(outcome(watched, "failpoint")).to_contain_text("As promised", timeout=SEEN_MS)
    expect(outcome(watched, "failpoint")).to_contain_text("fired")


@pytest.mark.campaign
def test_the_naive_shop_drifts_under_the_faults_that_leave_the_real_one_equal(watched: Page) -> None:
    naive = watched.locator("#naive")
    watched.locator("#both").check(timeout=SEEN_MS)
    settled(watched)
    invoices = count(watched, "invoices")
    watched.get_by_role("button", name="Place 10", exact=True).click()
    grows_to(watched, "invoices", invoices + 10)
    expect(naive.locator('[data-naive="invoices"] dd')).not_to_have_text("0", timeout=SEEN_MS)
    watched.locator('[data-run="duplicate"]').click()
    expect(naive).to_have_attribute("data-verdict", "differs", timeout=SEEN_MS)
    expect(watched.locator("#naive-verdict")).to_contain_text("too many")
    settled(watched)
    assert count(watched, "invoices") == invoices + 10
    screenshot(watched, "control-room-two-ledgers")


def test_the_page_without_a_token_shows_everything_and_offers_no_fault(page: Page, room: Room) -> None:
    page.goto(room.url)
    expect(page.locator("#live")).to_have_text("Live", timeout=SEEN_MS)
    expect(figure(page, "orders")).not_to_have_text("–")
    expect(page.locator("#break")).to_contain_text("Read-only")
    assert page.locator("button, input, select, textarea").count() == 0
    screenshot(page, "control-room-read-only")


@pytest.mark.parametrize("view", ["desktop", "dark", "phone", "projector"])
def test_it_fits_every_screen_and_stands_still_for_who_wants_no_motion(browser: Browser, room: Room, view: str) -> None:
    size = VIEWS.get(view, {"viewport": {"width": 1920, "height": 1080}})
    context = browser.new_context(**size, reduced_motion="reduce")  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(room.link)
    expect(page.locator("#chart-latency canvas")).to_be_visible(timeout=SEEN_MS)
    page.locator('[data-run="orders"][data-value="1"]').click()
    expect(outcome(page, "orders")).to_contain_text("As promised", timeout=SEEN_MS)
    assert page.viewport_size is not None
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"], "nothing sticks out"
    assert page.evaluate("document.getAnimations().length") == 0
    assert page.locator("#tracks circle").count() == 0
    screenshot(page, f"control-room-{view}")
    context.close()


def test_everything_can_be_reached_with_the_keyboard(watched: Page) -> None:
    expect(watched.locator('[data-run="failpoint"]')).to_be_visible(timeout=SEEN_MS)
    reached = set()
    for _ in range(60):
        watched.keyboard.press("Tab")
        reached.add(watched.evaluate("document.activeElement.dataset.run ?? document.activeElement.tagName"))
    assert {
        "orders",
        "duplicate",
        "replay",
        "poison",
        "tamper",
        "late",
        "kill",
        "failpoint",
        "SELECT",
        "INPUT",
    } <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for(scheme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", (PROJECT / "services/control_room/static/room.css").read_text(), re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): #([0-9a-f]{6});", blocks[0 if scheme == "light" else 1]))
    pairs = [(text, ground) for text in ("ink", "quiet", "accent", "broken") for ground in ("card", "ground")]
    for text, ground in [*pairs, ("on-accent", "accent"), ("ink", "accent-soft")]:
        lighter, darker = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, f"{scheme}: {text} on {ground}"
