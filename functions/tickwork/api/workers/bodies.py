"""What a worker sends: start, heartbeat, complete, lease."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tickwork.api.fields import RUNS_PER_CALL_MAX, Body, LeaseS, Receipt, Ref, Token
from tickwork.core.instants import LATEST_INSTANT_MS


class StartOneIn(Body):
    ref: Ref
    claim: Annotated[str, Field(min_length=8, max_length=64)]
    lease_s: LeaseS = 60
    attempt: int = Field(default=1, ge=1, le=1_000)
    retry_ref: Ref | None = None
    payload_id: Annotated[str, Field(max_length=256)] | None = None
    dispatched_at_ms: int = Field(default=0, ge=0, le=LATEST_INSTANT_MS)
    dispatched_by: str = Field(default="", max_length=64)


class StartIn(Body):
    worker: Annotated[str, Field(min_length=1, max_length=128)]
    runs: list[StartOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)


class LeaseIn(Body):
    """A worker without a queue asks for runs."""

    worker: Annotated[str, Field(min_length=1, max_length=128)] = "http"
    max: int = Field(default=1, ge=1, le=RUNS_PER_CALL_MAX)
    lease_s: LeaseS | None = None
    """Of all runs in the answer; each run's own when left out."""
    wait_s: int = Field(default=0, ge=0, le=20)
    """How long to wait for the first run."""


class BeatOneIn(Body):
    ref: Ref
    token: Token
    lease_s: LeaseS = 60
    receipt: Receipt | None = None
    """Of a leased run: its message stays hidden as long as the lease lasts."""


class BeatIn(Body):
    runs: list[BeatOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)


class CompleteOneIn(Body):
    ref: Ref
    token: Token
    outcome: Literal["succeeded", "failed", "failed_permanent", "cancelled"]
    """`cancelled`: stopped because a heartbeat's answer asked for it."""
    error: str = Field(default="", max_length=10_000)
    error_class: str = Field(default="", max_length=80)
    """Of a failure: the class of the error, as `Class` or `module.Class`. The job's policy goes by it."""
    retry_after_s: int = Field(default=0, ge=0)
    """Of a failure: do not try again before this. Honoured up to a day."""
    receipt: Receipt | None = None
    """Of a leased run: its message is deleted when the completion is accepted."""


class CompleteIn(Body):
    runs: list[CompleteOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)
