"""Runs as answers show them."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from tickwork.api.answers import Moment, Reached, Second
from tickwork.api.paused_view import ScopePauseShown


class AttemptShown(TypedDict):
    """One delivery of a run to a worker, and how it ended."""

    attempt: int
    token: int
    worker: str
    started_at: Moment
    ended_at: Moment
    outcome: str
    error: str
    error_class: NotRequired[str]


class ReplayShown(TypedDict):
    """That somebody had a dead run done again."""

    by: str
    reason: str
    at: Moment
    after_attempt: int
    died_of: str
    definition: NotRequired[int]
    """The version of its job by which it goes from then on, when one was asked for."""


class PutOffShown(TypedDict):
    """That an attempt had to wait for the end of what a hard calendar excludes."""

    attempt: int
    calendar: str
    since: Moment
    until: Second
    """When that ends. The attempt comes at `retry_at`, spread over the job's tolerance; it is looked at once a day."""


class OverlongShown(TypedDict):
    """That a run goes on much longer than usual: nothing ends it but `max_duration_s`, or whoever cancels it."""

    running_s: int
    """Since its attempt started."""
    usual_s: int | None
    """How long the job's runs take, at the most; null: none is known to have succeeded."""


class HeldByShown(TypedDict):
    """Of an occurrence that was skipped for `overlap`: the run that had not ended when it was due, and its status."""

    run_id: str
    occurrence: str
    status: str


class AskedForShown(TypedDict):
    """Of a run that somebody asked for: who, and why."""

    by: str
    reason: str
    overlap: NotRequired[Literal["allow"]]
    """It was to run beside whatever else runs of its job: it holds none of them, and is held by none."""


class RunShown(TypedDict):
    """What became of an occurrence, or is to become of it."""

    run_id: str
    """The same on every attempt: the key that makes a second delivery harmless."""
    ref: str
    """Where the run is: worker's calls name it by this."""
    occurrence: str
    """The run as a person names it: a timer's id, or `job_id@scheduled_at`, and `~` with its kind where it has one.
    Every call and command takes it."""
    job_id: str
    team: str
    scheduled_at: Second
    """Nominal: before jitter."""
    fire_at: Second
    status: str
    attempt: int
    token: int
    """The fencing token of the last attempt; it only grows."""
    worker: str | None
    dispatched_at: Moment | None
    dispatched_by: str | None
    started_at: Moment | None
    ended_at: Moment | None
    lease_until: Second | None
    lag_s: float | None
    """The first dispatch behind the fire time: how late the schedule was."""
    start_lag_s: float | None
    """The start of the first attempt behind the fire time."""
    retry_lag_s: float | None
    """The start of the last attempt behind the time its retry was due; null when it was no retry."""
    retry_at: Second | None
    cancel_requested: str | None
    """Why it is to stop, when that was asked for while it ran."""
    reason: str | None
    """Why it ended as it did."""
    kind: NotRequired[str]
    """`manual`, `backfill`: somebody has asked for it. A scheduled run and a timer have none."""
    occurrence_id: NotRequired[str]
    """Of one that has a kind: the `run_id` that the scheduled run of its nominal time has."""
    asked_for: NotRequired[AskedForShown]
    start_by: NotRequired[Second]
    """By when its first attempt had to start; later, it ends as expired."""
    defaults_version: NotRequired[int]
    """The version of the platform's defaults that it goes by, from its first attempt to its last replay; left out: the
    one that its job was registered by."""
    paused_by: NotRequired[ScopePauseShown]
    """Of one run alone: the pause that keeps it from its first start, of its job or of what it lies in."""
    attempts: list[AttemptShown]
    overlong: NotRequired[OverlongShown]
    held_by: NotRequired[HeldByShown]
    released_at: NotRequired[Moment]
    """It was kept back until another run (`held_by`) had ended, and was dispatched then."""
    replaced_by: NotRequired[str]
    """Of one that was skipped because a newer one was due (`cancel_other`): that occurrence."""
    put_off: NotRequired[list[PutOffShown]]
    replays: NotRequired[list[ReplayShown]]


class RunsPage(Reached):
    runs: list[RunShown]


class CancelledRun(TypedDict):
    """A run of the call that is cancelled, or told to stop."""

    accepted: Literal[True]
    ref: str
    occurrence: str
    run_id: str
    job_id: str
    status: str
    cancel_requested: bool
    """It runs, and its worker hears of it at the next heartbeat."""
    reason: str
    """As it is recorded: of whoever cancelled it first."""


class UncancelledRun(TypedDict):
    """A run of the call that could not be cancelled. It is named as the request named it."""

    accepted: Literal[False]
    run: NotRequired[str]
    ref: NotRequired[str]
    job_id: NotRequired[str]
    scheduled_at: NotRequired[str]
    problem: str
    """The kind of problem, as the end of a problem document's `type`."""
    detail: str


class CancelRunsAnswer(TypedDict):
    runs: list[CancelledRun | UncancelledRun]
    """In the order of the request."""
