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
from loadtest.load.outcome import Outcome, figures, missed, percentiles
from loadtest.load.run import Run, Sample
from services.control_room.audit import audit, settling, table
from services.control_room.audit.settling import InFlight
from services.control_room.settings import PlacesSettings
from shared.runtime.settings import load

SAY_EVERY_S = 10.0
SAMPLE_EVERY_S = 1.0
console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)

# From commit to commit, by the clock of the server that holds both databases. A row that nobody has changed since tells
# its transaction: the order's is the confirmation; the invoice's own row changes with its mail, its inbox row does not.
CONFIRMED = """
SELECT event_id, extract(epoch FROM pg_xact_commit_timestamp(o.xmin))::float
  FROM outbox JOIN orders AS o ON o.id = key::uuid
 WHERE topic = 'orders.confirmed' AND event_id >= %s AND event_id < %s
"""
INVOICED = """
SELECT event_id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float FROM inbox
 WHERE consumer = 'billing' AND outcome = 'applied' AND deliveries = 1 AND event_id >= %s AND event_id < %s
"""
MAILED = """
SELECT event_id, extract(epoch FROM sent_at)::float FROM invoices
 WHERE sent_at IS NOT NULL AND event_id >= %s AND event_id < %s
"""
Moments = dict[UUID, float]


def main() -> int:
    run, places, outcome = runs.read(Path(sys.argv[1])), load(PlacesSettings), Outcome()
    try:
        settled = _settle(run, places, outcome)
        _measure(run, places, outcome)
        outcome.verdicts = audit.run(places) if settled else None
    except audit.AWAY as error:
        console.print(f"The audit needs everything that it reads, and something is away: {error}")
    page = Path(sys.argv[1]).with_suffix(".html")
    page.write_text(report.page(run, outcome))
    _tell(run, outcome)
    console.print(f"The report: {page}")
    if outcome.verdicts is None or not run.bought:
        return 2
    failed = run.failures if run.shape != "limit" else {}  # which drives until something gives way
    return 0 if outcome.verdicts.hold and not failed and not missed(run, outcome) else 1


def _settle(run: Run, places: PlacesSettings, outcome: Outcome) -> bool:
    said = sampled = 0.0

    def look(now: InFlight) -> None:
        nonlocal said, sampled
        since_s = time.time() - run.ended
        if time.monotonic() - sampled > SAMPLE_EVERY_S:
            run.samples.append(_sample(run, places))
            sampled = time.monotonic()
            if outcome.caught_up_s is None:
                outcome.queue, outcome.caught_up_s = now.not_mailed, None if run.lag else since_s
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


def _measure(run: Run, places: PlacesSettings, outcome: Outcome) -> None:
    try:
        confirmed = _moments(run, places.orders_database_url, CONFIRMED)
        invoiced = _moments(run, places.billing_database_url, INVOICED)
    except psycopg.errors.ObjectNotInPrerequisiteState as error:
        console.print(f"From commit to commit nothing is measured: {error.diag.message_primary}. make up turns it on")
        return
    mailed = _moments(run, places.billing_database_url, MAILED)
    outcome.invoiced_s, outcome.mailed_s = _percentiles(confirmed, invoiced), _percentiles(confirmed, mailed)
    if run.half_since_s is not None:
        at_half = _first_id(run.started + run.half_since_s)
        since = {event_id: at for event_id, at in confirmed.items() if event_id >= at_half}
        outcome.invoiced_at_half_s = _percentiles(since, invoiced)


def _moments(run: Run, url: str, query: str) -> Moments:
    """Without those whose moment the server has forgotten."""
    with psycopg.connect(url, autocommit=True) as database:
        found = database.execute(query.encode(), (_first_id(run.started), _first_id(run.ended))).fetchall()
    return {event_id: at for event_id, at in found if at is not None}


def _percentiles(begun: Moments, done: Moments) -> tuple[float, float] | None:
    return percentiles([done[event_id] - at for event_id, at in begun.items() if event_id in done])


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
