"""What became of a run, and the bars it is held against."""

from dataclasses import dataclass

from loadtest.load import run as runs
from loadtest.load.run import Run
from loadtest.shapes import P99_S
from services.control_room.audit.verdicts import Verdicts

PROMPT_S = 30.0
"""So soon after the last order the pipeline must have caught up; PDFs and mails may take longer."""


@dataclass
class Outcome:
    """What became of the run."""

    caught_up_s: float | None = None
    """From the last order until everything was published, invoiced and counted."""
    queue: int = 0
    """Invoices without their mail when the last order came."""
    drained_s: float | None = None
    invoiced_s: tuple[float, float] | None = None
    mailed_s: tuple[float, float] | None = None
    verdicts: Verdicts | None = None


def figures(run: Run, outcome: Outcome) -> dict[str, str]:
    """What the terminal and the report say first; a bar that was missed is named as such."""
    orders, seconds = len(run.bought), [took for _, took in run.bought]
    p99_s = runs.percentile(seconds, 0.99)
    duplicates = run.samples[-1].duplicates - run.samples[0].duplicates if run.samples else 0
    told = {
        "orders": f"{orders:,} in {run.lasted_s:.0f} s, {orders / max(run.lasted_s, 1):.1f}/s",
        "failed requests": str(len(run.failed_at)),
        "place + confirm, p50 and p99": f"{_ms(runs.percentile(seconds, 0.5))}, {_ms(p99_s)}{_bar(p99_s, P99_S)}",
        "confirm → invoice begun, p50 and p99": _both(outcome.invoiced_s),
        "confirm → invoice read by customers": _both(
            (runs.percentile(run.read, 0.5), runs.percentile(run.read, 0.99)) if run.read else None
        ),
        "confirm → mailed, p50 and p99": _both(outcome.mailed_s),
        "asked again under the same key": f"{run.asked_again:,}",
        "duplicate deliveries": f"{duplicates:,}",
        "largest lag": f"{max((sample.lag for sample in run.samples), default=0):,} events",
        "lag back to 0 after the last order": _after(outcome.caught_up_s, PROMPT_S),
        "PDFs and mails to go at the last order": f"{outcome.queue:,}",
        "PDFs and mails all done": _after(outcome.drained_s, None),
    }
    if run.shape == "limit":
        told["highest rate that holds"] = _maximum(run)
    return told


def _maximum(run: Run) -> str:
    if run.maximum is None:
        return "unknown: no rate was seen to fail" if run.first_failed is None else "none held"
    return f"{run.maximum:.0f} orders/s ({run.first_failed:.0f} did not)"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def _both(seconds: tuple[float, float] | None) -> str:
    return ", ".join(map(_ms, seconds)) if seconds else "nothing measured"


def _after(seconds: float | None, bar_s: float | None) -> str:
    if seconds is None:
        return "not within the time given"
    return f"{seconds:.1f} s" + (_bar(seconds, bar_s) if bar_s else "")


def _bar(seconds: float, bar_s: float) -> str:
    return "" if seconds <= bar_s else f" (the bar is {bar_s:g} s: missed)"
