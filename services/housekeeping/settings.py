"""What housekeeping is told by its environment: it looks after all three databases."""

from pydantic import Field

from shared.runtime.settings import ProcessSettings


class HousekeepingSettings(ProcessSettings):
    orders_database_url: str = Field(repr=False)
    billing_database_url: str = Field(repr=False)
    analytics_database_url: str = Field(repr=False)
    crontab: str = "17 * * * *"

    def database_urls(self) -> list[str]:
        return [self.orders_database_url, self.billing_database_url, self.analytics_database_url]
