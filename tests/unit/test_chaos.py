"""The schedule of make chaos, and its report: both are functions of what they are given."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from infra.control import Control, Native
from infra.native.stack import CannotStart
from loadtest.chaos import __main__ as chaos
from loadtest.chaos import faults, plot, report
from loadtest.chaos.campaign import Campaign, Fallen, Sample
from loadtest.chaos.load import Load
from loadtest.chaos.schedule import Fault, Kind, schedule
from loadtest.chaos.shops import KINDS, NAIVE_KINDS, Progress, Shop
from loadtest.customer import Customer, GaveUp
from services.control_room.audit.verdicts import Verdicts
from services.control_room.settings import PlacesSettings

PLACES = PlacesSettings(orders_database_url="", billing_database_url="", analytics_database_url="",
                        kafka_bootstrap="", mail_url="http://127.0.0.1:1")  # fmt: skip


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    assert schedule(7, 600, KINDS) == schedule(7, 600, KINDS)
    assert schedule(7, 600, KINDS) != schedule(8, 600, KINDS)


@pytest.mark.parametrize("seed", range(20))
def test_ten_minutes_have_sixty_faults_of_every_kind_and_none_outlasts_them(seed: int) -> None:
    planned = schedule(seed, 600, KINDS)
    assert len(planned) >= 60
    assert {fault.kind for fault in planned} == {kind.name for kind in KINDS}
    assert len(KINDS) >= 8
    assert all(fault.at_s + fault.lasts_s <= 600 for fault in planned)


@pytest.mark.parametrize("seed", range(20))
def test_a_process_that_sleeps_is_left_alone(seed: int) -> None:
    busy_until: dict[str, float] = {}
    for fault in schedule(seed, 600, KINDS):
        assert fault.at_s >= busy_until.get(fault.target, 0.0)
        busy_until[fault.target] = fault.at_s + fault.lasts_s


def test_every_kind_has_a_function() -> None:
    assert {kind.name for kind in (*KINDS, *NAIVE_KINDS)} == set(faults.FUNCTIONS)


class Recorder(Control):
    def __init__(self) -> None:
        self.said: list[str] = []

    def kill(self, name: str) -> None:
        self.said.append(f"kill {name}")

    @contextmanager
    def replica(self, name: str) -> Iterator[None]:
        self.said.append(f"replica {name}")
        yield

    def pause(self, name: str) -> None:
        self.said.append(f"pause {name}")

    def resume(self, name: str) -> None:
        self.said.append(f"resume {name}")


def test_a_run_that_is_broken_off_wakes_who_sleeps() -> None:
    over, control = threading.Event(), Recorder()
    fault = Fault(0.0, "pause", "orders-relay", lasts_s=600.0)
    sleeping = threading.Thread(target=faults.fall, args=(faults.Hands(control, PLACES, over), fault))
    sleeping.start()
    over.set()
    sleeping.join(10)
    assert control.said == ["pause orders-relay", "resume orders-relay"]


def campaign(samples: list[Sample]) -> Campaign:
    shop = Shop("shop", "", "", PLACES, Path(), (Kind("kill", ("a",)),), lambda _c: "", lambda: Progress(0, 0, 0, 0, 0),
                lambda _limit, _say: True, Verdicts)  # fmt: skip
    made = Campaign(shop, Recorder(), seed=7, duration_s=60, rate=1)
    made.samples = samples
    made.fallen = [Fallen(Fault(3, "kill", "<b>"), 3.0, 3.1, "SIGKILL"), Fallen(Fault(9, "replay", "t"), 9.0, 9.9)]
    return made


BROKEN = Verdicts()
BROKEN.one_invoice.check(False, "order-1", "0 invoices")


@pytest.mark.parametrize(
    ("bought", "settled", "verdicts", "status"),
    [
        (["order-1"], True, Verdicts(), 0),
        (["order-1"], True, BROKEN, 1),
        ([], True, Verdicts(), 2),
        (["order-1"], False, Verdicts(), 2),
        (["order-1"], False, BROKEN, 2),
    ],
)
def test_a_run_that_proves_nothing_is_not_a_good_one(
    bought: list[str], settled: bool, verdicts: Verdicts, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = campaign([])
    made.load.bought = bought
    made.shop = replace(made.shop, settle=lambda _limit, _say: settled, audit=lambda: verdicts)
    monkeypatch.setattr(chaos, "PROJECT", tmp_path)
    assert chaos._judge(made, 0.0) == status


def test_a_customer_who_fails_in_any_way_is_counted_and_goes_on(tmp_path: Path) -> None:
    troubles: list[Exception] = [GaveUp("no answer"), KeyError("id")]

    def buy(_customer: Customer) -> str:
        if troubles:
            raise troubles.pop()
        return "an order"

    load = Load("http://127.0.0.1:1", 1000, 0.1, buy, tmp_path / "ledger", threading.Event())
    load.start()
    load.join()
    assert sorted(load.failed) == ["KeyError('id')", "no answer"]
    assert len(load.bought) == load.wanted - 2


def test_the_report_names_what_is_broken_and_every_fault_and_needs_no_other_file() -> None:
    verdicts = Verdicts()
    verdicts.one_invoice.check(False, "order-1", "2 invoices")
    page = report.page(campaign([Sample(n, Progress(n, n, n, n, 3)) for n in range(90)]), verdicts, settled=True)
    assert "order-1 2 invoices" in page
    assert "1 of 19 promises are broken" in page
    assert "kill &lt;b&gt;" in page
    assert "<b>" not in page
    assert "make chaos SEED=7 MINUTES=1 RATE=1" in page
    assert "://" not in page
    assert "<script" not in page


def test_a_fault_that_did_not_fall_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoReplica(Recorder):
        @contextmanager
        def replica(self, name: str) -> Iterator[None]:
            raise CannotStart(name)
            yield

    made = campaign([])
    made.fallen, made.control = [], NoReplica()
    made._fall(Fault(0.0, "replica", "orders-relay"))
    assert [fallen.said for fallen in made.fallen] == ["missed: orders-relay"]
    assert made.kinds.total() == 0


class DeadStack:
    """Its processes have just died."""

    supervisor = SimpleNamespace(states=lambda: {"orders-relay": {"pid": 0}})

    def program(self, name: str) -> Any:
        return SimpleNamespace(name=name)


def test_who_is_dead_cannot_be_put_to_sleep_and_waking_it_is_no_error() -> None:
    stack: Any = DeadStack()
    with pytest.raises(psutil.NoSuchProcess):
        Native(stack).pause("orders-relay")
    Native(stack).resume("orders-relay")


@pytest.mark.parametrize(
    ("knows", "said"),
    [
        ({"Sender": {}, "AfterData": {}}, "connection closed after DATA to three of five, 421 to one sender of five"),
        ({"Sender": {}}, "421 to one sender of five"),
    ],
)
def test_a_mail_server_that_cannot_break_off_after_data_is_not_said_to_have_done_it(
    knows: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "_tell_mail", lambda _url, _triggers: knows)
    assert faults.fall(faults.Hands(Recorder(), PLACES, threading.Event()), Fault(0.0, "mail-drops", "mail")) == said


@pytest.mark.parametrize("hours", [0.01, 1, 12, 13, 100])
def test_an_axis_has_a_handful_of_ticks_however_long_the_run(hours: float) -> None:
    assert 2 <= len(plot.Axis(hours * 3600).ticks()) <= 13


def test_a_line_breaks_where_a_database_was_away() -> None:
    axis = plot.Axis(10.0)
    drawn = plot.lines(axis, 100, [plot.Line("a", [(0, 1.0), (1, None), (2, 1.0), (3, 2.0)])], "n", load_ends_s=10)
    assert drawn.count("M") == 2


def test_a_run_without_a_single_look_still_has_a_report() -> None:
    assert "Every promise holds" in report.page(campaign([]), Verdicts(), settled=False)
