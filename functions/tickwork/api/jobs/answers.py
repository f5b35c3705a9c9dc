"""Jobs and previews as answers show them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from tickwork.api.answers import Cursor, Moment, Second
from tickwork.api.paused_view import ScopePauseShown, StartsShown
from tickwork.api.runs.answers import RunShown
from tickwork.api.work_answers import WorkShown


class CatchUpShown(TypedDict):
    policy: str
    last: NotRequired[int]
    max_lateness_s: NotRequired[int]


class PoliciesShown(TypedDict):
    """Where each policy comes from: `own`, or `default@2`, that version of the platform's defaults."""

    retry_policy: str
    tolerance_s: str
    overlap: str
    catch_up: str


class NextShown(TypedDict):
    """The pending occurrence."""

    scheduled_at: Second
    fire_at: Second
    start_by: NotRequired[Second]
    """With `start_within_s`: by when it has to be started."""


class BufferedShown(TypedDict):
    """What was due while another run had not ended, and is kept back until it has: the oldest of it."""

    run_id: str
    scheduled_at: Second
    count: int


class LastShown(TypedDict):
    """How the last run ended."""

    run_id: str
    status: str
    scheduled_at: Second
    ended_at: Moment
    took_s: NotRequired[float]
    """Its last attempt, when that succeeded."""


# `from` is a word of Python's own, so that this one cannot be written as a class.
PauseShown = TypedDict(
    "PauseShown",
    {
        "by": str,
        "reason": str,
        "from": Moment,
        "until": Moment | None,
        "resumed_by": NotRequired[str],
        "at_resume": NotRequired[str],
    },
)
"""A pause. `at_resume`, of one that keeps what it covers: what becomes of that, `latest` or `all`."""


class SkipShown(TypedDict):
    """That one coming occurrence is to be skipped."""

    scheduled_at: Second
    by: str
    reason: str
    undone_by: NotRequired[str]
    """Who has taken it back: it is not skipped."""


class JobShown(WorkShown):
    """A job as it stands, or as it was defined at a version that was asked for (`replaced`). `paused` is the status of
    an active one while a pause is in force."""

    job_id: str
    team: str
    name: str
    version: int
    """Goes up with every change; a change names the one it was made from."""
    status: Literal["active", "paused", "finished", "error", "cancelled", "deleted", "replaced"]
    schedule: dict[str, Any]
    tolerance_s: int
    exact_reason: NotRequired[str]
    catch_up: CatchUpShown
    overlap: str
    """What becomes of an occurrence that is due while another run has not ended: `skip`, `allow`, `buffer_one`,
    `buffer_all` or `cancel_other`."""
    buffer_max: NotRequired[int]
    buffer_age_s: NotRequired[int]
    """With `buffer_all`: how many wait at most, and how long."""
    buffered: NotRequired[BufferedShown]
    policies: PoliciesShown
    """What is shown of each is in force from the occurrence on that is planned next."""
    defaults_version: NotRequired[int]
    """The version of the platform's defaults that it has pinned."""
    owner: NotRequired[str]
    """What it says itself of who answers for it, and what follows; what it leaves out is as its team says."""
    pager_route: NotRequired[str]
    runbook: NotRequired[str]
    description: NotRequired[str]
    tags: NotRequired[list[str]]
    dead_man_switch: NotRequired[str]
    max_silence_s: NotRequired[int]
    min_duration_s: NotRequired[int]
    created_at: Moment
    next: NextShown | None
    last: LastShown | None
    pauses: NotRequired[list[PauseShown]]
    paused_by: NotRequired[list[ScopePauseShown]]
    """The pauses in force of its team, of its pool, or of everything."""
    skips: NotRequired[list[SkipShown]]
    reason: NotRequired[str]
    """Why it is not active."""


class JobAnswer(JobShown):
    """A job, and what may surprise in its schedule, or in its policies taken together."""

    warnings: list[str]


class WaitsFor(TypedDict):
    """What the next occurrence waits for, or is skipped for, until it has ended."""

    runs: list[str]
    """Those that have not ended, the oldest first."""
    more: bool
    """There are more of them than are named."""
    bounded: bool
    """The newest 2,000 occurrences were looked through; a run that is older is not waited for."""


class ChangedJob(JobAnswer):
    """A job, and whether a change has changed it: what it said already keeps its version."""

    changed: bool
    waits_for: NotRequired[WaitsFor]
    """Of a change of `overlap`, to a policy under which runs may not overlap."""


class UnskippedJob(JobShown):
    """A job, and whether its occurrence was to be skipped until the caller took that back, now or before."""

    changed: bool


class JobsPage(TypedDict):
    jobs: list[JobShown]
    cursor: Cursor


class ResumedShown(TypedDict):
    by: str
    at: Moment


class ResumedJob(JobShown):
    """A job, and whether it was paused until `by` resumed it: with this request, or with the same one before."""

    changed: bool
    resumed: ResumedShown | None
    """Who ended the last pause, and when; null: it ended by itself, or there was none."""
    starts: NotRequired[StartsShown]
    """Of a pause that has kept what was due: what its end starts, and nothing else does."""


class RunsGoingOn(TypedDict):
    """Runs of a deleted job that have not ended: they were fired before."""

    queued: int
    """Dispatched, and not started."""
    running: int
    waiting: int
    """For a retry."""
    more: bool
    """There are older runs, which were not looked at."""


class CancelledRuns(TypedDict):
    """What came of cancelling them."""

    cancelled: int
    told_to_stop: int
    """They run, and their workers hear of it at the next heartbeat."""
    left: int
    """Not come to: repeat the call."""


class DeletedJob(TypedDict):
    """The job is gone; `changed`: by this call. `runs` are those that this call found under way."""

    job_id: str
    deleted: Literal[True]
    changed: bool
    deleted_at: Moment | None
    """When; null: an older version has deleted it."""
    runs: RunsGoingOn
    cancelled_runs: NotRequired[CancelledRuns]


class OccurrenceShown(TypedDict):
    scheduled_at: Second
    local: str
    offset: str
    zone: str
    note: str | None
    """What moved it, or that it will be skipped."""
    start_by: NotRequired[Second]
    """Of a job with `start_within_s`: started later than this, it ends as expired."""


class AskedRun(RunShown):
    """A run that was asked for, and whether this call has made it."""

    created: bool


class PreviewAnswer(TypedDict):
    description: str
    """The schedule in words."""
    warnings: list[str]
    occurrences: list[OccurrenceShown]
