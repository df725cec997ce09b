import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from shared.runtime.loop import Pulse, Stop, run_forever


def run(answers: list[int | Exception], retry_on: tuple[type[Exception], ...] = ()) -> tuple[int, list[float]]:
    """Steps that answer in turn; then the loop is stopped. Returns the number of steps and the sleeps between."""
    stop, steps, sleeps = Stop(), 0, list[float]()

    def step() -> int:
        nonlocal steps
        answer = answers[steps]
        steps += 1
        if steps == len(answers):
            stop.request()
        if isinstance(answer, Exception):
            raise answer
        return answer

    run_forever(step, stop, Pulse(30), idle_s=7, wait=sleeps.append, retry_on=retry_on)
    return steps, sleeps


def test_the_loop_sleeps_only_when_there_was_nothing_to_do() -> None:
    assert run([3, 0, 2, 0, 1]) == (5, [7, 7])


def test_a_passing_failure_is_tried_again() -> None:
    assert run([ConnectionError("away"), 1, 1], retry_on=(ConnectionError,)) == (3, [])


def test_an_unexpected_failure_ends_the_process() -> None:
    with pytest.raises(ZeroDivisionError):
        run([1, ZeroDivisionError(), 1], retry_on=(ConnectionError,))


def test_a_loop_that_hangs_has_no_pulse() -> None:
    pulse = Pulse(max_silence_s=-1)
    problem = pulse.problem()
    assert problem is not None
    assert "has not come round" in problem
    assert Pulse(max_silence_s=5).problem() is None


def test_sigterm_stops_between_two_steps() -> None:
    program = (
        "import time; from shared.runtime.loop import *\n"
        "def step():\n  print('begin', flush=True); time.sleep(0.3); print('end', flush=True); return 1\n"
        "run_forever(step, Stop.on_signals(), Pulse(30))"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    read: Callable[[], str] = process.stdout.readline
    while read() != "begin\n":
        pass
    process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=10)[0]
    assert rest.startswith("end\n")
    assert "begin" not in rest
    assert process.returncode == 0
