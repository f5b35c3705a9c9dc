"""What a worker sends: start, heartbeat, complete, lease, release.

Protects that a failure that is told becomes a recorded one (W13): what a worker says of it beside its outcome is cut
and cleaned, never refused.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from tickwork.api.fields import RUNS_PER_CALL_MAX, Batch, Body, LeaseS, Receipt, Ref, Token
from tickwork.core.instants import LATEST_INSTANT_MS
from tickwork.core.runs.retrying import whole_wait_s
from tickwork.core.texts import cleaned

ERROR_CHARS_MAX = 10_000
ERROR_CLASS_CHARS_MAX = 80
STOPS_IN_S_MAX = 60
"""Of a process that ends: what takes longer is a lease."""
HANDLER_CHARS_MAX = 256
HANDLERS_MAX = 1_000
"""Of one worker: their names are looked through for each message."""


def _told(chars_max: int) -> BeforeValidator:
    """A text of a report, whatever stands there."""

    def told(given: object) -> str:
        return cleaned(given if isinstance(given, str) else "" if given is None else str(given), chars_max)

    return BeforeValidator(told)


type Handler = Annotated[str, Field(max_length=HANDLER_CHARS_MAX)]
_WAIT = BeforeValidator(whole_wait_s)


class StartOneIn(Body):
    ref: Ref
    claim: Annotated[str, Field(min_length=8, max_length=64)]
    lease_s: LeaseS = 60
    attempt: int = Field(default=1, ge=1, le=1_000)
    retry_ref: Ref | None = None
    payload_id: Annotated[str, Field(max_length=256)] | None = None
    dispatched_at_ms: int = Field(default=0, ge=0, le=LATEST_INSTANT_MS)
    dispatched_by: str = Field(default="", max_length=64)


class StartIn(Batch):
    worker: Annotated[str, Field(min_length=1, max_length=128)]
    runs: list[StartOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)


class LeaseIn(Body):
    """A worker without a queue asks for runs."""

    worker: Annotated[str, Field(min_length=1, max_length=128)] = "http"
    max: int = Field(default=1, ge=1, le=RUNS_PER_CALL_MAX)
    handlers: (
        Annotated[list[Annotated[str, Field(max_length=HANDLER_CHARS_MAX)]], Field(max_length=HANDLERS_MAX)] | None
    ) = None
    """The handlers that the worker has: runs of others are left to other workers. All, when left out."""
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


class BeatIn(Batch):
    runs: list[BeatOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)


class CompleteOneIn(Body):
    ref: Ref
    token: Token
    outcome: Literal["succeeded", "failed", "failed_permanent", "cancelled"]
    """`cancelled`: stopped because a heartbeat's answer asked for it."""
    error: Annotated[str, _told(ERROR_CHARS_MAX)] = ""
    """Cut at 10,000 characters; what cannot be stored is shown as its escape."""
    error_class: Annotated[str, _told(ERROR_CLASS_CHARS_MAX)] = ""
    """Of a failure: the class of the error, as `Class` or `module.Class`. The job's policy goes by it. Cut at 80."""
    retry_after_s: Annotated[int, _WAIT] = 0
    """Of a failure: do not try again before this. Rounded up; honoured up to a day."""
    receipt: Receipt | None = None
    """Of a leased run: its message is deleted when the completion is accepted."""


class CompleteIn(Batch):
    ANY_NUMBER: ClassVar[bool] = True

    runs: list[CompleteOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)


class ReleaseOneIn(Body):
    ref: Ref
    token: Token
    stops_in_s: int = Field(default=0, ge=0, le=STOPS_IN_S_MAX)
    """The job may go on for so long, until its process ends: nobody starts the run before."""
    receipt: Receipt | None = None
    """Of a leased run: its message is visible as soon as the run may be started."""


class ReleaseIn(Batch):
    runs: list[ReleaseOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)


class UnhandledOneIn(Body):
    ref: Ref
    handler: Annotated[str, _told(HANDLER_CHARS_MAX)]


class UnhandledIn(Batch):
    """A worker says what it has not started, for it lacks the handler."""

    worker: Annotated[str, Field(min_length=1, max_length=128)]
    runs: list[UnhandledOneIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)
