"""From answers to figures: what a sample says about the shop."""

from typing import Any

from services.control_room.ledger import InFlight, Ledger

CONSUMERS = ("billing", "analytics")
Answered = dict[str, dict[str, Any]]


def ledger(answers: Answered) -> Ledger:
    billing, analytics = answers["billing_inbox"], answers["analytics_inbox"]
    invoices, undeliverable = answers["invoices"]["invoices"], answers["outcomes"]["undeliverable"]
    return Ledger(
        orders=answers["confirmed"]["orders"],
        delivered=billing["delivered"],
        duplicates=billing["duplicates"],
        delivered_to_analytics=analytics["delivered"],
        duplicates_in_analytics=analytics["duplicates"],
        invoices=invoices,
        pdfs=answers["pdfs"]["pdfs"],
        mails=max(0, invoices - answers["unsent"]["unsent"] - undeliverable),
        undeliverable=undeliverable,
        counted=answers["counted"]["counted"],
    )


def partitions(answers: Answered, ends: dict[int, int]) -> list[dict[str, int]]:
    """Of each: where it ends, and how far each consumer has settled it."""
    return [
        {"partition": number, "end": end}
        | {name: answers[f"{name}_offsets"]["offsets"].get(str(number), 0) for name in CONSUMERS}
        for number, end in ends.items()
    ]


def lag(partitions: list[dict[str, int]]) -> dict[str, int]:
    return {name: sum(max(0, p["end"] - p[name]) for p in partitions) for name in CONSUMERS}


def in_flight(answers: Answered, lag: dict[str, int]) -> InFlight:
    unsent, unrendered = answers["unsent"]["unsent"], answers["unsent"]["unrendered"]
    unpublished = answers["outbox"]["unpublished"]
    return InFlight(unpublished, lag["billing"], lag["analytics"], unrendered, unsent - unrendered)


def letters(answers: Answered) -> dict[str, int]:
    return {name: answers[f"{name}_letters"]["letters"] for name in CONSUMERS}
