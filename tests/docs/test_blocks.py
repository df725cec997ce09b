"""How an output on a page is compared with what a command printed."""

from pathlib import Path

import pytest

from tests.docs import blocks

PRINTED = "promise    checked  verdict\none event       12  holds\nEvery promise holds (12 orders, 0.4 s).\n"


@pytest.mark.parametrize(
    "page",
    [
        PRINTED,
        "promise checked verdict\none event … holds\nEvery promise holds (12 orders, … s).\n",
        "promise checked verdict\n…\nEvery promise holds (… orders, … s).\n",
        "…\n",
    ],
    ids=["to the letter", "with what varies", "with lines left out", "nothing said"],
)
def test_an_output_is_as_printed(page: str) -> None:
    assert blocks.matches(page, PRINTED)


@pytest.mark.parametrize(
    "page",
    [
        PRINTED.replace("holds (12", "is broken (12"),
        PRINTED.replace("       12", "       13"),
        PRINTED + "one more line\n",
        "one event 12 holds\n",
        "",
    ],
    ids=["another word", "another number", "a line too many", "lines too few", "nothing"],
)
def test_an_output_changed_by_hand_is_found_out(page: str) -> None:
    assert not blocks.matches(page, PRINTED)


def test_a_page_gives_its_commands_with_their_outputs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\none\n```\n\nYou should see:\n\n```text\n1\n```\n\n```sh\ntwo\n```\n\n"
        "Then:\n\n```text\na picture\n```\n\n"
        "<!-- not run: takes an hour -->\n```sh\nthree\n```\n"
    )
    assert [(step.line, step.command, step.expected) for step in blocks.steps(page)] == [
        (2, "one\n", "1\n"),
        (12, "two\n", None),
    ]


def test_what_happens_at_the_same_time_may_be_printed_in_any_order() -> None:
    printed = "b is healthy after 2 s\na is healthy after 1 s\nall healthy\n"
    page = "a is healthy after … s\nb is healthy after … s\nall healthy\n"
    assert blocks.matches(page, printed, any_order=True)
    assert not blocks.matches(page, printed)
    assert not blocks.matches(page.replace("b is", "c is"), printed, any_order=True)
    assert not blocks.matches(page, printed + "d is ill\n", any_order=True)
