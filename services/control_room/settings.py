"""What the control room is told by its environment. It reads as `auditor`, who cannot write."""

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.runtime.settings import ProcessSettings, require_host_and_port


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

    naive_orders_database_url: str = Field("", repr=False)
    naive_billing_database_url: str = Field("", repr=False)
    naive_ledger: str = ""

    def database_url(self, name: str) -> str:
        return str(getattr(self, f"{name}_database_url"))

    def database_urls(self) -> list[str]:
        return [self.database_url(name) for name in ("orders", "billing", "analytics")]


class ControlRoomSettings(ProcessSettings, PlacesSettings):
    ops: str = Field(description="every process and its operations port: name=host:port name=host:port …")
    control_room_token: str = Field("", repr=False, description="opens the faults; empty: the page is read-only")
    operator_token: str = Field("", repr=False, description="opens the consumers' dead letters")
    orders_url: str
    billing_url: str
    analytics_url: str
    storefront_public_url: str = Field(description="what the viewer's browser opens, unlike the addresses above")
    billing_public_url: str
    sales_public_url: str
    mail_public_url: str

    naive_ops: str = Field("", description="the same for the naive shop, which may not run")
    naive_orders_url: str = ""

    @field_validator("ops", "naive_ops")
    @classmethod
    def _names_and_addresses(cls, ops: str) -> str:
        for entry in ops.split():
            name, _, address = entry.partition("=")
            if not name:
                raise ValueError(f"expected name=host:port, got {entry!r}")
            require_host_and_port(address)
        return ops

    @property
    def ops_ports(self) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.ops.split())

    @property
    def naive_ops_ports(self) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.naive_ops.split())
