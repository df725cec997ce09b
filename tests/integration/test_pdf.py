"""The invoice as a document: the same bytes every time, readable in any script, and blind to the outside."""

import hashlib
import io
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from pypdf import PdfReader

from infra.native.stack import PROJECT
from services.billing.invoice import Customer, Line
from services.billing.pdf import BASE, OutsideTheTemplates, Renderer, TemplateFiles
from tests.support.invoices import invoice, many_lines


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer()


def pages(content: bytes) -> list[str]:
    return [page.extract_text() for page in PdfReader(io.BytesIO(content)).pages]


def test_the_same_invoice_gives_the_same_bytes_here_and_in_another_process(renderer: Renderer) -> None:
    wanted = invoice(many_lines(30))
    first = renderer.pdf(wanted)
    renderer.pdf(invoice())  # what was rendered in between leaves no trace
    assert renderer.pdf(wanted) == first
    elsewhere = (
        "import hashlib; from services.billing.pdf import Renderer; from tests.support.invoices import *; "
        "print(hashlib.sha256(Renderer().pdf(invoice(many_lines(30)))).hexdigest())"
    )
    environment = {"PYTHONPATH": str(PROJECT), "PYTHONHASHSEED": "7", "LANG": "C", "TZ": "Asia/Tokyo", "HOME": "/"}
    other = subprocess.run(
        [sys.executable, "-c", elsewhere], cwd="/", env=environment, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == hashlib.sha256(first).hexdigest()


def test_an_invoice_shows_its_lines_and_totals_that_add_up(renderer: Renderer) -> None:
    wanted = invoice(
        [Line("tea", "Tea", 3, 1250, 700), Line("mug", "Mug", 1, 999, 1900), Line("map", "Map", 2, 333, 0)]
    )
    (page,) = pages(renderer.pdf(wanted))
    for text in (
        "S0-000123",
        "2026-11-18",
        "Ada Lovelace",
        "ada@example.org",
        "37.50",
        "9.99",
        "6.66",
        "54.15",
        "58.68",
    ):
        assert text in page, page
    assert wanted.net == 5415
    assert (wanted.tax, wanted.gross) == (263 + 190, 5868)
    assert "Page 1 of 1" in page


def test_a_long_invoice_has_several_pages_each_with_the_heads_of_its_columns(renderer: Renderer) -> None:
    found = pages(renderer.pdf(invoice(many_lines(60))))
    assert len(found) >= 2
    for number, page in enumerate(found, 1):
        assert f"Page {number} of {len(found)}" in page
    for page in found[:-1]:
        assert "Unit price" in page
    text = "".join(found)
    assert all(f"sku-{n:03}" in text for n in range(1, 61))


def test_yen_have_no_decimals(renderer: Renderer) -> None:
    (page,) = pages(renderer.pdf(invoice([Line("tea", "Tea", 3, 1250, 1000)], currency="JPY")))
    assert "4,125" in page
    assert "Total JPY" in page


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("ja", "山田太郎"), ("ko", "홍길동"), ("zh-cn", "李小龙"), ("ar", "محمد"), ("he", "שלום"), ("el", "Ελένη"),
        ("ru", "Владимир"), ("hi", "नमस्ते"), ("th", "สมชาย"), ("vi", "Nguyễn Ánh"), ("pl", "Łukasz Żółw"),
    ],
)  # fmt: skip
def test_a_name_in_any_script_is_printed_with_a_font_that_has_it(renderer: Renderer, language: str, name: str) -> None:
    if not subprocess.run(["fc-list", f":lang={language}"], capture_output=True).stdout:
        pytest.skip(f"this machine has no font for {language}; .ci/run installs them")
    content = renderer.pdf(invoice([Line("x", name, 1, 1, 0)], Customer(name, "a@example.org", [name])))
    reader = PdfReader(io.BytesIO(content))
    glyphs = "".join(reader.pages[0].extract_text().split())
    letters = {letter for letter in name if letter.isalpha()}
    assert len(letters & set(glyphs)) >= len(letters) / 2, "ligatures aside, the letters are there"


ATTACKS = [
    '<img src="{url}">', '<link rel="stylesheet" href="{url}">', "<style>@import url({url});</style>",
    "<style>body{{background:url({url})}}</style>", '<object data="{url}"></object>',
    '<svg><image href="{url}"/></svg>',
    '<a rel="attachment" href="{url}">x</a>', '<base href="{url}">', "</p></td></table><iframe src='{url}'></iframe>",
    '"><script src="{url}"></script>', "{{{{ 7 * 7 }}}}{url}", 'x" style="background:url({url})" y="',
]  # fmt: skip


class Trap(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        Trap.asked.append(self.path)
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def trap() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Trap) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("attack", ATTACKS)
def test_markup_in_any_field_is_printed_as_it_is_and_nothing_is_read_or_fetched(
    renderer: Renderer, trap: HTTPServer, attack: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "passwd.svg"
    secret.write_text('<svg xmlns="http://www.w3.org/2000/svg"><text>root:x:0:0</text></svg>')
    for url in (f"http://127.0.0.1:{trap.server_port}/x.svg", secret.as_uri(), "file:///etc/passwd"):
        text = attack.format(url=url)
        customer = Customer(text, text, [text] * 6)
        with caplog.at_level(logging.DEBUG, "weasyprint"):
            content = renderer.pdf(invoice([Line(text, text, 1, 100, 0)], customer))
        printed = "".join("".join(pages(content)).split())
        assert "".join(text.split()) in printed
        assert "root:x:0:0" not in printed
    assert Trap.asked == []
    assert "Failed to load" not in caplog.text, "nothing was even asked for"


def test_the_fetcher_refuses_everything_but_the_files_of_the_template(tmp_path: Path) -> None:
    """The second wall, should an attribute ever slip through the first."""
    fetcher, elsewhere = TemplateFiles(), (tmp_path / "logo.svg").as_uri()
    assert fetcher.fetch(f"{BASE}logo.svg").read().startswith(b"<svg")
    for url in ("file:///etc/passwd", "http://127.0.0.1/", "data:text/plain,x", f"{BASE}../pdf.py", elsewhere):
        with pytest.raises(OutsideTheTemplates):
            fetcher.fetch(url)
