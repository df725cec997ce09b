"""Tables in Markdown."""

from collections.abc import Iterable


def table(titles: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = list(titles)
    lines = [_row(head), _row("---" for _ in head), *(_row(cells) for cells in rows)]
    return "\n".join(lines)


def code(text: object) -> str:
    return f"`{text}`" if text not in (None, "") else ""


def _row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
