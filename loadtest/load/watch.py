"""While it runs: the pipeline's figures join Locust's, and the terminal is told how it goes."""

import http.client
import os
from typing import Any

import gevent

from loadtest.load import run as runs
from loadtest.load.run import Run, Sample

SAY_EVERY_S = 10.0


def watch(environment: Any, run: Run) -> None:
    """Until the run ends, over every restart of the control room."""
    said_s, told_steps = 0.0, 0
    while not run.ended:
        try:
            for told in runs.stream(os.environ["CONTROL_ROOM_URL"]):
                sample = run.took_note(told)
                if run.ended:
                    return
                if sample is None:
                    continue
                _join(environment, sample)
                for step in run.steps[told_steps:]:
                    print(f"{step.rate:5.0f} orders/s: {step.why_not or 'holds'}", flush=True)
                    told_steps += 1
                if run.now_s - said_s > SAY_EVERY_S:
                    _say(run, sample, said_s)
                    said_s = run.now_s
        except (OSError, http.client.HTTPException, ValueError):  # also a stream that ends in the middle of a line
            gevent.sleep(1)


def figure(environment: Any, kind: str, name: str, value: float) -> None:
    """A line among Locust's requests. What is not a time is a count, whatever unit Locust writes beside it."""
    environment.events.request.fire(
        request_type=kind, name=name, response_time=value, response_length=0, response=None, context={}, exception=None
    )


def _join(environment: Any, sample: Sample) -> None:
    figure(environment, "PIPELINE", "lag (events)", sample.lag)
    figure(environment, "PIPELINE", "duplicates (deliveries)", sample.duplicates)
    if sample.mail_p50_s is not None:
        figure(environment, "PIPELINE", "confirm → mailed (median of 30 s)", round(sample.mail_p50_s * 1000))


def _say(run: Run, sample: Sample, since_s: float) -> None:
    window = run.since(since_s)
    print(
        f"{run.now_s:5.0f} s  {window.orders / window.seconds:5.1f} orders/s  p99 {window.p99_s * 1000:4.0f} ms"
        f"  {window.failed} failed  lag {sample.lag:,}  PDFs and mails to go {sample.queue:,}",
        flush=True,
    )
