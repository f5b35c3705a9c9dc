"""What a worker is told: of each run of its call, on its own."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from tickwork.api.answers import Moment, Second


class DeclinedRun(TypedDict):
    """This entry changes nothing: the claim does not hold the run, or the service is busy."""

    ref: str
    granted: Literal[False]
    accepted: Literal[False]
    reason: str
    discard: bool
    """The message is of no more use: delete it."""
    retry_after_s: NotRequired[int]
    detail: NotRequired[str]
    """Of an entry that cannot be read (`invalid`): what is wrong with it."""


class GrantedRun(TypedDict):
    """The claim holds the run until `lease_until`."""

    ref: str
    granted: Literal[True]
    token: int
    attempt: int
    lease_until: Moment
    lease_ms: int
    """How long the lease lasts from this answer."""
    payload: NotRequired[Any]


class StartAnswer(TypedDict):
    runs: list[GrantedRun | DeclinedRun]
    """In the order of the request."""


class ExtendedLease(TypedDict):
    ref: str
    accepted: Literal[True]
    lease_until: Moment
    lease_ms: int
    """How long the lease lasts from this answer."""
    cancel: NotRequired[Literal[True]]
    """Stop: somebody cancelled the run."""


class HeartbeatAnswer(TypedDict):
    runs: list[ExtendedLease | DeclinedRun]
    """In the order of the request."""


class EndedRun(TypedDict):
    ref: str
    accepted: Literal[True]
    status: str
    retry_at: NotRequired[Second]


class CompleteAnswer(TypedDict):
    runs: list[EndedRun | DeclinedRun]
    """In the order of the request."""


class ReleasedRun(TypedDict):
    """The run is given back."""

    ref: str
    accepted: Literal[True]
    status: str


class ReleaseAnswer(TypedDict):
    runs: list[ReleasedRun | DeclinedRun]
    """In the order of the request."""


class CountedRun(TypedDict):
    """It is noted that the run was left to others."""

    ref: str
    accepted: Literal[True]


class UnhandledAnswer(TypedDict):
    runs: list[CountedRun | DeclinedRun]
    """In the order of the request."""


class LeasedRun(TypedDict):
    """A started run: the fields of its message (docs/worker-protocol.md), what the start granted, and the receipt."""

    v: int
    ref: str
    run_id: str
    job_id: str
    scheduled_at: Second
    fire_at: Second
    attempt: int
    handler: str
    lease_s: int
    dispatched_at_ms: int
    dispatched_by: str
    kind: NotRequired[str]
    occurrence: NotRequired[str]
    occurrence_id: NotRequired[str]
    retry_ref: NotRequired[str]
    url: NotRequired[str]
    traceparent: NotRequired[str]
    payload_id: NotRequired[str]
    previous_at: NotRequired[Second]
    next_at: NotRequired[Second]
    payload: NotRequired[Any]
    token: int
    lease_until: Moment
    lease_ms: int
    """How long the lease lasts from this answer."""
    receipt: str
    """Hand it back with heartbeats and the completion."""


class LeaseAnswer(TypedDict):
    runs: list[LeasedRun]
    """As many as there were, up to `max`."""
    waited_ms: int
    """How long the question was kept waiting."""
    retry_after_s: NotRequired[int]
    """Ask again no sooner: as many workers wait already as may."""
