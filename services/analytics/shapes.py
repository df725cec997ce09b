"""What the API of Analytics takes and answers. Money is minor units (cents), before tax; days and minutes are UTC."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

MAX_DAYS = 366
MAX_MINUTES = 48 * 60
"""Housekeeping keeps no more."""

Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
Day = Annotated[date, BeforeValidator(lambda text: date.fromisoformat(text) if isinstance(text, str) else text)]


def today() -> date:
    return datetime.now(UTC).date()


class DailyQuery(BaseModel):
    """From and to are both included; without them: the last thirty days."""

    model_config = ConfigDict(populate_by_name=True)

    since: Day = Field(alias="from", default_factory=lambda: today() - timedelta(days=29))
    until: Day = Field(alias="to", default_factory=today)
    currency: Currency | None = None

    @model_validator(mode="after")
    def _is_a_short_range(self) -> Self:
        if not timedelta(0) <= self.until - self.since < timedelta(days=MAX_DAYS):
            raise ValueError(f"`from` must not be after `to`, and they may span {MAX_DAYS} days at the most")
        return self


class ProductsQuery(BaseModel):
    currency: Currency | None = None
    limit: int = Field(20, ge=1, le=100)
    offset: int = Field(0, ge=0, le=100_000)


class MinutesQuery(BaseModel):
    last: int = Field(60, ge=1, le=MAX_MINUTES, description="so many minutes up to now, the current one included")


class DaySales(BaseModel):
    day: date
    currency: str
    orders: int
    revenue: int


class DailySales(BaseModel):
    """Days without an order are left out."""

    model_config = ConfigDict(populate_by_name=True)

    since: date = Field(alias="from")
    until: date = Field(alias="to")
    days: list[DaySales]


class ProductSales(BaseModel):
    sku: str
    name: str
    currency: str
    units: int
    revenue: int


class ProductsPage(BaseModel):
    """By currency, then by revenue: the best first."""

    items: list[ProductSales]
    total: int
    next: str | None = Field(description="the address of the next page; null on the last")


class MinuteSales(BaseModel):
    minute: AwareDatetime
    orders: int
    revenue: dict[str, int] = Field(description="by currency")


class Minutes(BaseModel):
    """Every minute of the span, oldest first, those without an order too."""

    minutes: list[MinuteSales]


class CurrencyTotals(BaseModel):
    currency: str
    orders: int
    revenue: int
    orders_today: int
    revenue_today: int


class Summary(BaseModel):
    """What the sales page shows, all of one moment: the parts add up to each other."""

    as_of: AwareDatetime
    totals: list[CurrencyTotals]
    minutes: list[MinuteSales] = Field(description="the last hour")
    days: list[DaySales] = Field(description="the last thirty days")
    products: list[ProductSales] = Field(description="the ten best of each currency")
