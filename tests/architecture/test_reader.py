"""The pattern stays small enough to be read, and says where to begin."""

import ast
import io
import re
import tokenize
from pathlib import Path

import shared.messaging
from infra.native.stack import PROJECT

MESSAGING = PROJECT / "shared" / "messaging"
MOST_LINES = 1550


def lines_of_code(file: Path) -> int:
    """What a reader reads: a statement is one line however it is wrapped, a text (SQL) as many as it has.

    Not counted: blank lines, comments, prose (docstrings and sentences under fields) and imports.
    """
    source = file.read_text()
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    ends = {token.start[0] for token in tokens if token.type == tokenize.NEWLINE}
    texts = [token for token in tokens if token.type == tokenize.STRING]
    within = {line for text in texts for line in range(text.start[0], text.end[0]) if source.splitlines()[line].strip()}
    return len((ends | within) - _not_code(ast.parse(source)))


def _not_code(tree: ast.Module) -> set[int]:
    prose = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str))
    ]  # fmt: skip
    return {line for node in prose for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def test_the_pattern_can_be_read_in_twenty_minutes() -> None:
    sizes = {file.name: lines_of_code(file) for file in MESSAGING.glob("*.py")}
    assert sum(sizes.values()) < MOST_LINES, sizes


def test_the_package_names_its_files_in_reading_order() -> None:
    told = re.findall(r"^(\w+\.py) ", shared.messaging.__doc__ or "", re.MULTILINE)
    assert len(told) == 8
    assert [name for name in told if not (MESSAGING / name).exists()] == []


def test_every_file_of_the_pattern_says_what_it_does_reads_and_writes_and_what_is_next() -> None:
    for file in MESSAGING.glob("*.py"):
        if file.name not in ("__init__.py", "errors.py"):
            header = ast.get_docstring(ast.parse(file.read_text())) or ""
            assert re.findall(r"^(does|reads|writes|next) ", header, re.MULTILINE) == [
                "does", "reads", "writes", "next",
            ], file.name  # fmt: skip
