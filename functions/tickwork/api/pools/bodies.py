"""What a client sends about pools."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tickwork.api.fields import Body, Text
from tickwork.core.access.pools import SHARED_WITH_MAX
from tickwork.core.ledger.queues import LAMBDA_TIMEOUT_S_MAX


class PoolIn(Body):
    """A pool, and the version it replaces (none: it is new)."""

    version: int | None = Field(default=None, ge=1, le=10**9)
    worker: Literal["process", "lambda", "lease"] = "process"
    """Who takes from it: a process that polls its queue, a function that the queue feeds, leases over HTTP."""
    timeout_s: int | None = Field(default=None, ge=1, le=LAMBDA_TIMEOUT_S_MAX)
    """Of a function: its time limit. Messages are hidden until it has surely ended."""
    shared_with: list[Text] = Field(default=[], max_length=SHARED_WITH_MAX)
    """Other teams whose jobs and timers may aim at it."""
