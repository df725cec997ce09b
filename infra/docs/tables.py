"""The tables of the three databases, as their migrations make them. The outbox and the inbox are partitioned by UTC
day over the event's id; `shared/messaging/retention.py` makes and drops the partitions.
"""

import ast
import re

from infra.native.stack import PROJECT

DATABASES = ("orders", "billing", "analytics")
STATEMENT = re.compile(r"((?:^--[^\n]*\n)*)(^(?:CREATE|ALTER) [^;]*(?:;[^\n]+\n[^;]*)*;(?: --[^\n]*)?)$", re.MULTILINE)


def body() -> str:
    shared = "\n\n".join(f"### {part}.sql\n\n{_sql(_schema(part))}" for part in ("outbox", "inbox", "tasks"))
    return "\n\n".join([f"## The pattern's own\n\n{shared}", *(_database(name) for name in DATABASES)])


def _schema(part: str) -> str:
    return (PROJECT / "shared" / "messaging" / "schema" / f"{part}.sql").read_text()


def _database(name: str) -> str:
    parts = [f"## Database `{name}`"]
    for file in sorted((PROJECT / "services" / name / "migrations" / "versions").glob("*.py")):
        tree = ast.parse(file.read_text())
        installed = re.findall(r"schema\.install\(op\.get_bind\(\), (.+?)\)", file.read_text())
        title = (ast.get_docstring(tree) or "").splitlines()[0]
        parts.append(f"### {file.stem}: {title}")
        for given in installed:
            names = ", ".join(f"`{part}.sql`" for part in re.findall(r"\w+", given))
            parts.append(f"Installs {names}.")
        parts += [_sql(text) for text in _texts(tree)]
    return "\n\n".join(part for part in parts if part)


def _texts(tree: ast.Module) -> list[str]:
    """Module-level constants with statements in them, in the order of the file."""
    values = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    texts = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return [text for text in texts if re.search(r"^(CREATE|ALTER) TABLE", text, re.MULTILINE)]


def _sql(text: str) -> str:
    """The paragraph above a statement becomes prose, the statement stays what it is."""
    parts = []
    for comment, statement in STATEMENT.findall(text):
        prose = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
        parts.append(f"{prose}\n\n```sql\n{statement}\n```".strip())
    return "\n\n".join(parts)
