"""The faults, a function per kind. Each says what it did, waits as long as it lasts, and undoes it, also on Ctrl-C."""

import json
import threading
import time
import urllib.request
import xmlrpc.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from subprocess import CalledProcessError
from typing import Any, TypeVar

import psutil
import psycopg
from confluent_kafka import KafkaException

from infra.control import Control
from infra.native.stack import CannotStart
from loadtest.chaos.schedule import Fault
from services.control_room import faults as on_topic
from services.control_room import topic
from services.control_room.settings import PlacesSettings
from shared.runtime.problems import Problem

T = TypeVar("T")

PATIENCE_S, UNDOING_S = 15.0, 120.0
"""How long to try. What stays stopped, or in trouble, would spoil all that follows: undoing it is worth waiting for."""
AWAY = (OSError, HTTPException, psycopg.OperationalError, KafkaException, Problem, psutil.Error, xmlrpc.client.Fault,
        CannotStart, CalledProcessError)  # fmt: skip
"""The thing to break is broken already, or just coming back. (urllib's errors are OSErrors.)"""


class Missed(Exception):
    """The fault did not fall: what it was to break did not come back in time."""


@dataclass(frozen=True)
class Hands:
    """What the faults work with."""

    control: Control
    places: PlacesSettings
    over: threading.Event
    """Set when the run ends or is broken off: whoever waits, wakes and undoes."""


Done = str


def fall(hands: Hands, fault: Fault) -> Done:
    return FUNCTIONS[fault.kind](hands, fault)


def kill(hands: Hands, fault: Fault) -> Done:
    _patiently(lambda: hands.control.kill(fault.target))
    return "SIGKILL"


def pause(hands: Hands, fault: Fault) -> Done:
    """Longer than the session time-out, the others take its work; then it wakes and believes that it still owns it."""
    _patiently(lambda: hands.control.pause(fault.target))
    try:
        hands.over.wait(fault.lasts_s)
    finally:
        _patiently(lambda: hands.control.resume(fault.target), UNDOING_S)
    return "stopped, and woken again"


def one_more(hands: Hands, fault: Fault) -> Done:
    """Comes and goes: two rebalances of a group, or shards and tasks shared between two."""
    with hands.control.replica(fault.target):
        hands.over.wait(fault.lasts_s)
    return "a replica came and went"


def duplicate(hands: Hands, _fault: Fault) -> Done:
    done = _patiently(lambda: on_topic.duplicate(hands.places, times=50))
    return f"{done['records']} copies of the event of order {done['order_id'][:8]}…"


def replay(hands: Hands, _fault: Fault) -> Done:
    done = _patiently(lambda: on_topic.replay(hands.places, last=300))
    return f"the last {done['records']} records again"


def mail_refuses(hands: Hands, fault: Fault) -> Done:
    with _trouble(hands, Recipient={"ErrorCode": 451, "Probability": 80}):
        hands.over.wait(fault.lasts_s)
    return "451 to four recipients of five"


def mail_drops(hands: Hands, fault: Fault) -> Done:
    """The mail is kept and the answer never comes. Mailpit cannot do that: under Docker it refuses only."""
    with _trouble(hands, AfterData={"Probability": 60}, Sender={"ErrorCode": 421, "Probability": 20}) as told:
        hands.over.wait(fault.lasts_s)
    refused = "421 to one sender of five"
    return f"connection closed after DATA to three of five, {refused}" if "AfterData" in told else refused


def naive_duplicate(hands: Hands, _fault: Fault) -> Done:
    """The naive shop has no outbox to take an event from, and what it publishes is no event: its newest bytes again."""
    return _again(hands, lambda: topic.last_records(hands.places, 1, events_only=False)[:1] * 5)


def naive_replay(hands: Hands, _fault: Fault) -> Done:
    return _again(hands, lambda: topic.last_records(hands.places, 20, events_only=False))


def _again(hands: Hands, records: Callable[[], list[topic.Record]]) -> Done:
    return f"{len(_patiently(lambda: topic.produce(hands.places, records())))} records again"


FUNCTIONS: dict[str, Callable[[Hands, Fault], Done]] = {
    "kill": kill,
    "kill-postgres": kill,
    "kill-kafka": kill,
    "kill-mail": kill,
    "pause": pause,
    "hiccup": pause,
    "replica": one_more,
    "duplicate": duplicate,
    "replay": replay,
    "naive-duplicate": naive_duplicate,
    "naive-replay": naive_replay,
    "mail-refuses": mail_refuses,
    "mail-drops": mail_drops,
}


@contextmanager
def _trouble(hands: Hands, **triggers: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yields the triggers that the mail server knows."""
    told = _patiently(lambda: _tell_mail(hands.places.mail_url, triggers))
    try:
        yield told
    finally:
        _patiently(lambda: _tell_mail(hands.places.mail_url, {}), UNDOING_S)


def _tell_mail(url: str, triggers: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(f"{url}/api/v1/chaos", json.dumps(triggers).encode(), method="PUT")  # noqa: S310
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310  the address is our own setting
        known: dict[str, Any] = json.load(answer)
        return known


def _patiently(act: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """Other faults are falling too: what is away now is back in seconds."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return act()
        except AWAY as error:
            if time.monotonic() > deadline:
                raise Missed(str(error).splitlines()[0] if str(error) else repr(error)) from error
            time.sleep(0.3)
