"""The page that stays: what the shop was asked, how the pipeline kept up, what the audit says. One file, no script."""

from collections import defaultdict
from datetime import UTC, datetime
from html import escape

from loadtest.chaos import campaign, plot
from loadtest.chaos import report as chaos
from loadtest.chaos.plot import Axis, Line, Points
from loadtest.chaos.shops import Progress
from loadtest.load import run as runs
from loadtest.load.outcome import Outcome, figures, missed
from loadtest.load.run import Asked, Run

BUCKET_S = 5
FIGURE_STYLE = "dl.facts{grid-template-columns:repeat(auto-fit,minmax(20rem,1fr))}dl.facts dd{font-size:1.1rem}"


def page(run: Run, outcome: Outcome) -> str:
    title = f"Load: {run.shape}, {run.rate:g} orders per second"
    started = datetime.fromtimestamp(run.started, UTC)
    facts = "".join(f"<div><dt>{name}<dd>{escape(said)}</div>" for name, said in figures(run, outcome).items())
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>{chaos.STYLE}{FIGURE_STYLE}</style>
<h1>{title}</h1>
<p>{started:%Y-%m-%d %H:%M} UTC · {run.shoppers} shoppers · the same again:
<code>make load HEADLESS=1 SHAPE={run.shape} RATE={run.rate:g} USERS={run.shoppers} MINUTES={run.minutes:g}</code></p>
{_verdict(run, outcome)}
<dl class="facts">{facts}</dl>
{_steps(run)}
{_plots(run)}
<h2>Locust’s figures</h2>
<div class="scroll"><table><tr><th>request<th class="n">count<th class="n">failed<th class="n">per s<th class="n">p50
<th class="n">p95<th class="n">p99<th class="n">longest, ms
{"".join(_asked(asked) for asked in run.asked)}</table></div>
<p>Lag and duplicates are counts, sampled once a second.</p>
{_failures(run)}
{_promises(outcome)}
</html>
"""


def _verdict(run: Run, outcome: Outcome) -> str:
    if outcome.verdicts is None:
        return '<p class="verdict bad">No verdict: the shop had not settled within the time given.</p>'
    bars = "; ".join(missed(run, outcome))
    late = f'<p class="verdict bad">Missed: {escape(bars)}</p>' if bars else ""
    return chaos.summary(outcome.verdicts, settled=True) + late


def _steps(run: Run) -> str:
    if not run.steps:
        return ""
    rows = "".join(
        f'<tr><td class="n">{step.rate:.0f}<td class="n">{step.orders_per_s:.1f}<td class="n">{step.p99_s * 1000:.0f}'
        f'<td class="n">{step.lag}<td>{escape(step.why_not) if step.why_not else "holds"}\n'
        for step in run.steps
    )
    return f"""<h2>The rates that were tried</h2>
<div class="scroll"><table><tr><th class="n">wanted/s<th class="n">orders/s<th class="n">p99, ms<th class="n">lag<th>
{rows}</table></div>"""


def _plots(run: Run) -> str:
    axis, ends_s = Axis(max([1.0, run.lasted_s, *(s.at_s for s in run.samples)])), run.lasted_s
    known = [
        campaign.Sample(s.at_s, Progress(s.orders, s.invoices, s.mails, s.counted, s.lag + s.queue))
        for s in run.samples
    ]
    rates = [Line(name, chaos.rate_of(known, of)) for name, of in chaos.RATES]
    waits = [Line("p50", _over_time(run, 0.5)), Line("p99", _over_time(run, 0.99))]
    lag = [Line("lag", [(s.at_s, float(s.lag)) for s in run.samples])]
    queue = [Line("queue", [(s.at_s, float(s.queue)) for s in run.samples])]
    return f"""<h2>Per second</h2>{chaos.legend(rates)}{plot.lines(axis, 220, rates, "per second", load_ends_s=ends_s)}
<h2>Place + confirm</h2>{chaos.legend(waits)}{plot.lines(axis, 160, waits, "ms", load_ends_s=ends_s)}
<h2>Lag: not published, not invoiced or not counted</h2>{plot.lines(axis, 140, lag, "events", load_ends_s=ends_s)}
<h2>Queue: PDFs and mails to go</h2>{plot.lines(axis, 140, queue, "invoices", load_ends_s=ends_s)}
<p>Time in minutes. Shaded: no more orders, the shop settles.</p>"""


def _over_time(run: Run, share: float) -> Points:
    buckets: defaultdict[int, list[float]] = defaultdict(list)
    for at_s, seconds in run.bought:
        buckets[int(at_s / BUCKET_S)].append(seconds * 1000)
    return [((n + 0.5) * BUCKET_S, runs.percentile(some, share)) for n, some in sorted(buckets.items())]


def _asked(asked: Asked) -> str:
    times = (asked.p50_ms, asked.p95_ms, asked.p99_ms, asked.longest_ms)
    cells = "".join(f'<td class="n">{time:,.0f}' for time in times)
    return (
        f'<tr><td>{escape(asked.name)}<td class="n">{asked.count:,}<td class="n">{asked.failed:,}'
        f'<td class="n">{asked.per_s:.1f}{cells}\n'
    )


def _failures(run: Run) -> str:
    rows = "".join(f'<tr><td class="n">{count:,}<td>{escape(what)}\n' for what, count in run.failures.items())
    return f'<h2>What failed</h2><div class="scroll"><table>{rows}</table></div>' if rows else ""


def _promises(outcome: Outcome) -> str:
    if outcome.verdicts is None:
        return ""
    return f"""<h2>What the audit says</h2>
<div class="scroll"><table><tr><th>promise<th class="n">checked<th class="n">broken<th>verdict
{"".join(chaos.row(verdict) for verdict in outcome.verdicts)}</table></div>"""
