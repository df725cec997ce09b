"""What Analytics' processes are told by their environment."""

from pydantic import Field

from shared.runtime.settings import ProcessSettings


class ApiSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    operator_token: str = Field("", repr=False, description="opens the dead letters; empty: nobody may")
