"""The crash windows: named places where a process can be made to die (`kill`), to sleep beyond every time-out
(`pause:<seconds>`) or to fail (`error`). `make crash AT=… ACTION=…` opens one and audits; `make crash-all` opens
every one. `*` is a consumer's name.
"""

from infra.docs.markdown import code, table
from shared.runtime.failpoints import CATALOGUE

WHY = {
    "orders.api.before_commit": "the client retries; nothing was written",
    "orders.api.after_commit": "the client retries with its Idempotency-Key and gets the first answer",
    "orders.relay.after_claim": "the rows are still unpublished",
    "orders.relay.after_produce": "published again, in the same order: the inbox takes each once",
    "orders.relay.after_ack": "published again, in the same order: the inbox takes each once",
    "*.consumer.after_receive": "delivered again",
    "*.consumer.after_claim": "rolled back with everything else",
    "*.consumer.before_commit": "rolled back with everything else",
    "*.consumer.after_commit": "delivered again, and the inbox knows it",
    "*.consumer.after_offset": "nothing is left to do",
    "*.consumer.before_park": "found bad again, and parked then",
    "billing.worker.after_lease": "the lease runs out, another worker takes it",
    "billing.worker.after_render": "rendered again, to the same bytes",
    "billing.worker.after_store": "the e-mail's task is in the same transaction, and is next",
    "billing.worker.before_smtp": "outcome unknown: sent (again) under the same Message-ID, and counted",
    "billing.worker.after_smtp": "outcome unknown: sent again under the same Message-ID, and counted",
    "billing.reconciler.before_commit": "rolled back; the next run does it",
    "billing.redrive.before_commit": "rolled back; the letter is still open",
    "housekeeping.before_commit": "rolled back; the partition and the floor are as before",
}


def body() -> str:
    return table(
        ["failpoint", "the process dies or sleeps…", "why nothing is lost or doubled"],
        ([code(name), when, WHY[name]] for name, when in CATALOGUE.items()),
    )
