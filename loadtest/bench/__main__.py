"""`make bench`: measures everything, prints the figures with their bars, and ends with 1 if a bar was missed."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from loadtest.bench import consumer, http, inbox, latency, pdf, relay, report, sweeps
from loadtest.bench.figures import Figure
from loadtest.bench.servers import Bench, started
from shared.runtime import logs, process

PARTS: dict[str, Callable[[Bench], list[Figure]]] = {
    "consumer": consumer.measure,
    "relay": relay.measure,
    "latency": latency.measure,
    "inbox": inbox.measure,
    "http": http.measure,
    "pdf": pdf.measure,
    "sweeps": sweeps.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="small amounts: the direction, not the figure")
    parser.add_argument("--json", type=Path, default=report.REPORT, help="where the figures go")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    logs.configure("bench", "warning")
    process.tune_interpreter()  # as every process of the shop does
    began = time.monotonic()
    with started(quick=arguments.quick, say=_say) as bench:
        machine = report.machine(bench)
        figures = run(bench, arguments.parts or list(PARTS))
    report.write(arguments.json, report.as_json(figures, machine, quick=arguments.quick))
    report.show(figures)
    missed = [figure for figure in figures if not figure.holds]
    _say(f"{len(figures)} figures in {time.monotonic() - began:.0f} s, written to {arguments.json}")
    _say(f"missed: {len(missed)}" if missed else "every bar holds")
    return 1 if missed else 0


def run(bench: Bench, parts: Sequence[str]) -> list[Figure]:
    return [figure for part in parts for figure in PARTS[part](bench)]


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted: nothing was written, and the servers are gone")
