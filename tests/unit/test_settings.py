import pytest
from pydantic import Field

from shared.runtime.settings import ProcessSettings, load


class ExampleSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    batch: int = Field(gt=0)


def test_every_problem_is_reported_together_and_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BATCH", "-1")
    monkeypatch.setenv("OPS_BIND", "nowhere")
    with pytest.raises(SystemExit) as exit_:
        load(ExampleSettings)
    said = capsys.readouterr().err
    assert exit_.value.code == 2
    assert "4 problem(s)" in said
    assert "PROCESS: is not set" in said
    assert "DATABASE_URL: is not set" in said
    assert "BATCH: input should be greater than 0" in said
    assert "OPS_BIND: value error, expected host:port" in said


def test_a_bad_secret_is_not_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BATCH", "hunter2")
    with pytest.raises(SystemExit):
        load(ExampleSettings)
    assert "hunter2" not in capsys.readouterr().err


def test_settings_cannot_be_changed_and_do_not_show_the_database_password(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PROCESS": "p", "DATABASE_URL": "postgresql://u:hunter2@h/d", "BATCH": "1"}.items():
        monkeypatch.setenv(name, value)
    settings = load(ExampleSettings)
    assert "hunter2" not in repr(settings)
    with pytest.raises(ValueError, match="frozen"):
        settings.batch = 2  # type: ignore[misc]
