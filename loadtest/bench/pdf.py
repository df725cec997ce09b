"""How fast invoices are rendered: against plain WeasyPrint per core, and by one to four worker processes.

per core   our renderer against `HTML(string=…).write_pdf()` of the same invoice and the same style, in processor time,
           so that what else the machine does counts little
workers    invoices per second by the clock: needs as many idle cores as workers
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from uuid import UUID

from weasyprint import HTML

from loadtest.bench.figures import Figure, Series, in_turn, ratio
from loadtest.bench.servers import Bench
from services.billing import amounts
from services.billing.invoice import Customer, Invoice, Line
from services.billing.pdf import BASE, TEMPLATES, Renderer

LINES = 3
WORKERS = (1, 2, 3, 4)


def measure(bench: Bench) -> list[Figure]:
    return [per_core(bench), *workers(bench)]


def per_core(bench: Bench) -> Figure:
    bench.say("pdf: our renderer against plain WeasyPrint, per second of one core")
    renderer, wanted = Renderer(), invoice(LINES)
    style = f"<style>{(TEMPLATES / 'invoice.css').read_text()}</style>"
    source = renderer.html(wanted).replace("<body>", f"{style}<body>", 1)
    ways: dict[str, Callable[[], float]] = {
        "our renderer": lambda: _per_core_second(lambda: renderer.pdf(wanted)),
        "plain write_pdf()": lambda: _per_core_second(lambda: HTML(string=source, base_url=BASE).write_pdf()),
    }
    for warm_up in ways.values():
        warm_up()
    rates = in_turn(ways, rounds=2 * bench.rounds, unit="per core second", say=bench.say)
    return ratio("pdf", "our renderer against plain write_pdf()", *rates.values(), at_least=1.8)


def _per_core_second(render: Callable[[], object], times: int = 20) -> float:
    started = time.process_time()
    for _ in range(times):
        render()
    return times / (time.process_time() - started)


def workers(bench: Bench) -> Iterator[Figure]:
    """One to four processes, in turn. More than there are cores shows that these are the limit."""
    invoices = 60 if bench.quick else 200
    bench.say(f"pdf: {invoices} invoices by {WORKERS[0]} to {WORKERS[-1]} workers")
    ways: dict[str, Callable[[], float]] = {
        f"{number} worker(s)": lambda number=number: _rendered(number, invoices)  # type: ignore[misc]
        for number in WORKERS
    }
    rates = in_turn(ways, rounds=bench.rounds, unit="/s", say=bench.say)
    one, two, *_ = rates.values()
    yield ratio("pdf", "two workers against one", two, one, at_least=1.7)
    for number, rate in zip(WORKERS, rates.values(), strict=True):
        yield Figure("workers", f"{number}", Series("rate", "/s", rate.runs))


def _rendered(processes: int, invoices: int) -> float:
    with multiprocessing.get_context("spawn").Pool(processes, initializer=_prepare) as pool:
        pool.map(_render, range(4 * processes), chunksize=1)  # all have started
        started = time.perf_counter()
        pool.map(_render, range(invoices), chunksize=5)
        return invoices / (time.perf_counter() - started)


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


def _prepare() -> None:
    global _renderer, _invoice
    _renderer, _invoice = Renderer(), invoice(LINES)


def _render(_number: int) -> int:
    return len(_renderer.pdf(_invoice))
