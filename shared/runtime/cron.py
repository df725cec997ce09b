"""A job on a cron schedule, inside the frame of every other process.

One thread runs the job, so it never overlaps itself, and ticks missed while it ran or the machine slept are one tick.
The schedule is UTC: a night with 23 hours must not skip a run.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from apscheduler.triggers.cron import CronTrigger

from shared.runtime.process import Process


class Schedule:
    """`crontab` is the five fields of cron(5); a bad one is a ValueError."""

    def __init__(self, crontab: str) -> None:
        self._trigger = CronTrigger.from_crontab(crontab, timezone=UTC)
        self._last = datetime.now(UTC)

    def due(self, now: datetime) -> bool:
        coming = self._trigger.get_next_fire_time(None, self._last)
        if coming is None or coming > now:
            return False
        self._last = now
        return True


def run_on_schedule(
    process: Process, crontab: str, job: Callable[[], int], *, retry_on: tuple[type[Exception], ...] = ()
) -> None:
    """A job that fails for a passing reason is tried again at once, with backoff, not at the next tick."""
    schedule = Schedule(crontab)
    owed = False

    def step() -> int:
        nonlocal owed
        owed = owed or schedule.due(datetime.now(UTC))
        if owed:
            job()
            owed = False
        return 0

    process.run_forever(step, idle_s=1.0, retry_on=retry_on)
