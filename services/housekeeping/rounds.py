"""When which house is visited.

does    visits each house on the schedule and once at the start; one that failed again soon, with backoff
reads   the clock
writes  nothing itself
next    house.py

Each house has its own time: while one database is away for hours, the others are visited at every tick.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from services.housekeeping import metrics
from services.housekeeping.house import CarryOn, House, visit
from shared.runtime.cron import Schedule
from shared.runtime.loop import Backoff


class Rounds:
    def __init__(
        self,
        houses: Sequence[House],
        crontab: str,
        carry_on: CarryOn = lambda: True,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._carry_on, self._clock = carry_on, clock
        self._turns = [_Turn(house, Schedule(crontab)) for house in houses]
        for house in houses:
            metrics.declare(house.database)

    def step(self) -> int:
        return sum(self._visit(turn) for turn in self._turns if turn.has_come(self._clock()) and self._carry_on())

    def _visit(self, turn: "_Turn") -> int:
        changes = visit(turn.house, self._carry_on)
        turn.was_made(succeeded=changes is not None)
        return changes or 0


class _Turn:
    def __init__(self, house: House, schedule: Schedule) -> None:
        self.house, self._schedule = house, schedule
        self._owed = True  # at the start: the process before this one may have died in the middle of its visit
        self._not_before = 0.0
        self._backoff = Backoff(first_s=0.5, limit_s=60.0)

    def has_come(self, now: datetime) -> bool:
        self._owed = self._schedule.due(now) or self._owed
        return self._owed and time.monotonic() >= self._not_before

    def was_made(self, *, succeeded: bool) -> None:
        self._owed = not succeeded
        if succeeded:
            self._backoff.reset()
        else:
            self._not_before = time.monotonic() + self._backoff.next_s()
