"""What must never happen, and the promises by which `make audit` finds out whether it has."""

from infra.docs.markdown import table
from services.control_room.audit.verdicts import Verdicts

NEVER = [
    "An acknowledged order without its event; a published event of an order that was rolled back.",
    "An offset moved past an event that is neither applied nor parked.",
    "Two invoices, two invoice numbers or two counts for an order; a gap in invoice numbers.",
    "An effect applied because the inbox had forgotten.",
    "A different payload under a known id taken for a duplicate in silence.",
    "A handler that talks to anything but its own database.",
    "A log line instead of a decision: no “log the error and poll on”.",
]


def body() -> str:
    never = "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(NEVER, 1))
    promises = table(["", "promise"], enumerate((verdict.promise for verdict in Verdicts()), 1))
    return f"## Never\n\n{never}\n\n## The audit's promises\n\n{promises}"
