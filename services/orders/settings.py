"""What Orders' processes are told by their environment."""

from pydantic import Field

from shared.runtime.settings import ProcessSettings


class ApiSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    operator_token: str = Field("", repr=False, description="opens the list of all orders; empty: nobody may")
    http_threads: int = Field(4, ge=1, description="requests that a worker works on at once; gunicorn's too")
    billing_public_url: str = Field(
        "http://127.0.0.1:8002",
        pattern=r"^https?://[\w.-]+(:\d+)?$",
        description="where a customer's browser finds the invoice of an order",
    )


class NaiveSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    kafka_bootstrap: str
    topic: str = "orders.naive"


class RelaySettings(ProcessSettings):
    database_url: str = Field(repr=False)
    kafka_bootstrap: str
    outbox_max_age_hours: float = Field(24.0, gt=0, description="an event that waits longer is an alarm")

    @property
    def outbox_max_age_s(self) -> float:
        return self.outbox_max_age_hours * 3600
