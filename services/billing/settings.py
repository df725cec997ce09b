"""What Billing's processes are told by their environment."""

from typing import Self

from pydantic import Field, model_validator

from shared.messaging.tasks import TaskSettings
from shared.runtime.settings import ProcessSettings


class ApiSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    operator_token: str = Field("", repr=False, description="opens the lists and the dead letters; empty: nobody may")


class WorkerSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    smtp_address: str = Field(pattern=r"^.+:\d+$", description="host:port")
    smtp_timeout_s: float = Field(10.0, gt=0, description="for a whole mail; LEASE_MOST of them must fit into a lease")
    lease_s: float = Field(30.0, gt=0, description="longer than any rendering; after a crash a task waits so long")
    lease_most: int = Field(2, ge=1, le=100, description="tasks of a kind taken at once")
    niceness: int = Field(10, ge=0, le=19, description="documents can wait: customers get the processor first")
    poll_s: float = Field(0.5, gt=0)
    max_attempts: int = Field(10, ge=1)
    first_retry_s: float = Field(1.0, ge=0)
    retry_limit_s: float = Field(300.0, gt=0)

    @model_validator(mode="after")
    def _leases_outlive_their_mails(self) -> Self:
        if self.lease_s <= self.lease_most * self.smtp_timeout_s:
            raise ValueError(
                "LEASE_S must exceed LEASE_MOST × SMTP_TIMEOUT_S: a mail is begun only if its lease will outlast it, "
                "and those before it may take their whole time"
            )
        return self

    def tasks(self, kind: str) -> TaskSettings:
        return TaskSettings(kind, self.lease_s, self.max_attempts, self.first_retry_s, self.retry_limit_s)


class NaiveSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    kafka_bootstrap: str
    topic: str = "orders.naive"
    smtp_address: str = Field(description="host:port")


class ReconcilerSettings(ProcessSettings):
    database_url: str = Field(repr=False)
    crontab: str = "* * * * *"
    overdue_after_s: float = Field(300.0, ge=0, description="an invoice not sent after so long is looked at")
    max_unknown_outcomes: int = Field(10, ge=1, description="a mail that may have arrived so often is a person's case")
