"""Commands and outputs of a page.

A fence of `sh` is run. A fence of `text` after the words "You should see" is what the command before it must print:
`…` in a line stands for anything, a line with nothing but `…` for any number of lines, and the width of columns
does not matter. A command under `<!-- not run: why -->` is left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_LINES = r"(?:[^\n]*\n)*?"


@dataclass(frozen=True)
class Step:
    page: Path
    line: int
    command: str
    expected: str | None
    """None: the page shows no output; the command must succeed."""
    any_order: bool = False
    """Things that happen at the same time are printed in the order in which they happened."""
    span: tuple[int, int] = (0, 0)
    """Where the output stands in the page."""


def steps(page: Path) -> Iterator[Step]:
    text = page.read_text()
    fences = list(FENCE.finditer(text))
    for number, fence in enumerate(fences):
        if fence[1] != "sh" or re.search(r"<!-- not run: .+ -->\s*$", text[: fence.start()]):
            continue
        following = fences[number + 1] if number + 1 < len(fences) else None
        between = text[fence.end() : following.start()] if following else ""
        shown = following if following and following[1] == "text" and "You should see" in between else None
        line = text.count("\n", 0, fence.start()) + 2
        any_order = "in any order" in between
        yield Step(page, line, fence[2], *((shown[2], any_order, shown.span(2)) if shown else (None,)))


def matches(expected: str, actual: str, *, any_order: bool = False) -> bool:
    if any_order:
        return _match_as_sets(_even(expected).splitlines(), _even(actual).splitlines())
    return re.fullmatch(_pattern(expected), _even(actual)) is not None


def _match_as_sets(expected: list[str], actual: list[str]) -> bool:
    """Each line has its own counterpart, unless a lone `…` takes what is left. The most exact lines choose first."""
    for line in sorted(set(expected) - {"…"}, key=lambda line: -len(line)):
        found = [each for each in actual if re.fullmatch(_line(line), each)]
        if len(found) < expected.count(line):
            return False
        for each in found[: expected.count(line)]:
            actual.remove(each)
    return not actual or "…" in expected


def _pattern(expected: str) -> str:
    return "".join(ANY_LINES if line == "…" else _line(line) + r"\n" for line in _even(expected).splitlines())


def _line(line: str) -> str:
    return r"[^\n]+".join(re.escape(part.strip() if part.isspace() else part) for part in line.split("…"))


def _even(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.strip().splitlines()]
    return "".join(f"{line}\n" for line in lines)


VARIES = [
    (r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "…"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00(?::00)?|Z)?", "…"),
    (r"\b\d+(?:\.\d+)? (s|ms|orders/s)\b", r"… \1"),
    (r"\b\d:\d\d:\d\d\b", "…"),
    (r"\b\d+ orders(?=[:,)])", "… orders"),
    (r" \d+( +0  holds)$", r" …\1"),
    (r"partition \d+ offset \d+", "partition … offset …"),
    (r"(orders\.confirmed)/\d+@\d+", r"\1/…"),
    (r"customer-\d+@(.+) S\d-\d{6}", r"customer-…@\1 S…"),
    (r"\[Makefile:\d+:", "[Makefile:…:"),
    (r"127\.0\.0\.1:\d+(?=/\?token=)", "127.0.0.1:8000"),
    (r"token=[0-9a-f]{32}", "token=…"),
]


def presentable(actual: str) -> str:
    """A draft of what a page shows: what differs from run to run is `…`."""
    for pattern, stands_for in VARIES:
        actual = re.sub(pattern, stands_for, actual, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in actual.strip("\n").splitlines()) + "\n"
