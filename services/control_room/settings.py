"""What the control room is told by its environment. It reads as `auditor`, who cannot write."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.runtime.settings import ProcessSettings


class PlacesSettings(BaseSettings):
    """Everywhere an order leaves a trace. The audit needs no more than this."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    orders_database_url: str = Field(repr=False)
    billing_database_url: str = Field(repr=False)
    analytics_database_url: str = Field(repr=False)
    kafka_bootstrap: str
    mail_url: str = Field(description="Mailpit's HTTP address, or the native sink's")
    topic: str = "orders.confirmed"
    ledger: str = Field("", description="the file in which clients note what they asked and were told")

    def database_url(self, name: str) -> str:
        return str(getattr(self, f"{name}_database_url"))

    def database_urls(self) -> list[str]:
        return [self.database_url(name) for name in ("orders", "billing", "analytics")]


class ControlRoomSettings(ProcessSettings, PlacesSettings):
    pass
