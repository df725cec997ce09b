"""Writes docs/reference anew. Each module beside this one is a page: its docstring is the page's first paragraph."""

from importlib import import_module
from pathlib import Path

from infra.native.stack import PROJECT

FOLDER = PROJECT / "docs" / "reference"
PAGES = {
    "processes": "Processes",
    "settings": "Settings",
    "events": "Events",
    "tables": "Tables",
    "http": "HTTP APIs",
    "metrics": "Metrics and alerts",
    "commands": "Make targets",
    "failpoints": "Failpoints",
    "invariants": "Invariants",
}


def pages() -> dict[Path, str]:
    return {FOLDER / f"{name}.md": _page(name, title) for name, title in PAGES.items()}


def _page(name: str, title: str) -> str:
    module = import_module(f"infra.docs.{name}")
    told = (module.__doc__ or "").strip()
    return f"# {title}\n\n{told}\n\n{module.body().strip()}\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, page in pages().items():
        path.write_text(page)
        print(f"{path.relative_to(PROJECT)} written")
