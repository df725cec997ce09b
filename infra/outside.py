"""Runs a Python module on this machine with all that it needs to reach the running stack, in Docker or natively:

    python -m infra.outside services.control_room.audit --wait 60

Both modes publish the same ports on 127.0.0.1 (natively moved by PORT_OFFSET), so one environment serves both.
"""

import os
import sys

from infra.native.__main__ import RUN, this_stack
from infra.native.compose import BadComposeFile
from infra.native.stack import Stack


def environment(stack: Stack) -> dict[str, str]:
    port = {name: program.published for name, program in stack.plan.programs.items()}
    auditor = f"postgresql://auditor:{stack.variables['AUDITOR_DB_PASSWORD']}@127.0.0.1:{port['postgres'][0]}"
    mode = RUN / "mode"
    return {
        "MODE": mode.read_text().strip() if mode.exists() else "native",
        "ORDERS_URL": f"http://127.0.0.1:{port['orders-api'][0]}",
        "BILLING_URL": f"http://127.0.0.1:{port['billing-api'][0]}",
        "ANALYTICS_URL": f"http://127.0.0.1:{port['analytics-api'][0]}",
        "CONTROL_ROOM_URL": f"http://127.0.0.1:{port['control-room'][0]}",
        "MAIL_URL": f"http://127.0.0.1:{port['mail'][1]}",
        "KAFKA_BOOTSTRAP": f"127.0.0.1:{port['kafka'][0]}",
        **{f"{name.upper()}_DATABASE_URL": f"{auditor}/{name}" for name in ("orders", "billing", "analytics")},
        **{
            name: stack.variables.get(name, "") for name in ("FAILPOINTS_TOKEN", "OPERATOR_TOKEN", "CONTROL_ROOM_TOKEN")
        },
        "LEDGER": str(stack.run / "ledger.jsonl"),
        **_naive(stack, auditor),
    }


def _naive(stack: Stack, auditor: str) -> dict[str, str]:
    if "naive-orders" not in stack.plan.programs:
        return {}
    return {
        "COMPOSE_PROFILES": stack.variables["COMPOSE_PROFILES"],
        "NAIVE_ORDERS_URL": f"http://127.0.0.1:{stack.plan.programs['naive-orders'].published[0]}",
        **{f"{name.upper()}_DATABASE_URL": f"{auditor}/{name}" for name in ("naive_orders", "naive_billing")},
        "NAIVE_LEDGER": str(stack.run / "naive-ledger.jsonl"),
    }


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        known = environment(this_stack())
    except BadComposeFile as error:
        sys.exit(f"The stack has never been started here: make up  ({error})")
    # What the caller sets stands: ORDERS_URL=… make order.
    os.execve(sys.executable, [sys.executable, "-m", *sys.argv[1:]], {**known, **os.environ})  # noqa: S606


if __name__ == "__main__":
    main()
