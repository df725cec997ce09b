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
    idempotency_keys_hours: int = Field(24, ge=1, description="how long a client may ask again")
    done_tasks_days: int = Field(30, ge=1, description="how long a person can see what was done")
    minute_sales_hours: int = Field(48, ge=1)

    @model_validator(mode="after")
    def _outbox_outlives_inbox(self) -> Self:
        if self.outbox_retention_days < self.inbox_retention_days:
            raise ValueError("the outbox must be kept at least as long as the inbox: it is what can be sent again")
        return self

    @model_validator(mode="after")
    def _tasks_outlive_inbox(self) -> Self:
        if self.done_tasks_days < self.inbox_retention_days:
            raise ValueError("done tasks must be kept at least as long as the inbox: two guards are better than one")
        return self
