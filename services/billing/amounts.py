"""Money on an invoice: whole numbers of the currency's smallest unit, never a float.

The rule: the tax of a line is its net amount times its rate, rounded half up to the smallest unit. Totals are sums of
the rounded lines, so that every column of the invoice adds up to the cent, by hand too.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

NO_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
THREE_DECIMALS = "BHD IQD JOD KWD LYD OMR TND"
DECIMALS = dict.fromkeys(NO_DECIMALS.split(), 0) | dict.fromkeys(THREE_DECIMALS.split(), 3)
"""ISO 4217's exceptions; all other currencies have two decimals."""


@dataclass(frozen=True)
class AtRate:
    """What is taxed at one rate."""

    basis_points: int
    net: int
    tax: int


def tax(net: int, basis_points: int) -> int:
    return (net * basis_points + 5_000) // 10_000


def per_rate(lines: Iterable[tuple[int, int]]) -> list[AtRate]:
    """Of each line its net amount and its rate. Highest rate first; taxes are summed per line, never computed anew."""
    nets: dict[int, int] = defaultdict(int)
    taxes: dict[int, int] = defaultdict(int)
    for net, basis_points in lines:
        nets[basis_points] += net
        taxes[basis_points] += tax(net, basis_points)
    return [AtRate(rate, nets[rate], taxes[rate]) for rate in sorted(nets, reverse=True)]


def printed(minor_units: int, currency: str) -> str:
    """1,234.56 for euros, 123,456 for yen."""
    decimals = DECIMALS.get(currency, 2)
    whole, part = divmod(minor_units, 10**decimals)
    return f"{whole:,}.{part:0{decimals}}" if decimals else f"{whole:,}"


def percent(basis_points: int) -> str:
    """19 %, 5.5 %."""
    whole, part = divmod(basis_points, 100)
    return f"{whole}.{part:02}".rstrip("0").rstrip(".") + " %"
