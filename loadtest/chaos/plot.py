"""Lines and marks over time, as SVG by hand: a report must open anywhere, in years, without another file."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT = 1080, 120, 16
Points = Sequence[tuple[float, float | None]]
"""(seconds, value); None breaks the line."""


@dataclass(frozen=True)
class Line:
    name: str
    points: Points

    @property
    def has_any(self) -> bool:
        return any(y for _, y in self.points)


@dataclass(frozen=True)
class Mark:
    lane: str
    from_s: float
    to_s: float
    said: str


@dataclass(frozen=True)
class Axis:
    end_s: float

    def x(self, seconds: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * seconds / self.end_s, 1)

    def ticks(self) -> list[int]:
        hours = 3600 * math.ceil(self.end_s / 3600 / 12)
        step = next((step for step in (10, 15, 30, 60, 120, 300, 600) if self.end_s / step <= 12), hours)
        return list(range(0, int(self.end_s) + 1, step))


def lines(axis: Axis, height: int, shown: Sequence[Line], unit: str, *, load_ends_s: float) -> str:
    top = _round_up(max((y for line in shown for _, y in line.points if y is not None), default=1.0))
    floor = height - 22

    def y(value: float) -> float:
        return round(floor - (floor - 10) * value / top, 1)

    parts = [_time_grid(axis, height, load_ends_s)]
    for value in (0, top / 2, top):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value)}" y2="{y(value)}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y(value) + 4}" text-anchor="end">{value:,g}</text>')
    parts.append(f'<text class="tick" x="0" y="14">{escape(unit)}</text>')
    for number, line in enumerate(shown):
        path = _path([(axis.x(at), None if value is None else y(value)) for at, value in line.points])
        parts.append(f'<path class="line l{number}" d="{path}"><title>{escape(line.name)}</title></path>')
    return _svg(height, parts)


def lanes(axis: Axis, shown: Sequence[Mark], *, load_ends_s: float) -> str:
    names = sorted({mark.lane for mark in shown})
    height = 20 * len(names) + 30
    parts = [_time_grid(axis, height, load_ends_s)]
    for number, name in enumerate(names):
        y = 8 + 20 * number
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y + 7}" y2="{y + 7}"/>')
    for mark in shown:
        x, y = axis.x(mark.from_s), 8 + 20 * names.index(mark.lane)
        width = max(5.0, axis.x(mark.to_s) - x)
        parts.append(
            f'<rect class="mark" x="{x}" y="{y}" width="{width:.1f}" height="14" rx="3">'
            f"<title>{escape(mark.said)}</title></rect>"
        )
    return _svg(height, parts)


def _time_grid(axis: Axis, height: int, load_ends_s: float) -> str:
    floor = height - 22
    end = axis.x(min(load_ends_s, axis.end_s))
    parts = [f'<rect class="after" x="{end}" y="0" width="{WIDTH - RIGHT - end:.1f}" height="{floor}"/>']
    for tick in axis.ticks():
        x = axis.x(tick)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{floor}"/>')
        parts.append(
            f'<text class="tick" x="{x}" y="{height - 6}" text-anchor="middle">{tick // 60}:{tick % 60:02}</text>'
        )
    return "".join(parts)


def _path(points: Sequence[tuple[float, float | None]]) -> str:
    words, pen_down = [], False
    for x, y in points:
        if y is not None:
            words.append(f"{'L' if pen_down else 'M'}{x} {y}")
        pen_down = y is not None
    return "".join(words)


def _round_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten, so that the axis has plain numbers."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


def _svg(height: int, parts: Sequence[str]) -> str:
    return f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg></div>'
