"""What the first lines of every looping process do: logs, failpoints, signals, the operations port."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.runtime import failpoints, logs
from shared.runtime.loop import Pulse, Stop, run_forever
from shared.runtime.ops import Check, Ops
from shared.runtime.settings import ProcessSettings


@dataclass(frozen=True)
class Process:
    stop: Stop
    pulse: Pulse

    def run_forever(
        self,
        step: Callable[[], int],
        *,
        idle_s: float = 1.0,
        wait: Callable[[float], None] | None = None,
        retry_on: tuple[type[Exception], ...] = (),
    ) -> None:
        run_forever(step, self.stop, self.pulse, idle_s=idle_s, wait=wait, retry_on=retry_on)


def tune_interpreter() -> None:
    """For a process that handles batches, or requests."""
    # The objects of a batch live until its commit, and hardly any are in cycles. By default the collector looks at them
    # again after every 700 new ones: a quarter of a consumer's time. And what was imported is there to stay.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def begin(settings: ProcessSettings, *, ready: Sequence[Check] = ()) -> Process:
    logs.configure(settings.process, settings.log_level)
    failpoints.configure(settings.failpoints, settings.failpoints_dir)
    tune_interpreter()
    process = Process(Stop.on_signals(), Pulse(settings.max_silence_s))
    Ops(
        settings.ops_bind,
        alive=process.pulse.problem,
        ready=ready,
        failpoints_token=settings.failpoints_token,
    ).start()
    return process
