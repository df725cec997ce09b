"""What make crash and the commands of mischief make of what they find, without a shop."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from loadtest import mischief
from loadtest.crash import __main__ as crash
from loadtest.crash import windows
from loadtest.crash.sweep import Outcome
from services.control_room.audit.verdicts import Verdicts


def test_the_newest_of_many_open_letters_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = [{"id": n, "partition": 0, "offset": n} for n in range(1, 251)]

    def page(_method: str, path: str) -> Any:
        after = int(path.partition("&cursor=")[2] or 0)
        rest = [letter for letter in letters if letter["id"] > after]
        return {"items": rest[:100], "next_cursor": rest[99]["id"] if len(rest) > 100 else None}

    monkeypatch.setattr(windows, "_billing", page)
    assert windows._letter_at({"partition": 0, "first_offset": 250}) == letters[-1]
    assert windows._letter_at({"partition": 1, "first_offset": 250}) is None


def test_each_broken_promise_is_named_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=StringIO(), width=200)
    monkeypatch.setattr(crash, "screen", screen)
    verdicts = Verdicts()
    verdicts.copies.check(False, "order-1", "2 copies, 1 allowed")
    crash._print([Outcome("billing.worker.after_smtp", "kill", "billing-worker", True, 1.0, True, verdicts)], 5)
    said = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "1 × broken: copies in the mailbox ≤ 1 + unknown outcomes (5 s)" in said
    assert "lost" not in said


@pytest.mark.parametrize("since", ["", "yesterday", "2026-11-18T00:00"])
def test_republish_asks_since_when(
    since: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["mischief", "republish", "--since", since])
    with pytest.raises(SystemExit) as ended:
        mischief.main()
    assert ended.value.code == 2
    assert "since when? SINCE=2026-11-18T00:00Z" in capsys.readouterr().err
