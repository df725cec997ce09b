"""ETag and If-Match: the client says which version it has seen, and nothing happens if that is no longer the one."""

from werkzeug.http import parse_etags

from shared.runtime.problems import Problem

Versions = list[int] | None
"""The versions that the client accepts; None: any (no header, or `*`)."""


class OrderChanged(Problem):
    """The order is at another version than the client has seen."""

    def __init__(self, version: int) -> None:
        super().__init__(
            412, "order-changed", f"The order has changed since: it is at version {version} now.", version=version
        )


def versions(if_match: str | None) -> Versions:
    """Weak tags and tags that we never gave match nothing."""
    if if_match is None:
        return None
    tags = parse_etags(if_match)
    if tags.star_tag:
        return None
    return [int(tag) for tag in tags.as_set() if tag and tag.isascii() and tag.isdigit() and len(tag) < 10]


def required(if_match: str | None) -> Versions:
    if if_match is None:
        raise Problem(428, "if-match-required", "Say which version you change: If-Match with the ETag you have read.")
    return versions(if_match)
