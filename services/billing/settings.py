"""What Billing's processes are told by their environment."""

from pydantic import Field

from shared.runtime.settings import ProcessSettings


class ApiSettings(ProcessSettings):
    database_url: str = Field(repr=False)


class ConsumerSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    kafka_bootstrap: str


class WorkerSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    smtp_address: str


class ReconcilerSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    crontab: str = "* * * * *"
