"""After the last order: wait until the shop has settled, audit, and write the report.

does    waits in two stages: for the pipeline (seconds), then for PDFs and mails (their queue may be long)
reads   the record of the run; as auditor, everything that the audit reads
writes  .run/reports/load-*.html
next    report.py
"""

import sys
import time
from pathlib import Path
from uuid import UUID

import psycopg
from rich.console import Console

from loadtest.load import report
from loadtest.load import run as runs
from loadtest.load.outcome import Outcome, figures
from loadtest.load.run import Run, Sample
from services.control_room.audit import audit, settling, table
from services.control_room.audit.settling import InFlight
from services.control_room.settings import PlacesSettings
from shared.runtime.settings import load

SAY_EVERY_S = 10.0
SAMPLE_EVERY_S = 1.0
console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)

# Both ends are the beginnings of transactions: the event's id is made in that of the confirmation, issued_at is the
# start of Billing's. How long until a customer can read the invoice, the shoppers measure.
LATENCIES = """
SELECT percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM issued_at - confirmed_at)),
       percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY extract(epoch FROM sent_at - confirmed_at))
  FROM (SELECT uuid_extract_timestamp(event_id) AS confirmed_at, issued_at, sent_at FROM invoices
         WHERE event_id >= %s AND event_id < %s) AS of_this_run
"""


def main() -> int:
    run, places, outcome = runs.read(Path(sys.argv[1])), load(PlacesSettings), Outcome()
    try:
        settled = _settle(run, places, outcome)
        outcome.invoiced_s, outcome.mailed_s = _latencies(run, places)
        outcome.verdicts = audit.run(places) if settled else None
    except audit.AWAY as error:
        console.print(f"The audit needs everything that it reads, and something is away: {error}")
    page = Path(sys.argv[1]).with_suffix(".html")
    page.write_text(report.page(run, outcome))
    _tell(run, outcome)
    console.print(f"The report: {page}")
    if outcome.verdicts is None or not run.bought:
        return 2
    return 0 if outcome.verdicts.hold and not run.failures else 1


def _settle(run: Run, places: PlacesSettings, outcome: Outcome) -> bool:
    said = sampled = 0.0

    def look(now: InFlight) -> None:
        nonlocal said, sampled
        since_s = time.time() - run.ended
        if outcome.caught_up_s is None:
            outcome.queue = now.not_mailed
            if not (now.unpublished or now.not_invoiced or now.not_counted):
                outcome.caught_up_s = since_s
        if time.monotonic() - sampled > SAMPLE_EVERY_S:
            run.samples.append(_sample(run, places))
            sampled = time.monotonic()
        if now.total and time.monotonic() - said > SAY_EVERY_S:
            console.print(f"{since_s:5.0f} s after the last order, in flight: {now}{_left(now, outcome, since_s)}")
            said = time.monotonic()

    settled = settling.settle(places, run.drain_s, look)
    if settled:
        outcome.drained_s = time.time() - run.ended
    else:
        console.print(f"Not settled after {run.drain_s:.0f} s, so no verdict: DRAIN= for longer, or make audit")
    return settled


def _left(now: InFlight, outcome: Outcome, since_s: float) -> str:
    done = outcome.queue - now.not_mailed
    return f" ({now.not_mailed * since_s / done:.0f} s to go)" if done > 0 and since_s > 5 else ""


def _sample(run: Run, places: PlacesSettings) -> Sample:
    now = settling.counts(places)
    flight = now.in_flight
    behind = flight.unpublished + max(settling.unread(places).values())  # as the control room counts it: load/run.py
    return Sample(
        run.now_s, now.confirmed, now.invoiced, now.invoiced - now.unsent, now.counted, now.unpublished, behind,
        now.unsent, run.samples[-1].duplicates if run.samples else 0,
    )  # fmt: skip


def _latencies(run: Run, places: PlacesSettings) -> list[tuple[float, float] | None]:
    with psycopg.connect(places.billing_database_url, autocommit=True) as database:
        row = database.execute(LATENCIES, (_first_id(run.started), _first_id(run.ended))).fetchone()
    return [(float(both[0]), float(both[1])) if both and both[0] is not None else None for both in row or (None, None)]


def _first_id(moment: float) -> UUID:
    """UUIDv7 begins with the milliseconds of its making."""
    return UUID(int=int(moment * 1000) << 80)


def _tell(run: Run, outcome: Outcome) -> None:
    if outcome.verdicts:
        table.show(console, outcome.verdicts, settled=True)
    for name, figure in figures(run, outcome).items():
        console.print(f"{name:<44} {figure}")
    for step in run.steps:
        console.print(f"  {step.rate:4.0f}/s  p99 {step.p99_s * 1000:4.0f} ms  {step.why_not or 'holds'}")
    for what, count in list(run.failures.items())[:5]:
        console.print(f"[red]{count} × {what}[/]", markup=True)


if __name__ == "__main__":
    sys.exit(main())
