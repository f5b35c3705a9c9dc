"""Backfills as answers show them."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from tickwork.api.answers import Moment, Second


class OutcomesShown(TypedDict):
    """What became of the occurrences of the range, by their scheduled runs and earlier backfills."""

    none: int
    """Never ran: skipped, cancelled, or nothing is known of them."""
    failed: int
    """Dead, or expired."""
    succeeded: int
    live: int
    """Still to end: never run again."""


class CostShown(TypedDict):
    """What the runs cost the platform, without the work of your own."""

    write_units: int
    usd: float
    """At the list price of one region."""


class CountedBackfill(TypedDict):
    """What a backfill would run."""

    dry_run: Literal[True]
    job_id: str
    occurrences: OutcomesShown
    matched: int
    """Runs that there would be."""
    first: Second | None
    """Nominal times, the oldest and the newest."""
    last: Second | None
    cost: CostShown
    takes_s: int | None
    """How long, as the job's runs usually take; null: that is not known."""
    token: str
    """Names just this list; of an approximate one, what was asked for."""
    approximate: NotRequired[bool]
    """There are more than ten thousand occurrences: the numbers are what samples of the range say."""


class StoppedShown(TypedDict):
    """Who has paused, resumed or cancelled it last, and why."""

    by: str
    reason: str


class BackfillShown(TypedDict):
    """A backfill and how far it is."""

    backfill_id: str
    job_id: str
    status: Literal["running", "paused", "cancelled", "finished"]
    since: Second
    until: Second
    outcomes: str
    order: str
    concurrency: int
    by: str
    reason: str
    created_at: Moment
    ended_at: Moment | None
    matched: int
    """All its runs."""
    launched: int
    running: int
    """Launched, and not ended."""
    ended: dict[str, int]
    """How those ended that have. `left`: had started when it was cancelled, and go on; `gone`: their records have
    expired."""
    left: int
    """Not launched yet."""
    stopped: NotRequired[StoppedShown]
    lane: NotRequired[str]
    """The lane of its runs, where it is not `P1`."""
    approximate: NotRequired[bool]
    """Its list is made piece by piece, and is not at its end: `matched` and `left` are what samples said."""
    listed_to: NotRequired[Second]
    """How far that has come."""


class MadeBackfill(BackfillShown):
    """A backfill, and whether this call has made it."""

    dry_run: Literal[False]
    created: bool


type BackfillAnswer = CountedBackfill | MadeBackfill


class BackfillsAnswer(TypedDict):
    """A job's backfills, the newest first: those that go on, and some that are over."""

    backfills: list[BackfillShown]
