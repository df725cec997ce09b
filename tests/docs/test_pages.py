"""The docs stay true: links lead somewhere, generated pages are those of the code, and what diagrams name is there."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from infra.docs import failpoints, processes
from infra.docs.__main__ import pages
from infra.native.stack import PROJECT
from shared.runtime.failpoints import CATALOGUE
from tests.docs import blocks

DOCS = PROJECT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *PROJECT.glob("*.md"), *PROJECT.glob("services/*/README.md")])
PATH = re.compile(r"`((?:services|shared|infra|tests|loadtest|examples|docs|requirements)/[\w./-]+)`")
PROCESS = re.compile(r"\b(?:orders|billing|analytics)-(?:[a-z]+)\b")
NOT_PROCESSES = {"orders-migrate", "billing-migrate", "analytics-migrate"}


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", blocks.FENCE.sub("", text))


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", blocks.FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_internal_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{target} leads nowhere"
        assert not anchor or anchor in anchors(file), f"{target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = PATH.findall(blocks.FENCE.sub("", page.read_text()))
    made_by_the_reader = {"shared/contracts/orders_cancelled.py"}
    missing = [name for name in named if not (PROJECT / name).exists() and name not in made_by_the_reader]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    named = set(re.findall(r"`(?:[A-Z_]+=\S+ )*make ([a-z][a-z-]*)", text))
    named |= {name for step in blocks.steps(page) for name in re.findall(r"\bmake ([a-z][a-z-]*)", step.command)}
    assert named <= targets, f"no such target: {named - targets}"


SOURCE_SHOWN = [step for page in PAGES for step in blocks.steps(page) if re.fullmatch(r"sed -n \S.*\n?", step.command)]


@pytest.mark.parametrize("step", SOURCE_SHOWN, ids=lambda step: f"{step.page.name}:{step.line}")
def test_source_that_a_page_shows_is_the_source_of_today(step: blocks.Step) -> None:
    shown = subprocess.run(["sh", "-c", step.command], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert step.expected is not None
    assert shown.strip() == step.expected.strip()


def test_diagrams_name_processes_that_exist() -> None:
    known = set(processes.services()) | NOT_PROCESSES
    for diagram in [*DOCS.rglob("*.svg"), *PAGES]:
        text = diagram.read_text()
        if diagram.suffix == ".md":
            text = "".join(fence[2] for fence in blocks.FENCE.finditer(text) if fence[1] == "text")
        named = set(PROCESS.findall(text))
        assert named <= known, f"{diagram.relative_to(PROJECT)}: {named - known}"


def test_every_page_of_the_site_is_in_its_navigation() -> None:
    nav = yaml.safe_load((PROJECT / "mkdocs.yml").read_text())["nav"]
    listed = {entry for part in nav for entry in (next(iter(part.values())) if isinstance(part, dict) else [part])}
    assert {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"reference/benchmarks.md"} == listed - {
        "reference/benchmarks.md"
    }


def test_generated_pages_are_those_of_the_code() -> None:
    stale = [path.name for path, page in pages().items() if path.read_text() != page]
    assert stale == [], "python -m infra.docs writes them anew"


def test_every_failpoint_says_why_it_is_survived() -> None:
    assert list(failpoints.WHY) == list(CATALOGUE)


def test_every_decision_has_its_four_parts() -> None:
    for page in DOCS.glob("decisions/[0-9]*.md"):
        titles = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
        assert set(titles) >= {"Context", "Decision", "Consequences", "Revisit when"}, page.name


def test_the_last_chapter_prints_the_files_of_the_example() -> None:
    text = (DOCS / "tutorial" / "13-your-own-consumer.md").read_text()
    written = dict(re.findall(r"^cat > inventory/(\S+) <<'EOF'\n(.*?)^EOF$", text, re.MULTILINE | re.DOTALL))
    folder = PROJECT / "examples" / "inventory"
    assert written == {name: (folder / name).read_text().replace("examples.inventory", "inventory") for name in written}
    assert set(written) == {"tables.sql", "reserve.py", "consumer.py"}
    assert sum(text.count("\n") for text in written.values()) < 80
