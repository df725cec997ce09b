"""Money for people's eyes. Everywhere else it is a whole number of the currency's smallest unit."""

SYMBOLS = {"EUR": ("€", 2), "USD": ("$", 2), "JPY": ("¥", 0)}
"""The sign, and how many digits the smallest unit is away from it."""


def shown(amount: int, currency: str) -> str:
    """shown(123456, "EUR") is €1,234.56; integers only, so nothing is ever rounded."""
    symbol, digits = SYMBOLS[currency]
    whole, part = divmod(amount, 10**digits)
    return f"{symbol}{whole:,}" + (f".{part:0{digits}d}" if digits else "")
