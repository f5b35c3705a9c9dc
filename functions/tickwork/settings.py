"""Settings: what a deployed function reads from its environment, and what each environment is made of.

The only module that knows the names of environment variables; infra renders the same model into the functions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tickwork.ports import Layout

_NAME = r"^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$"


class Settings(BaseModel):
    """What every process of one environment must agree on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefix: str = Field(default="tickwork-dev", pattern=_NAME)
    """Begins the name of every table and queue."""
    cell: str = Field(default="main", pattern=r"^[a-z0-9-]{1,20}$")
    shards: int = Field(default=4, ge=1, le=9_999)
    slices: int = Field(default=2, ge=1, le=1_024)
    shards_before: int = Field(default=0, ge=0, le=9_999)
    """The number of shards before the last change of it, until the old layout's items have ended."""
    pools: str = Field(default="default", pattern=r"^[a-z0-9-]+(,[a-z0-9-]+)*$")
    retention_days: int = Field(default=30, ge=1, le=400)
    push_private: bool = False
    """Pushes may reach private addresses: for one's own machine, never for a deployed environment."""
    slice_capacity_per_s: int = Field(default=500, ge=1, le=100_000)
    """Runs a slice is built to dispatch in a second; catching up after an outage takes a fifth of it."""

    def layout(self) -> Layout:
        return Layout(
            cell=self.cell,
            shards=self.shards,
            slices=self.slices,
            shards_before=self.shards_before,
            pools=tuple(self.pools.split(",")),
            retention_s=self.retention_days * 86_400,
            push_private=self.push_private,
            slice_capacity_per_s=self.slice_capacity_per_s,
        )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read TICKWORK_PREFIX, TICKWORK_SHARDS, ...; a variable that is not there keeps its default."""
        environ = os.environ if environ is None else environ
        found = {name: environ[_variable(name)] for name in cls.model_fields if _variable(name) in environ}
        return cls.model_validate(found)

    def to_environ(self) -> dict[str, str]:
        return {_variable(name): str(getattr(self, name)) for name in type(self).model_fields}


class PushSecrets(BaseModel):
    """The master secrets that pushes are signed with, the newest first (TICKWORK_PUSH_SECRETS, comma-separated).
    Apart from `Settings`, so that only the function that pushes ever gets them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secrets: tuple[str, ...] = Field(min_length=1, max_length=4)

    @field_validator("secrets")
    @classmethod
    def _long_enough(cls, secrets: tuple[str, ...]) -> tuple[str, ...]:
        if any(len(secret) < SECRET_CHARS_MIN for secret in secrets):
            raise ValueError(f"each secret needs {SECRET_CHARS_MIN} characters or more")
        return secrets

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Self:
        text = (os.environ if environ is None else environ).get("TICKWORK_PUSH_SECRETS", "")
        return cls(secrets=tuple(secret.strip() for secret in text.split(",") if secret.strip()))


SECRET_CHARS_MIN = 32


def _variable(field: str) -> str:
    return f"TICKWORK_{field.upper()}"


class Environment(BaseModel):
    """One environment that `cdk deploy` can make. Differences between environments are here and nowhere else."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["dev", "staging", "prod"]
    shards: int
    shards_before: int = 0
    """The old number of shards, from a change of it until the last timer of the old layout has ended."""
    slices: int
    pools: tuple[str, ...]
    retention_days: int
    keep_data: bool
    """Tables and queues survive the deletion of their stack, and tables refuse to be deleted."""
    log_retention_days: Literal[7, 30, 90]
    scanner_concurrency: int
    """Reserved for the scanner: at least one for each slice, so that no other function can starve firing."""
    alarm_after_lag_s: int
    """The platform is paged when fire lag stays above this."""
    api_requests_per_s: int
    api_requests_burst: int
    """What the HTTP API lets through before it answers 429."""

    def settings(self) -> Settings:
        return Settings(
            prefix=f"tickwork-{self.name}",
            shards=self.shards,
            shards_before=self.shards_before,
            slices=self.slices,
            pools=",".join(self.pools),
            retention_days=self.retention_days,
        )


ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment
    for environment in (
        Environment(
            name="dev",
            shards=4,
            slices=2,
            pools=("default", "payments"),
            retention_days=7,
            keep_data=False,
            log_retention_days=7,
            scanner_concurrency=4,
            alarm_after_lag_s=60,
            api_requests_per_s=50,
            api_requests_burst=100,
        ),
        Environment(
            name="staging",
            shards=64,
            slices=8,
            pools=("default", "payments"),
            retention_days=30,
            keep_data=False,
            log_retention_days=30,
            scanner_concurrency=16,
            alarm_after_lag_s=30,
            api_requests_per_s=200,
            api_requests_burst=400,
        ),
        Environment(
            name="prod",
            shards=64,
            slices=16,
            pools=("default", "payments"),
            retention_days=90,
            keep_data=True,
            log_retention_days=90,
            scanner_concurrency=48,
            alarm_after_lag_s=10,
            api_requests_per_s=1_000,
            api_requests_burst=2_000,
        ),
    )
}
