"""The control room's faults over HTTP, on a whole running shop: who may, and what each does."""

import http.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.control_room import Room, running_room
from tests.support.wait import until

pytestmark = pytest.mark.timeout(420)
SEEN_S = 60

CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/orders", {"count": 1}),
    ("/v1/faults/duplicate", {}),
    ("/v1/faults/replay", {}),
    ("/v1/faults/tamper", {}),
    ("/v1/faults/late", {}),
    ("/v1/faults/poison", {}),
    ("/v1/faults/failpoint", {"name": "billing.worker.after_smtp"}),
    ("/v1/faults/disarm", {}),
    ("/v1/faults/kill", {"process": "billing-consumer"}),
    ("/v1/letters/billing/1/discard", {"why": "why not"}),
]
PRIVATE = ["/v1/failpoints", "/v1/letters", "/v1/letters/billing/1", "/v1/lives/00000000"]


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with running_room() as room:
        room.order(3)
        yield room


@pytest.fixture(scope="module")
def page(room: Room) -> tuple[str, str]:
    """What a browser gets from the printed link: a cookie, and the page's own secret."""
    status, headers, _ = fetch(room, f"/?token={room.token}")
    assert (status, headers["Location"]) == (303, "/"), "the token leaves the address bar"
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert room.token not in cookie
    cookie = cookie.split(";")[0]
    _, _, html = fetch(room, "/", {"Cookie": cookie})
    return cookie, html.split('name="csrf-token" content="')[1].split('"')[0]


def fetch(room: Room, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any, str]:
    connection = http.client.HTTPConnection(urlsplit(room.url).netloc, timeout=30)
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return found


@pytest.mark.parametrize(("path", "body"), CHANGES)
def test_without_the_token_nothing_can_be_changed(room: Room, path: str, body: dict[str, Any]) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "control_room=wrong", "X-CSRF-Token": "wrong"}):
        status, problem = room.ask("POST", path, body, headers)
        assert (status, problem["type"]) == (403, "/problems/read-only")


@pytest.mark.parametrize("path", PRIVATE)
def test_without_the_token_customers_data_is_not_shown(room: Room, path: str) -> None:
    assert room.ask("GET", path)[0] == 403


def test_a_wrong_token_in_the_link_opens_nothing(room: Room) -> None:
    status, headers, _ = fetch(room, "/?token=wrong")
    assert status == 303
    assert "Set-Cookie" not in headers
    assert "csrf-token" not in fetch(room, "/")[2]


@pytest.mark.parametrize(("path", "body"), CHANGES)
def test_a_cookie_alone_changes_nothing(room: Room, page: tuple[str, str], path: str, body: dict[str, Any]) -> None:
    """What another page on this machine can make the browser send."""
    status, problem = room.ask("POST", path, body, {"Cookie": page[0]})
    assert (status, problem["type"]) == (403, "/problems/cross-site")


def test_the_page_itself_may(room: Room, page: tuple[str, str]) -> None:
    cookie, secret = page
    assert room.ask("POST", "/v1/faults/disarm", {}, {"Cookie": cookie, "X-CSRF-Token": secret})[0] == 200


def test_100_identical_copies_are_delivered_and_have_no_effect(room: Room) -> None:
    before = room.settle()
    done = room.post("/v1/faults/duplicate", times=100)
    assert done["records"] == 100
    assert len(done["places"]) == 1, "the same key, so the same partition"
    until(lambda: room.ledger()["delivered"] == before["delivered"] + 100, "100 more deliveries", seconds=SEEN_S)
    after = room.settle()
    assert after["duplicates"] == before["duplicates"] + 100, "a copy that differed by a byte would be no duplicate"
    assert [after[name] for name in EFFECTS] == [before[name] for name in EFFECTS]


EFFECTS = ("orders", "invoices", "pdfs", "mails", "counted")


def test_a_replay_delivers_everything_once_more_and_has_no_effect(room: Room) -> None:
    before = room.settle()
    done = room.post("/v1/faults/replay", last=50)
    until(lambda: room.ledger()["delivered"] >= before["delivered"] + done["records"], "all again", seconds=SEEN_S)
    after = room.settle()
    assert [after[name] for name in EFFECTS] == [before[name] for name in EFFECTS]


BAD = [
    ("tamper", {}, "payload-mismatch"),
    ("late", {}, "beyond-dedupe-window"),
    ("poison", {"poison": "undecodable"}, "undecodable"),
    ("poison", {"poison": "null"}, "undecodable"),
    ("poison", {"poison": "invalid"}, "invalid"),
    ("poison", {"poison": "too-large"}, "invalid"),
    ("poison", {"poison": "unknown-type"}, "unknown-type"),
]


@pytest.mark.parametrize(("fault", "body", "reason"), BAD)
def test_a_bad_event_is_parked_by_both_consumers_and_can_be_discarded(
    room: Room, fault: str, body: dict[str, Any], reason: str
) -> None:
    before = room.order(1)
    (place,) = room.post(f"/v1/faults/{fault}", **body)["places"]
    letters = parked_at(room, place)
    assert {(letter["consumer"], letter["reason"]) for letter in letters} == {
        ("billing", reason), ("analytics", reason),
    }  # fmt: skip
    for letter in letters:
        done = room.post(f"/v1/letters/{letter['consumer']}/{letter['id']}/discard", why="a test")
        assert done["result"] == "discarded"
    still_open = {(each["consumer"], each["id"]) for each in room.get("/v1/letters")["letters"]}
    assert not still_open & {(letter["consumer"], letter["id"]) for letter in letters}
    after = room.settle()
    assert [after[name] for name in EFFECTS] == [before[name] for name in EFFECTS]


def parked_at(room: Room, place: dict[str, int]) -> list[dict[str, Any]]:
    """The letters of both consumers about the record at this place."""

    def found() -> list[dict[str, Any]]:
        where = (place["partition"], place["first_offset"])
        return [each for each in room.get("/v1/letters")["letters"] if (each["partition"], each["offset"]) == where]

    until(lambda: len(found()) == 2, "parked twice", seconds=SEEN_S)
    return found()


def test_a_damaged_event_can_be_repaired_and_redriven_and_is_still_applied_once(room: Room) -> None:
    before = room.order(1)
    (place,) = room.post("/v1/faults/poison", poison="invalid")["places"]
    letter = next(each for each in parked_at(room, place) if each["consumer"] == "billing")
    address = f"/v1/letters/billing/{letter['id']}"
    whole = room.get(address)
    assert whole["value"] != whole["original"]
    assert room.ask("POST", f"{address}/redrive", {}, {"Authorization": f"Bearer {room.token}"})[0] == 409
    assert room.post(f"{address}/repair", value=whole["original"])["result"] == "repaired"
    assert room.post(f"{address}/redrive")["result"] == "had been applied already"
    assert room.settle()["invoices"] == before["invoices"]


def test_a_failpoint_fires_once_the_process_comes_back_and_the_ledger_is_equal(room: Room) -> None:
    restarts = room.sample()["processes"]["billing-consumer"]["restarts"]
    done = room.post("/v1/faults/failpoint", name="billing.consumer.after_commit", action="kill")
    assert done["process"] == "billing-consumer"
    assert room.get("/v1/failpoints")["armed"] == {"billing-consumer": {"billing.consumer.after_commit": "kill"}}
    after = room.order(2)
    assert after["invoices"] == after["orders"]
    assert room.get("/v1/failpoints")["armed"] == {}
    until(lambda: room.sample()["processes"]["billing-consumer"]["restarts"] > restarts, "seen to restart", seconds=60)


def test_a_failpoint_can_be_disarmed_and_a_name_that_does_not_exist_is_refused(room: Room) -> None:
    room.post("/v1/faults/failpoint", name="billing.redrive.before_commit", action="error")
    assert room.post("/v1/faults/disarm", name="billing.redrive.before_commit")["processes"] == ["billing-api"]
    assert room.get("/v1/failpoints")["armed"] == {}
    bearer = {"Authorization": f"Bearer {room.token}"}
    assert room.ask("POST", "/v1/faults/failpoint", {"name": "billing.nowhere"}, bearer)[0] == 404
    assert room.ask("POST", "/v1/faults/failpoint", {"name": "x", "action": "dance"}, bearer)[0] == 422
    assert room.ask("POST", "/v1/faults/kill", {"process": "nobody"}, bearer)[0] == 404


@pytest.mark.parametrize("process", ["analytics-consumer", "billing-api"])
def test_a_killed_process_is_seen_down_and_comes_back(room: Room, process: str) -> None:
    before = room.get("/v1/processes")["processes"][process]["restarts"]
    room.post("/v1/faults/kill", process=process)
    until(lambda: room.get("/v1/processes")["processes"][process]["restarts"] > before, "down and back", seconds=60)
    until(lambda: room.get("/v1/processes")["processes"][process]["state"] == "up", "up again", seconds=60)


def test_the_life_of_an_order_is_found_by_the_beginning_of_its_id(room: Room) -> None:
    room.order(1)
    newest = room.sample()["newest"][0]
    assert len(newest["order"]) == 8, "the stream is for everybody, an order's id is not"
    life = room.get(f"/v1/lives/{newest['order']}")
    assert life["order_id"].startswith(newest["order"])
    assert {"orders", "orders outbox", "billing inbox", "billing", "analytics", "mailbox"} <= {
        moment["where"] for moment in life["moments"]
    }
    assert life["pdf"].endswith("/pdf")
    assert len(life["mails"]) == 1
