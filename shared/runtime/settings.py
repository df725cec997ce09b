"""What a process is told by its environment: read once, at the start, into one frozen object.

A process declares a subclass of ProcessSettings and calls `load`. Every problem is reported together, in words,
with the name of the variable; the exit status is 2 and nothing has been started.
"""

import sys
from typing import TypeVar

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class ProcessSettings(BaseSettings):
    """What every process needs. Units are in the names."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    process: str = Field(min_length=1, description="the service's name in docker-compose.yml")
    replica: int = Field(1, ge=1, description="which of several equal processes this is")
    ops_bind: str = Field("127.0.0.1:9100", description="host:port of /healthz, /readyz, /metrics")
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$")
    failpoints: str = Field("", description="armed from the start: name=action[,name=action]")
    failpoints_dir: str = Field("", description="where failpoints armed at run time are kept; empty: none can be")
    failpoints_token: str = Field("", repr=False, description="needed to arm one; empty: the door is closed")
    max_silence_s: float = Field(30.0, gt=0, description="a loop that has not come round for so long is ill")

    @field_validator("ops_bind")
    @classmethod
    def _is_host_and_port(cls, bind: str) -> str:
        return require_host_and_port(bind)


def require_host_and_port(bind: str) -> str:
    host, _, port = bind.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"expected host:port, got {bind!r}")
    return bind


S = TypeVar("S", bound=BaseSettings)


def load(settings: type[S]) -> S:
    """The settings, or a sentence for each problem and exit status 2."""
    try:
        return settings()
    except ValidationError as error:
        print(explain(settings, error), file=sys.stderr)
        raise SystemExit(2) from None


def explain(settings: type[BaseSettings], error: ValidationError) -> str:
    """One line per problem. The given value is not printed: it may be a secret."""
    prefix = settings.model_config.get("env_prefix", "")
    lines = [f"{error.error_count()} problem(s) in the environment of {settings.__module__}:"]
    for problem in error.errors(include_input=False, include_url=False):
        name = (prefix + "__".join(str(part) for part in problem["loc"])).upper()
        said = "is not set" if problem["type"] == "missing" else problem["msg"][:1].lower() + problem["msg"][1:]
        lines.append(f"  {name}: {said}")
    return "\n".join(lines)
