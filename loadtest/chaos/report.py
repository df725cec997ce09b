"""The page that stays: what broke when, how the orders flowed meanwhile, what the audit says. One file, no script."""

from html import escape
from pathlib import Path

from loadtest.chaos import plot
from loadtest.chaos.campaign import Campaign, Fallen, Sample
from loadtest.chaos.plot import Axis, Line, Mark, Points
from services.control_room.audit.verdicts import Verdict, Verdicts

SMOOTH_S = 5.0
RATES = (("orders", "ordered"), ("invoices", "invoiced"), ("mails", "mailed"), ("counts", "counted"))
STYLE = """
:root{color-scheme:light dark;--back:#fff;--ink:#1d2733;--soft:#5b6878;--rule:#dde3ea;--good:#0a7a45;--bad:#c22929;
--after:#f3f6f9;--mark:#c22929;--l0:#1f6feb;--l1:#b26a00;--l2:#0a7a45;--l3:#8a3ffc}
@media(prefers-color-scheme:dark){:root{--back:#12171d;--ink:#e4eaf1;--soft:#9aa7b6;--rule:#2b343f;--good:#4cc38a;
--bad:#ff7b72;--after:#182028;--mark:#ff7b72;--l0:#6cb0ff;--l1:#f0b04f;--l2:#4cc38a;--l3:#c39bff}}
body{font:16px/1.5 system-ui,sans-serif;background:var(--back);color:var(--ink);max-width:68rem;margin:2.5rem auto;
padding:0 1.25rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.1rem;margin:2.2rem 0 .4rem}p{margin:.3rem 0;color:var(--soft)}
.verdict{font-size:1.15rem;font-weight:600}.good{color:var(--good)}.bad{color:var(--bad)}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.9rem;margin:1.4rem 0}
dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.5rem;font-variant-numeric:tabular-nums}
svg{width:100%;min-width:44rem;height:auto;display:block;overflow:visible}
.grid{stroke:var(--rule)}.tick{fill:var(--soft);font-size:12px}.after{fill:var(--after)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.mark{fill:var(--mark);fill-opacity:.75}
.l0{stroke:var(--l0)}.l1{stroke:var(--l1)}.l2{stroke:var(--l2)}.l3{stroke:var(--l3)}
.legend{display:flex;gap:1.2rem;flex-wrap:wrap;font-size:.9rem;padding:0;margin:.2rem 0;list-style:none}
.legend li::before{content:"";display:inline-block;width:1.1rem;height:3px;margin-right:.4rem;vertical-align:middle;
background:var(--c)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.95rem}
td,th{text-align:left;padding:.35rem .9rem .35rem 0;border-bottom:1px solid var(--rule);vertical-align:top}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}summary{cursor:pointer;margin:2rem 0 .5rem}
code{font-size:.9em;overflow-wrap:anywhere}
"""


def write(path: Path, campaign: Campaign, verdicts: Verdicts, settled: bool) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(campaign, verdicts, settled))
    return path


def page(campaign: Campaign, verdicts: Verdicts, settled: bool) -> str:
    title, minutes = f"Chaos, seed {campaign.seed}", campaign.duration_s / 60
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>{STYLE}</style>
<h1>{title}</h1>
<p>{campaign.started_at:%Y-%m-%d %H:%M} UTC · {escape(campaign.shop.name)} · the same again:
<code>make chaos {campaign.shop.option}SEED={campaign.seed} MINUTES={minutes:g} RATE={campaign.rate:g}</code></p>
{summary(verdicts, settled)}
{_figures(campaign)}
{_plots(campaign)}
<h2>What the audit says</h2>
<div class="scroll"><table><tr><th>promise<th class="n">checked<th class="n">broken<th>verdict
{"".join(row(verdict) for verdict in verdicts)}</table></div>
<details><summary>Every fault ({len(campaign.fallen)})</summary>
<div class="scroll"><table><tr><th class="n">second<th>fault<th>what happened
{"".join(_fallen(fallen) for fallen in campaign.fallen)}</table></div></details>
</html>
"""


def summary(verdicts: Verdicts, settled: bool) -> str:
    broken = sum(not verdict.holds for verdict in verdicts)
    said = f"{broken} of {len(list(verdicts))} promises are broken." if broken else "Every promise holds."
    late = "" if settled else "<p>Not everything had settled when the audit began.</p>"
    return f'<p class="verdict {"bad" if broken else "good"}">{said}</p>{late}'


def _figures(campaign: Campaign) -> str:
    load = campaign.load
    figures = {
        "orders": len(load.bought),
        "faults": campaign.kinds.total(),
        "kinds of fault": len(campaign.kinds),
        "requests asked again": load.retries,
        "customers who gave up": len(load.failed),
        "most in flight": max((s.progress.in_flight for s in campaign.samples if s.progress), default=0),
    }
    return "<dl>" + "".join(f"<div><dt>{name}<dd>{figure:,}</div>" for name, figure in figures.items()) + "</dl>"


def _plots(campaign: Campaign) -> str:
    end_s = max((s.at_s for s in campaign.samples), default=1.0)
    axis, load_ends_s = Axis(max(end_s, 1.0)), campaign.ended_s
    marks = [
        Mark(f.fault.kind, f.began_s, f.ended_s or f.began_s, f"{f.fault}: {f.said}")
        for f in campaign.fallen
        if not f.missed
    ]
    rates = [line for line in (Line(name, rate_of(campaign.samples, of)) for name, of in RATES) if line.has_any]
    flying = [Line("in flight", [(s.at_s, float(s.progress.in_flight) if s.progress else None)
                                 for s in campaign.samples])]  # fmt: skip
    return f"""<h2>Faults</h2>{plot.lanes(axis, marks, load_ends_s=load_ends_s)}
<h2>Per second</h2>{legend(rates)}{plot.lines(axis, 220, rates, "per second", load_ends_s=load_ends_s)}
<h2>In flight</h2>{plot.lines(axis, 160, flying, "steps to go", load_ends_s=load_ends_s)}
<p>Time in minutes. Where a line is missing, a database was away. Shaded: no more orders, the shop settles.</p>"""


def rate_of(samples: list[Sample], of: str) -> Points:
    """Per second over the last few seconds. After an outage it starts anew."""
    points: list[tuple[float, float | None]] = []
    window: list[tuple[float, int]] = []
    for sample in samples:
        if sample.progress is None:
            window.clear()
            points.append((sample.at_s, None))
            continue
        window.append((sample.at_s, getattr(sample.progress, of)))
        window = [(at, count) for at, count in window if at >= sample.at_s - SMOOTH_S]
        took, grown = window[-1][0] - window[0][0], window[-1][1] - window[0][1]
        points.append((sample.at_s, grown / took if took else None))
    return points


def legend(lines: list[Line]) -> str:
    entries = "".join(f'<li style="--c:var(--l{number})">{line.name}</li>' for number, line in enumerate(lines))
    return f'<ul class="legend">{entries}</ul>'


def row(verdict: Verdict) -> str:
    named = "".join(f"<br><code>{escape(line)}</code>" for line in verdict.told(notes=5))
    said = '<span class="good">holds</span>' if verdict.holds else '<span class="bad">broken</span>'
    figures = f'<td class="n">{verdict.checked:,}<td class="n">{verdict.broken:,}'
    return f"<tr><td>{escape(verdict.promise)}{named}{figures}<td>{said}\n"


def _fallen(fallen: Fallen) -> str:
    return f'<tr><td class="n">{fallen.began_s:.1f}<td>{escape(str(fallen.fault))}<td>{escape(fallen.said)}\n'
