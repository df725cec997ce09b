"""How many orders per second at which moment. Shapes know nothing of Locust; locustfile.py asks them once a second.

steady   the same rate from beginning to end
ramp     from a tenth of the rate up to it, then a while at the top
spike    a fifth of the rate, in the middle suddenly all of it, then a fifth again
limit    raises the rate until latency or lag says stop, then closes in on the highest that holds; then a minute at half
         of it
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

Shape = Callable[[float], float | None]
"""seconds since the start → orders per second; None: over"""
NAMES = ("steady", "ramp", "spike", "limit")


def steady(rate: float, seconds: float) -> Shape:
    return lambda at_s: rate if at_s < seconds else None


def ramp(rate: float, seconds: float) -> Shape:
    climb_s = 0.8 * seconds
    return lambda at_s: rate * min(1.0, 0.1 + 0.9 * at_s / climb_s) if at_s < seconds else None


def spike(rate: float, seconds: float) -> Shape:
    def at(at_s: float) -> float | None:
        if at_s >= seconds:
            return None
        return rate if 0.4 <= at_s / seconds < 0.6 else rate / 5

    return at


@dataclass(frozen=True)
class Window:
    """What was seen since a moment."""

    seconds: float
    orders: int
    failed: int
    p99_s: float
    """Of place + confirm."""


class Seen(Protocol):
    def since(self, at_s: float) -> Window: ...

    @property
    def lag(self) -> int:
        """Events that are not published, not invoiced or not counted."""
        ...


P99_S = 0.25
LAG_S = 1.0
"""A pipeline that keeps up is never further behind than the orders of so many seconds."""


def why_not(rate: float, window: Window, lag: int) -> str | None:
    """None: the rate holds. Otherwise what gave way."""
    if window.failed:
        return f"{window.failed} requests failed"
    if window.orders < 0.9 * rate * window.seconds:  # shoppers pause by chance: a few less are no sign
        return f"only {window.orders / window.seconds:.1f} orders/s came through"
    if window.p99_s > P99_S:
        return f"p99 of place + confirm {window.p99_s * 1000:.0f} ms"
    if lag > LAG_S * rate:
        return f"{lag} events behind"
    return None


@dataclass
class Search:
    """Up by half until a rate fails, then the middle between the highest that held and the lowest that did not.

    Without a rate that failed there is no maximum: then nobody knows how much more it could have been.
    """

    rate: float
    held: float | None = None
    failed: float | None = None
    over: bool = False

    @property
    def maximum(self) -> float | None:
        return self.held if self.failed is not None else None

    def judged(self, holds: bool) -> None:
        if holds:
            self.held = self.rate
        else:
            self.failed = self.rate
        if self.failed is None:
            self.rate = round(self.rate * 1.5)
        elif self.held is None:
            self.rate = round(self.rate / 2)
            self.over = self.rate < 1
        else:
            self.rate = round(math.sqrt(self.held * self.failed))
            self.over = self.failed / self.held < 1.1 or self.rate in (self.held, self.failed)


@dataclass
class Step:
    rate: float
    orders_per_s: float
    p99_s: float
    lag: int
    why_not: str | None


@dataclass
class Limit:
    """A shape that looks at what comes of it. A rate fails when it fails twice: once may be the machine's mood."""

    search: Search
    seen: Seen
    seconds: float
    warm_up_s: float = 5.0
    measure_s: float = 20.0
    rest_s: float = 60.0
    half_s: float = 60.0
    half_since_s: float | None = None
    """Since when it is measured at half of the highest rate that holds."""
    steps: list[Step] = field(default_factory=list)
    _began_s: float = 0.0
    _resting_until_s: float | None = None

    def __call__(self, at_s: float) -> float | None:
        if self.half_since_s is not None:
            return self._half(at_s)
        if self._resting_until_s is not None:
            if self.seen.lag > 0 and at_s < self._resting_until_s:
                return 0.0
            self._resting_until_s, self._began_s = None, at_s
        if self.search.over or at_s >= self.seconds:
            self.half_since_s = at_s + self.warm_up_s
            return self._half(at_s)
        if at_s - self._began_s >= self.warm_up_s + self.measure_s:
            self._judge(at_s)
        return 0.0 if self.search.over else self.search.rate

    def _half(self, at_s: float) -> float | None:
        over = self.search.maximum is None or at_s >= (self.half_since_s or 0.0) + self.half_s
        return None if over or self.search.maximum is None else self.search.maximum / 2

    def _judge(self, at_s: float) -> None:
        rate, lag, window = self.search.rate, self.seen.lag, self.seen.since(self._began_s + self.warm_up_s)
        why = why_not(rate, window, lag)
        again = why is not None and not (self.steps and self.steps[-1].rate == rate)
        self.steps.append(Step(rate, window.orders / window.seconds, window.p99_s, lag, why))
        if not again:
            self.search.judged(why is None)
        self._began_s = at_s
        self._resting_until_s = at_s + self.rest_s if why else None
