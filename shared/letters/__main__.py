"""Dead letters on the command line: `python -m shared.letters --help`.

does    turns commands into calls of shared/messaging/dead_letters.py
reads   dead_letters, in the database of DATABASE_URL
writes  through these calls: dead_letters, inbox, and what the handlers write
next    shared/messaging/dead_letters.py
"""

import argparse
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from shared.messaging import dead_letters
from shared.messaging.dead_letters import DeadLetter
from shared.messaging.errors import MessagingError, Misuse
from shared.runtime import database, failpoints


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    url = os.environ.get("DATABASE_URL")
    if not url:
        print("DATABASE_URL is not set: the database of the consumer whose letters these are", file=sys.stderr)
        return 2
    engine = database.engine(url, "dead-letters", pool_size=1)
    try:
        given.run(engine, given)
    except (MessagingError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    finally:
        engine.dispose()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m shared.letters", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(run=run)
        return sub

    listing = command("list", _list, "the open letters, oldest first")
    listing.add_argument("--consumer")
    listing.add_argument("--reason")
    listing.add_argument("--closed", action="store_true", help="the closed ones instead")
    command("show", _show, "one letter with its bytes").add_argument("id", type=int)
    again = command("redrive", _redrive, "apply letters after all, each in one transaction")
    again.add_argument("id", type=int, nargs="+")
    again.add_argument("--accept-late", action="store_true", help="also what is older than the inbox remembers")
    again.add_argument("--handlers", default=os.environ.get("HANDLERS"), help="services.billing.handlers:HANDLERS")
    fix = command("repair", _repair, "store corrected bytes beside the original; then redrive")
    fix.add_argument("id", type=int)
    fix.add_argument("file", type=Path, help="the corrected event, as JSON; - reads it from standard input")
    for sub in (again, fix):
        sub.add_argument("--contracts", default=os.environ.get("CONTRACTS", "shared.contracts:CONTRACTS"))
    away = command("discard", _discard, "never apply it")
    away.add_argument("id", type=int, nargs="+")
    away.add_argument("--why", required=True)
    return parser


def _list(engine: Engine, given: argparse.Namespace) -> None:
    with Session(engine) as session:
        for letter in _all(session, given):
            place = f"{letter.topic}/{letter.partition}@{letter.offset}"
            state = f"[{letter.outcome}]" if letter.outcome else "[repaired]" if letter.repaired_hash else ""
            print(letter.id, letter.consumer, letter.reason, letter.event_id or "-", place, letter.error, state)


def _all(session: Session, given: argparse.Namespace) -> Iterator[DeadLetter]:
    after = 0
    while page := dead_letters.listed(session, given.consumer, reason=given.reason, closed=given.closed, after=after):
        yield from page
        after = page[-1].id


def _show(engine: Engine, given: argparse.Namespace) -> None:
    with Session(engine) as session:
        letter = dead_letters.show(session, given.id)
    for name in DeadLetter.__slots__:
        value = getattr(letter, name)
        if name.endswith("hash"):
            value = value and value.hex()
        print(f"{name:15}{_harmless(value.decode(errors='replace') if isinstance(value, bytes) else str(value))}")


def _harmless(text: str) -> str:
    """A stranger's bytes must not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def _redrive(engine: Engine, given: argparse.Namespace) -> None:
    if not given.handlers:
        raise Misuse("redrive needs --handlers module:NAME, or HANDLERS in the environment")
    found, contracts = _named(given.handlers), _named(given.contracts)
    failpoints.configure(os.environ.get("FAILPOINTS", ""))
    for letter_id in given.id:
        print(letter_id, dead_letters.redrive(engine, letter_id, found, contracts, accept_late=given.accept_late))


def _repair(engine: Engine, given: argparse.Namespace) -> None:
    value = sys.stdin.buffer.read() if str(given.file) == "-" else given.file.read_bytes()
    dead_letters.repair(engine, given.id, value, _named(given.contracts))
    print(f"{given.id} repaired; the original bytes are kept; redrive it now")


def _discard(engine: Engine, given: argparse.Namespace) -> None:
    for letter_id in given.id:
        dead_letters.discard(engine, letter_id, given.why)
        print(letter_id, "discarded")


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Misuse(f"{name!r} names nothing: expected module:NAME ({error})") from error


if __name__ == "__main__":
    sys.exit(main())
