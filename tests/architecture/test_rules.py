"""Rules about the repository itself."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from infra.native.stack import PROJECT
from shared.contracts.__main__ import schema_files
from shared.runtime.web import VENDOR


def test_services_do_not_import_each_other_and_the_pattern_does_not_know_the_shop() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    check = subprocess.run([linter, "--no-cache"], cwd=PROJECT, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout


def test_every_process_is_a_file_of_its_own() -> None:
    services = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
    entry_files = set()
    for service in (service for service in services.values() if "profiles" not in service):
        modules = [word.split(":")[0] for word in service.get("command", []) if word.startswith("services.")]
        entry_files |= {PROJECT / (module.replace(".", "/") + ".py") for module in modules}
    assert len(entry_files) == 10
    assert [str(file) for file in entry_files if not file.exists()] == []


@pytest.mark.parametrize("lock", sorted((PROJECT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_locks_have_hashes_and_name_no_address(lock: Path) -> None:
    text = lock.read_text()
    pins = re.findall(r"^\S+==\S+.*\\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE))
    assert "://" not in text


def test_json_schemas_are_those_of_the_models() -> None:
    for path, schema in schema_files().items():
        assert json.loads(path.read_text()) == json.loads(schema), f"{path.name}: run python -m shared.contracts"


def test_no_secret_can_be_committed() -> None:
    ignored = subprocess.run(
        ["git", "check-ignore", ".env", ".run", ".venv"], cwd=PROJECT, capture_output=True, text=True
    )
    assert ignored.stdout.split() == [".env", ".run", ".venv"]


@pytest.mark.parametrize("readme", sorted(VENDOR.glob("*/README.md")), ids=lambda path: path.parent.name)
def test_vendored_files_are_what_their_readme_says(readme: Path) -> None:
    listed = dict(re.findall(r"^\| (\S+) \| ([0-9a-f]{64}) \|$", readme.read_text(), re.MULTILINE))
    files = {path for path in readme.parent.rglob("*") if path.is_file() and path != readme}
    found = {str(path.relative_to(readme.parent)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert listed == found
