"""Invoice → PDF, by WeasyPrint, from templates/invoice.html. The same invoice gives the same bytes, in any process.

A document may contain whatever a customer typed, so it gets nothing from outside: the template escapes all text, and
the one fetcher refuses every address that is not a file of the template folder.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jinja2
from weasyprint import CSS, HTML
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import URLFetcher, URLFetcherResponse

from services.billing import amounts
from services.billing.invoice import Invoice

TEMPLATES = Path(__file__).parent / "templates"
BASE = f"{TEMPLATES.as_uri()}/"


class OutsideTheTemplates(Exception):
    """A document asked for something that is not ours."""


class TemplateFiles(URLFetcher):  # type: ignore[misc]  # WeasyPrint has no types
    """WeasyPrint's own fetcher opens any file and any address, and makes a TLS context for each document."""

    def __init__(self) -> None:
        self._files = {path.as_uri(): path.read_bytes() for path in TEMPLATES.glob("*.svg")}

    def fetch(self, url: str, headers: object = None) -> URLFetcherResponse:  # noqa: ARG002  WeasyPrint gives it
        if url not in self._files:
            raise OutsideTheTemplates(url)
        return URLFetcherResponse(url, self._files[url], {"Content-Type": "image/svg+xml"})


class Renderer:
    """Holds what is the same for all invoices: made once per process."""

    def __init__(self) -> None:
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        environment.filters["percent"] = amounts.percent
        self._template = environment.get_template("invoice.html")
        self._fetcher = TemplateFiles()
        self._fonts = FontConfiguration()
        self._images: dict[str, object] = {}
        self._style = CSS(TEMPLATES / "invoice.css", url_fetcher=self._fetcher, font_config=self._fonts)

    def html(self, invoice: Invoice) -> str:
        return self._template.render(invoice=invoice)

    def pdf(self, invoice: Invoice) -> bytes:
        with _collector_at_rest():
            document = HTML(string=self.html(invoice), base_url=BASE, url_fetcher=self._fetcher)
            content: bytes = document.write_pdf(stylesheets=[self._style], font_config=self._fonts, cache=self._images)
        return content


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """A layout is many small objects that all live to its end: looking for garbage among them finds none."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
