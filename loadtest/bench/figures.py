"""A figure and its bar. What is compared is measured in turn, A B A B A B: a machine that slows down slows both."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Say = Callable[[str], None]


@dataclass(frozen=True)
class Series:
    """One thing measured several times; the median counts, the extremes are the spread."""

    name: str
    unit: str
    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.runs), max(self.runs)

    def over(self, other: "Series") -> tuple[float, ...]:
        """Round by round: the two runs of a round saw the same machine."""
        return tuple(mine / theirs for mine, theirs in zip(self.runs, other.runs, strict=True))


@dataclass(frozen=True)
class Figure:
    """`at_least` or `at_most` is the bar; a figure with neither is for information."""

    group: str
    name: str
    measured: Series
    at_least: float | None = None
    at_most: float | None = None
    beside: tuple[Series, ...] = ()
    """The absolute figures a ratio was made of."""

    @property
    def holds(self) -> bool:
        value = self.measured.median
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    @property
    def has_bar(self) -> bool:
        return self.at_least is not None or self.at_most is not None


def ratio(group: str, name: str, of: Series, to: Series, *, at_least: float) -> Figure:
    return Figure(group, name, Series("ratio", "×", of.over(to)), at_least=at_least, beside=(of, to))


def in_turn(ways: Mapping[str, Callable[[], float]], *, rounds: int, unit: str, say: Say) -> dict[str, Series]:
    """Each way once per round. Every other round goes backwards, so that no way always follows the same neighbour."""
    runs: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        order: Sequence[str] = list(ways) if number % 2 == 0 else list(ways)[::-1]
        for name in order:
            runs[name].append(ways[name]())
            say(f"  {number + 1}/{rounds}  {name:<44} {runs[name][-1]:>12,.0f} {unit}")
    return {name: Series(name, unit, tuple(measured)) for name, measured in runs.items()}
