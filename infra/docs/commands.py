"""`make` alone prints this list. CI calls nothing else."""

import re

from infra.docs.markdown import code, table
from infra.native.stack import PROJECT


def body() -> str:
    text = (PROJECT / "Makefile").read_text()
    parts = re.split(r"^# -{4} (.+?) -+$", text, flags=re.MULTILINE)
    groups = zip(["help", *parts[1::2]], parts[::2], strict=True)
    return "\n\n".join(f"## {title.capitalize()}\n\n{_targets(part)}" for title, part in groups if _found(part))


def _found(part: str) -> list[tuple[str, str]]:
    return re.findall(r"^([a-z-]+):.*## (.+)$", part, re.MULTILINE)


def _targets(part: str) -> str:
    return table(["target", ""], ([code(f"make {name}"), sentence] for name, sentence in _found(part)))
