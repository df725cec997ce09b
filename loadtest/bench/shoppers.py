"""Locust asks an API as fast as it answers: requests from a file, each of them once. Started by http.py.

does    sends the requests over as many connections as there are users, and writes how it went
reads   the file REQUESTS: a list of [path, key, body]
writes  the file ANSWERS: seconds and failures
next    http.py
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event
from locust import FastHttpUser, constant, events, task
from locust.env import Environment
from locust.exception import StopUser

REQUESTS, ANSWERS = Path(os.environ["REQUESTS"]), Path(os.environ["ANSWERS"])
wanted = json.loads(REQUESTS.read_text())
left = iter(wanted)
failures: list[str] = []
answered: list[float] = []
all_answered = Event()


class Client(FastHttpUser):
    wait_time = constant(0)

    @task
    def ask(self) -> None:
        path, key, body = next(left, (None, "", ""))
        if path is None:
            raise StopUser
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        self.client.post(path, data=body.encode(), headers=headers, name="request")


@events.request.add_listener
def note(response_time: float, exception: Exception | None, **_: Any) -> None:
    """The clock starts with the first request, not with Locust."""
    if not answered:
        answered.append(time.perf_counter() - response_time / 1000)
    answered.append(time.perf_counter())
    if exception is not None:
        failures.append(repr(exception))
    if len(answered) > len(wanted):
        all_answered.set()


@events.test_start.add_listener
def quit_when_all_is_answered(environment: Environment, **_: Any) -> None:
    """Not from a user: quitting ends the users, and two that end each other wait for ever."""

    def wait_and_quit() -> None:
        all_answered.wait()
        environment.runner.quit()

    gevent.spawn(wait_and_quit)


@events.quitting.add_listener
def end(**_: Any) -> None:
    ANSWERS.write_text(json.dumps({"seconds": answered[-1] - answered[0], "failures": failures}))
