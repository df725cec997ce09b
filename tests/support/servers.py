"""Starts a PostgreSQL and a Kafka, runs a command with their addresses in its environment, and ends them again.

`python -m tests.support.servers pytest -n 4`, or `… servers sh` for a shell from which single tests start at once.
"""

import os
import subprocess
import sys

from tests.support.stacks import kafka_bootstrap, messaging_servers, postgres_url


def main() -> int:
    with messaging_servers() as stack:
        addresses = {"TEST_POSTGRES_URL": postgres_url(stack), "TEST_KAFKA_BOOTSTRAP": kafka_bootstrap(stack)}
        return subprocess.run(sys.argv[1:], env=os.environ | addresses).returncode


if __name__ == "__main__":
    sys.exit(main())
