"""Which fault falls when: a function of the seed, so that a run that broke something can be run again.

Every kind falls once before any falls twice; after that chance decides, by weight. What a fault does is in faults.py.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

EVERY_S = 7.0
"""On the average. Faults overlap: a process may die while another sleeps."""
FIRST_S = 3.0
CALM_S = 5.0
"""Before the end no fault falls, and none lasts beyond it."""


@dataclass(frozen=True)
class Kind:
    name: str
    targets: tuple[str, ...]
    weight: int = 3
    lasts_s: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Fault:
    at_s: float
    kind: str
    target: str
    lasts_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} {self.target}" + (f" for {self.lasts_s:.0f} s" if self.lasts_s else "")


def schedule(seed: int, duration_s: float, kinds: Sequence[Kind]) -> list[Fault]:
    chance = random.Random(seed)  # noqa: S311  repeatable on purpose
    first_round = chance.sample(kinds, len(kinds))
    faults: list[Fault] = []
    at_s = FIRST_S
    while at_s < duration_s - CALM_S:
        kind = first_round.pop() if first_round else chance.choices(kinds, [kind.weight for kind in kinds])[0]
        lasts_s = min(chance.uniform(*kind.lasts_s), duration_s - at_s)
        if free := sorted(set(kind.targets) - _busy(faults, at_s)):
            faults.append(Fault(round(at_s, 1), kind.name, chance.choice(free), round(lasts_s, 1)))
        at_s += EVERY_S * chance.uniform(0.5, 1.5)
    return faults


def _busy(faults: Sequence[Fault], at_s: float) -> set[str]:
    """A process that sleeps is not killed, or the sleep would be none. Its neighbours are."""
    return {fault.target for fault in faults if fault.at_s + fault.lasts_s > at_s}
