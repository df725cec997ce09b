"""make load: shoppers, in a shape, then settle, audit and one report.

Exit status 0: no request failed, and every bar and every promise holds. 1: one did not. 2: it cannot be told. A search
for the limit drives until something gives way: of it, the minute at half of what holds has the bars.
"""

import argparse
import os
import sys
import urllib.request

from loadtest import shapes

NEEDED = {"ORDERS_URL": "/readyz", "BILLING_URL": "/readyz", "CONTROL_ROOM_URL": "/v1/processes"}


def main() -> None:
    given = parser().parse_args()
    for name, path in NEEDED.items():
        url = os.environ.get(name, "")
        if not _answers(url + path):
            sys.exit(f"{url or name} does not answer: make up  (then make ps shows what is not well)")
    minutes = given.minutes or (15.0 if given.shape == "limit" else 1.0)
    options = [
        f"--shape={given.shape}", f"--rate={given.rate}", f"--shoppers={given.users}", f"--minutes={minutes}",
        f"--drain={given.drain}", "--stop-timeout=60", "--skip-log-setup",
    ]  # fmt: skip
    if given.headless:
        options += ["--headless", "--only-summary"]
    else:
        options += ["--web-host=127.0.0.1", f"--web-port={given.port}"]
        print(f"Locust's page: http://127.0.0.1:{given.port}    Ctrl-C ends it", flush=True)
    command = [sys.executable, "-m", "locust", "-f", "loadtest/locustfile.py", *options]
    os.execv(sys.executable, command)  # noqa: S606


def parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(
        prog="python -m loadtest.load", description=__doc__, epilog=_shapes(), formatter_class=form
    )
    made.add_argument("--headless", action="store_true", help="in the terminal, without Locust's page")
    made.add_argument("--shape", choices=shapes.NAMES, default="steady", help="see below (default: steady)")
    made.add_argument("--rate", type=_positive, default=20.0, help="orders per second; limit: the first (default: 20)")
    made.add_argument(
        "--users", type=int, default=0, help="shoppers who share the rate (default: one for each order per second)"
    )
    made.add_argument("--minutes", type=_positive, help="how long (default: 1; limit: at the most 15, and 1 at half)")
    made.add_argument(
        "--drain", type=float, default=900.0, metavar="SECONDS",
        help="how long PDFs and mails may take after the last order before the audit is given up (default: 900)",
    )  # fmt: skip
    made.add_argument("--port", type=int, default=8089, help="of Locust's page (default: 8089)")
    return made


def _positive(given: str) -> float:
    number = float(given)
    if number <= 0:
        raise argparse.ArgumentTypeError("more than 0, please")
    return number


def _shapes() -> str:
    return "shapes:\n" + (shapes.__doc__ or "").split("\n\n", 1)[1]


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):  # noqa: S310  our own address
            return True
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    main()
