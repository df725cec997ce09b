"""What Analytics' processes are told by their environment."""

from pydantic import Field

from shared.runtime.settings import ProcessSettings


class ApiSettings(ProcessSettings):
    database_url: str = Field(repr=False)


class ConsumerSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    kafka_bootstrap: str
