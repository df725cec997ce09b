"""Money on an invoice adds up."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from services.billing import amounts
from services.orders import money
from services.orders.schemas import Currency

LINES = st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10_000)), min_size=1, max_size=20)


def test_tax_is_rounded_half_up_per_line() -> None:
    assert [amounts.tax(net, 1900) for net in (0, 1, 2, 3, 50, 1250)] == [0, 0, 0, 1, 10, 238]
    assert (amounts.tax(5, 1000), amounts.tax(4, 1000)) == (1, 0)


@given(LINES)
def test_totals_per_rate_add_up_to_the_total_of_the_lines(lines: list[tuple[int, int]]) -> None:
    rates = amounts.per_rate(lines)
    assert sum(rate.net for rate in rates) == sum(net for net, _ in lines)
    assert sum(rate.tax for rate in rates) == sum(amounts.tax(net, basis_points) for net, basis_points in lines)
    assert len({rate.basis_points for rate in rates}) == len(rates)


def test_a_currency_is_printed_with_its_own_number_of_decimals() -> None:
    printed = [amounts.printed(1234567, currency) for currency in ("EUR", "JPY", "KWD", "XYZ")]
    assert printed == ["12,345.67", "1,234,567", "1,234.567", "12,345.67"]
    assert amounts.printed(5, "EUR") == "0.05"


def test_the_shop_and_the_invoice_write_the_same_amount_in_every_currency_that_is_sold_in() -> None:
    assert set(money.SYMBOLS) == set(get_args(Currency))
    for currency, (symbol, _) in money.SYMBOLS.items():
        assert money.shown(1234567, currency) == symbol + amounts.printed(1234567, currency)


def test_a_rate_is_printed_without_needless_zeros() -> None:
    assert [amounts.percent(rate) for rate in (0, 550, 700, 1925, 10_000)] == [
        "0 %",
        "5.5 %",
        "7 %",
        "19.25 %",
        "100 %",
    ]
