"""The native PostgreSQL's beginnings, without a server."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.native import postgres


def test_the_password_is_in_no_file_that_others_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, str]] = []

    def initdb(command: list[str], **_: Any) -> None:
        file = Path(next(word for word in command if word.startswith("--pwfile=")).removeprefix("--pwfile="))
        seen.append((file.stat().st_mode & 0o777, file.read_text()))
        (tmp_path / "unfinished").mkdir()

    monkeypatch.setenv("POSTGRES_USER", "postgres")
    monkeypatch.setenv("POSTGRES_PASSWORD", "not-a-secret-in-a-test")
    monkeypatch.setattr(subprocess, "run", initdb)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)  # afterwards would be too late
    (tmp_path / "password").write_text("of a start that was killed, before this was minded")
    postgres.initialise(tmp_path / "pgdata", prefix=[])
    assert seen == [(0o600, "not-a-secret-in-a-test")]
    assert not (tmp_path / "password").exists()
