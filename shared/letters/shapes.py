"""What goes in and out of the HTTP API of dead letters."""

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field


class LetterOut(BaseModel):
    id: int
    consumer: str
    event_id: UUID | None
    reason: str
    error: str
    attempts: int
    topic: str
    partition: int
    offset: int
    parked_at: datetime
    repaired: bool
    closed_at: datetime | None
    outcome: str | None
    note: str | None


class LetterDetail(LetterOut):
    value: str | None = Field(description="the event as it came; bytes that are not UTF-8 are replaced")
    repaired_value: str | None


class LetterPage(BaseModel):
    items: list[LetterOut]
    next_cursor: int | None = Field(description="pass it as `cursor` for newer letters; null: there are none")


class Oldest(BaseModel):
    closed: bool = Field(False, description="the closed ones instead of the open ones")
    reason: str | None = Field(None, pattern="^[a-z-]{1,40}$")
    cursor: int = Field(0, ge=0, le=2**63 - 1)
    limit: int = Field(20, ge=1, le=100)


class Given(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Redrive(Given):
    accept_late: bool = Field(False, strict=True, description="also an event that is older than the inbox remembers")


class Repair(Given):
    value: str = Field(min_length=1, max_length=200_000, description="the corrected event, as JSON text")


class Discard(Given):
    why: str = Field(min_length=1, max_length=500, pattern=r"^[^\x00]*\S[^\x00]*$")


class Done(BaseModel):
    id: int
    result: str
