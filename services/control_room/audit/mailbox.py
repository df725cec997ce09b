"""The mailbox, through the part of Mailpit's HTTP API that the native sink speaks too."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

PAGE = 1000
PATIENCE_S = 30.0


def all_mails(url: str) -> Iterator[tuple[str, str]]:
    """(id, Message-ID), newest first. A mail that arrives meanwhile may push another onto the next page again."""
    start = 0
    while messages := _get(f"{url}/api/v1/messages?start={start}&limit={PAGE}")["messages"]:
        for message in messages:
            yield message["ID"], message["MessageID"]
        start += len(messages)


def of_message_id(url: str, message_id: str) -> list[dict[str, Any]]:
    query = urllib.parse.quote(f'message-id:"{message_id}"')
    messages: list[dict[str, Any]] = _get(f"{url}/api/v1/search?query={query}&limit=100")["messages"]
    return [message for message in messages if message["MessageID"] == message_id]


def count(url: str) -> int:
    return int(_get(f"{url}/api/v1/messages?limit=1")["total"])


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310  the address is our own setting
        return json.load(answer)
