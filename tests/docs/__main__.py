"""make test-docs: every command of the tutorial and of the README, in a copy of the repository, compared with what the
pages print.

`C=05` runs one chapter (after `make up`). `WRITE=1` puts what was printed into the pages where it differs; look at
the result, and say `…` where it varies.
"""

import argparse
import difflib
import sys
import time
from pathlib import Path

from infra.native.stack import PROJECT
from tests.docs import blocks
from tests.docs.blocks import Step
from tests.docs.sandbox import Sandbox, Shell, Stuck, copy_of_the_repository

PAGES = [*sorted((PROJECT / "docs" / "tutorial").glob("[0-9]*.md")), PROJECT / "README.md"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument("chapters", nargs="*", help="05 for docs/tutorial/05-*.md; none: all, then the README")
    parser.add_argument("--write", action="store_true", help="write outputs that differ into the pages")
    given = parser.parse_args()
    pages = [page for page in PAGES if not given.chapters or page.name.startswith(tuple(given.chapters))]
    with copy_of_the_repository() as sandbox:
        if pages[0] != PAGES[0]:
            _prepare(sandbox)
        failed = sum(_replay(page, sandbox, write=given.write) for page in pages)
    print(f"{failed} output(s) differ" if failed else f"{len(pages)} page(s): all outputs as printed")
    return 1 if failed else 0


def _prepare(sandbox: Sandbox) -> None:
    shell = Shell(sandbox)
    status, output = shell.run("make up && make order && make audit")
    shell.close()
    if status:
        sys.exit(output)


def _replay(page: Path, sandbox: Sandbox, *, write: bool) -> int:
    """How many outputs differ."""
    began, failed, changes = time.monotonic(), 0, list[tuple[Step, str]]()
    shell = Shell(sandbox)
    try:
        for step in blocks.steps(page):
            status, output = shell.run(step.command)
            problem = _problem(step, status, output)
            if problem and write and step.expected is not None and (status == 0 or "Error" in step.expected):
                changes.append((step, blocks.presentable(output)))
            elif problem:
                failed += 1
                print(f"{page.relative_to(PROJECT)}:{step.line}: {problem}", flush=True)
    except Stuck as stuck:
        failed += 1
        print(f"{page.relative_to(PROJECT)}: {stuck}")
    finally:
        shell.close()
    _write(page, changes)
    said = "as printed" if not failed and not changes else f"{failed} differ, {len(changes)} written"
    print(f"{page.relative_to(PROJECT)}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    return failed


def _problem(step: Step, status: int, output: str) -> str | None:
    if step.expected is None:
        return None if status == 0 else f"exit status {status}\n{output}"
    if not blocks.matches(step.expected, output, any_order=step.any_order):
        return _difference(step, output)
    if status != 0 and "Error" not in step.expected:
        return f"exit status {status}, and the page does not say so"
    return None


def _difference(step: Step, output: str) -> str:
    shown = difflib.unified_diff(
        (step.expected or "").splitlines(), output.splitlines(), "the page", "this run", lineterm="", n=2
    )
    return "\n".join([f"$ {step.command.strip()}", *shown])


def _write(page: Path, changes: list[tuple[Step, str]]) -> None:
    text = page.read_text()
    for step, output in reversed(changes):
        text = text[: step.span[0]] + output + text[step.span[1] :]
    if changes:
        page.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
