"""What became of a run, and the bars it is held against."""

from dataclasses import dataclass

from loadtest.load import run as runs
from loadtest.load.run import Run
from loadtest.shapes import P99_S
from services.control_room.audit.verdicts import Verdicts

PROMPT_S = 30.0
"""So soon after the last order the pipeline must have caught up; PDFs and mails may take longer."""
HALF_P50_S, HALF_P99_S = 0.025, 0.15
"""From the commit of an order to that of its invoice, at half of the highest rate that holds."""

P99, LAG = "place + confirm, p99", "lag back to 0 after the last order"
AT_HALF = "confirm → invoice committed, at half of that"


@dataclass
class Outcome:
    """What became of the run."""

    caught_up_s: float | None = None
    """From the last order until everything was published, and read by both consumers."""
    queue: int = 0
    """Invoices without their mail when the last order came."""
    drained_s: float | None = None
    invoiced_s: tuple[float, float] | None = None
    """p50 and p99 from the commit of the order to the commit of its invoice."""
    invoiced_at_half_s: tuple[float, float] | None = None
    mailed_s: tuple[float, float] | None = None
    verdicts: Verdicts | None = None


def missed(run: Run, outcome: Outcome) -> dict[str, float]:
    """The bars that were, each with its seconds. A search for the limit drives until something gives way, so only its
    last minute is held against anything."""
    bars: dict[str, tuple[float | None, float]] = {LAG: (outcome.caught_up_s, PROMPT_S)}
    if run.shape != "limit":
        bars[P99] = runs.percentile([took for _, took in run.bought], 0.99), P99_S
    elif run.half_since_s is None:
        return {}
    else:
        p50_s, p99_s = outcome.invoiced_at_half_s or (None, None)
        bars |= {f"{AT_HALF}, p50": (p50_s, HALF_P50_S), f"{AT_HALF}, p99": (p99_s, HALF_P99_S)}
    return {name: bar for name, (seconds, bar) in bars.items() if seconds is None or seconds > bar}


def figures(run: Run, outcome: Outcome) -> dict[str, str]:
    """What the terminal and the report say first; a bar that was missed is named as such."""
    orders, seconds, bars = len(run.bought), [took for _, took in run.bought], missed(run, outcome)

    def said(name: str) -> str:
        return f" (the bar is {bars[name]:g} s: missed)" if name in bars else ""

    duplicates = run.samples[-1].duplicates - run.samples[0].duplicates if run.samples else 0
    told = {
        "orders": f"{orders:,} in {run.lasted_s:.0f} s, {orders / max(run.lasted_s, 1):.1f}/s",
        "failed requests": str(len(run.failed_at)),
        "place + confirm, p50 and p99": _both(percentiles(seconds)) + said(P99),
        "confirm → invoice committed, p50 and p99": _both(outcome.invoiced_s),
        "confirm → invoice read by customers": _both(percentiles(run.read)),
        "confirm → mailed, p50 and p99": _both(outcome.mailed_s),
        "asked again under the same key": f"{run.asked_again:,}",
        "duplicate deliveries": f"{duplicates:,}",
        "largest lag": f"{max((sample.lag for sample in run.samples), default=0):,} events",
        LAG: _after(outcome.caught_up_s) + said(LAG),
        "PDFs and mails to go at the last order": f"{outcome.queue:,}",
        "PDFs and mails all done": _after(outcome.drained_s),
    }
    if run.shape == "limit":
        told["highest rate that holds"] = _maximum(run)
    if run.half_since_s is not None:
        told[f"{AT_HALF}, p50 and p99"] = _both(outcome.invoiced_at_half_s) + "".join(
            said(f"{AT_HALF}, {share}") for share in ("p50", "p99")
        )
    return told


def percentiles(seconds: list[float]) -> tuple[float, float] | None:
    return (runs.percentile(seconds, 0.5), runs.percentile(seconds, 0.99)) if seconds else None


def _maximum(run: Run) -> str:
    if run.maximum is None:
        return "unknown: no rate was seen to fail" if run.first_failed is None else "none held"
    return f"{run.maximum:.0f} orders/s ({run.first_failed:.0f} did not)"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def _both(seconds: tuple[float, float] | None) -> str:
    return ", ".join(map(_ms, seconds)) if seconds else "nothing measured"


def _after(seconds: float | None) -> str:
    return "not within the time given" if seconds is None else f"{seconds:.1f} s"
