"""What housekeeping is told by its environment: it looks after all three databases."""

from typing import Self

from pydantic import Field, model_validator

from shared.runtime.settings import ProcessSettings


class HousekeepingSettings(ProcessSettings):
    orders_database_url: str = Field(repr=False)
    billing_database_url: str = Field(repr=False)
    analytics_database_url: str = Field(repr=False)
    crontab: str = "17 * * * *"
    inbox_retention_days: int = Field(14, ge=1)
    outbox_retention_days: int = Field(14, ge=1)

    @model_validator(mode="after")
    def _outbox_outlives_inbox(self) -> Self:
        if self.outbox_retention_days < self.inbox_retention_days:
            raise ValueError("the outbox must be kept at least as long as the inbox: it is what can be sent again")
        return self

    def database_urls(self) -> list[str]:
        return [self.orders_database_url, self.billing_database_url, self.analytics_database_url]

    def tables(self) -> list[tuple[str, str, int]]:
        """Where, which table, and for how many days its rows are kept."""
        return [
            (self.orders_database_url, "outbox", self.outbox_retention_days),
            (self.billing_database_url, "inbox", self.inbox_retention_days),
            (self.analytics_database_url, "inbox", self.inbox_retention_days),
        ]
