"""What the control room is told by its environment. It reads as `auditor`, who cannot write."""

from pydantic import Field

from shared.runtime.settings import ProcessSettings


class ControlRoomSettings(ProcessSettings):
    orders_database_url: str = Field(repr=False)
    billing_database_url: str = Field(repr=False)
    analytics_database_url: str = Field(repr=False)

    def database_urls(self) -> list[str]:
        return [self.orders_database_url, self.billing_database_url, self.analytics_database_url]
