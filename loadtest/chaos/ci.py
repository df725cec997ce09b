"""make chaos-ci: a short run with a fixed seed, on a stack of its own that is gone afterwards, whatever happens."""

import os
import sys

from infra import outside
from infra.control import Native
from loadtest.chaos import __main__ as chaos
from loadtest.chaos.shops import the_shop
from services.control_room.settings import PlacesSettings
from shared.runtime.settings import load
from tests.support.stacks import temporary_stack


def main() -> int:
    given = chaos.parser().parse_args()
    with temporary_stack() as stack:
        stack.say = lambda line: print(line, flush=True)
        stack.up()
        os.environ.update(outside.environment(stack))
        return chaos.run(the_shop(os.environ["ORDERS_URL"], load(PlacesSettings)), Native(stack), given)


if __name__ == "__main__":
    sys.exit(main())
