"""How fast invoices are rendered: `python -m loadtest.bench.pdf`.

per core   our renderer against plain `HTML(string=…).write_pdf()` of the same invoice and the same style, in turns, in
           processor time, so that what else the machine does counts little
workers    invoices per second of two processes against one, by the clock; needs two idle cores
"""

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from weasyprint import HTML

from services.billing import amounts
from services.billing.invoice import Customer, Invoice, Line
from services.billing.pdf import BASE, TEMPLATES, Renderer


@dataclass(frozen=True)
class PerCore:
    plain_ms: float
    ours_ms: float

    @property
    def ratio(self) -> float:
        return self.plain_ms / self.ours_ms


@dataclass(frozen=True)
class Workers:
    one_per_s: float
    two_per_s: float

    @property
    def ratio(self) -> float:
        return self.two_per_s / self.one_per_s


def per_core(*, rounds: int = 60, lines: int = 3) -> PerCore:
    renderer, wanted = Renderer(), invoice(lines)
    style = f"<style>{(TEMPLATES / 'invoice.css').read_text()}</style>"
    source = renderer.html(wanted).replace("<body>", f"{style}<body>", 1)

    def plain() -> None:
        HTML(string=source, base_url=BASE).write_pdf()

    def ours() -> None:
        renderer.pdf(wanted)

    took: dict[Callable[[], None], list[float]] = {plain: [], ours: []}
    for _ in range(rounds):
        for render, times in took.items():
            started = time.process_time()
            render()
            times.append(time.process_time() - started)
    return PerCore(statistics.median(took[plain]) * 1000, statistics.median(took[ours]) * 1000)


def workers(*, invoices: int = 200, lines: int = 3) -> Workers:
    rates = []
    for processes in (1, 2):
        with multiprocessing.get_context("spawn").Pool(processes, initializer=_prepare, initargs=(lines,)) as pool:
            pool.map(_render, range(4 * processes), chunksize=1)  # all have started
            started = time.perf_counter()
            pool.map(_render, range(invoices), chunksize=5)
            rates.append(invoices / (time.perf_counter() - started))
    return Workers(*rates)


def invoice(lines: int) -> Invoice:
    bought = [
        Line(f"tea-{n:03}", f"Tea number {n}, 250 g", n, 1250 + n, 1900 if n % 2 else 700) for n in range(1, lines + 1)
    ]
    net = sum(line.net for line in bought)
    tax = sum(amounts.tax(line.net, line.tax_basis_points) for line in bought)
    customer = Customer("Ada Lovelace", "ada@example.org", ["12 St James’s Square", "London SW1Y 4JH"])
    return Invoice(
        UUID(int=1), 0, 1, UUID(int=2), "order@shop.invalid", "EUR", customer, bought, net, tax, net + tax,
        datetime(2026, 11, 18, tzinfo=UTC),
    )  # fmt: skip


_renderer: Renderer
_invoice: Invoice


def _prepare(lines: int) -> None:
    global _renderer, _invoice
    _renderer, _invoice = Renderer(), invoice(lines)


def _render(_number: int) -> int:
    return len(_renderer.pdf(_invoice))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loadtest.bench.pdf", description=__doc__)
    parser.add_argument("--lines", type=int, default=3, help="lines on the invoice")
    arguments = parser.parse_args()
    core, two = per_core(lines=arguments.lines), workers(lines=arguments.lines)
    print(f"per core   {core.ratio:.2f} × plain write_pdf()   ({core.ours_ms:.1f} ms against {core.plain_ms:.1f} ms)")
    print(f"workers    {two.ratio:.2f} × with two             ({two.two_per_s:.1f}/s against {two.one_per_s:.1f}/s)")


if __name__ == "__main__":
    main()
