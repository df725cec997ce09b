"""What a customer does in a browser."""

from playwright.sync_api import Page, expect


def fill_cart(page: Page, url: str) -> None:
    page.goto(url)
    for sku in ("teapot", "assam", "assam"):
        page.click(f"#{sku} button")
    expect(page.locator(".count")).to_have_text("3")


def check_out(page: Page, url: str) -> None:
    page.goto(f"{url}/cart")
    page.fill("#name", "Ada Lovelace")
    page.fill("#email", "ada@example.org")
    page.fill("#address", "12 St James’s Square\nLondon")
    page.click("text=Go to your order")
