"""What an armed failpoint does, seen from outside the process that passes it."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from shared.runtime import failpoints

WINDOW = "orders.relay.after_ack"
PROGRAM = (
    "import sys; from shared.runtime import failpoints as f; f.configure(*sys.argv[1:]); f.hit('{}'); print('past')"
)


def start(armed: str = "", directory: str = "") -> subprocess.Popen[str]:
    program = PROGRAM.format(WINDOW)
    return subprocess.Popen([sys.executable, "-c", program, armed, directory], stdout=subprocess.PIPE, text=True)


def test_kill_ends_the_process_without_a_last_word() -> None:
    process = start(f"{WINDOW}=kill")
    assert process.communicate(timeout=10)[0] == ""
    assert process.returncode == -9


def test_pause_stops_every_thread_and_then_goes_on() -> None:
    process = start(f"{WINDOW}=pause:1")
    deadline = time.monotonic() + 5
    while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline, "never stopped"
        time.sleep(0.01)
    assert process.communicate(timeout=10)[0] == "past\n"


def test_error_raises_once() -> None:
    failpoints.configure(f"{WINDOW}=error")
    with pytest.raises(failpoints.InjectedFault):
        failpoints.hit(WINDOW)
    failpoints.hit(WINDOW)
    failpoints.configure()


def test_a_failpoint_armed_at_run_time_fires_in_one_of_several_processes(tmp_path: Path) -> None:
    failpoints.configure("", str(tmp_path))
    failpoints.arm(WINDOW, "kill")
    assert failpoints.armed() == {WINDOW: "kill"}
    processes = [start("", str(tmp_path)) for _ in range(4)]
    said = sorted(process.communicate(timeout=10)[0] for process in processes)
    assert said == ["", "past\n", "past\n", "past\n"]
    assert failpoints.armed() == {}
    failpoints.configure()


def test_two_failpoints_are_armed_at_once_without_a_mix_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their unfinished files must not share a name: what one arms, the other would give its action to."""
    failpoints.configure("", str(tmp_path))
    unfinished: list[Path] = []
    monkeypatch.setattr(Path, "rename", lambda path, _target: unfinished.append(path))
    failpoints.arm("orders.api.before_commit", "kill")
    failpoints.arm("orders.api.after_commit", "error")
    assert len(set(unfinished)) == 2
    failpoints.configure()


@pytest.mark.parametrize(
    ("name", "action"),
    [("orders.relay.after_lunch", "kill"), (WINDOW, "explode"), (WINDOW, "pause"), ("../../etc/passwd", "kill")],
)
def test_what_does_not_exist_cannot_be_armed(name: str, action: str) -> None:
    with pytest.raises(failpoints.UnknownFailpoint):
        failpoints.configure(f"{name}={action}")
    failpoints.configure()


def test_what_is_no_failpoint_cannot_be_disarmed(tmp_path: Path) -> None:
    """Its name would be a path."""
    other = tmp_path / "other"
    other.write_text("somebody's")
    failpoints.configure("", str(tmp_path / "armed"))
    for name in (str(other), "../other"):
        with pytest.raises(failpoints.UnknownFailpoint):
            failpoints.disarm(name)
    assert other.exists()
    failpoints.configure()


def test_any_service_may_have_a_consumer() -> None:
    failpoints.configure("inventory.consumer.after_commit=error")
    failpoints.configure()
