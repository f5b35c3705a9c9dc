"""The platform's defaults as answers show them."""

from __future__ import annotations

from typing import TypedDict

from tickwork.api.answers import Cursor, Moment, Second
from tickwork.api.jobs.answers import CatchUpShown
from tickwork.api.work_answers import RetryPolicyShown


class DefaultsVersionShown(TypedDict):
    """A version: what jobs do of which their teams say nothing, and for whom it is in force."""

    version: int
    retry_policy: RetryPolicyShown
    tolerance_s: int
    """At most half of a job's shortest gap, and 0 for what is due once."""
    overlap: str
    """Of what recurs."""
    catch_up: CatchUpShown
    percent: int
    teams: list[str]
    by: str
    reason: str
    created_at: Moment | None


class DefaultsShown(TypedDict):
    """All versions, the newest last. Jobs go by the newest that covers them. Version 0 is what jobs have that were
    registered before there were any, 1 what a job is registered by; neither has to be rolled out for those."""

    edition: int
    """Goes up with every change; a change names the one it was made from."""
    versions: list[DefaultsVersionShown]


class TurnedShown(TypedDict):
    """A job that would go by another version."""

    job_id: str
    before: int
    after: int
    policies: list[str]
    """Those that would be others."""
    from_after: Second | None
    """The occurrence that is pending, and goes by what it was planned by: the one after it is the first."""


class PlannedRollOut(TypedDict):
    """What a roll-out would come to, of the jobs that this answer has looked at: read on while there is a cursor."""

    jobs: list[TurnedShown]
    by_team: dict[str, int]
    looked_at: int
    same: int
    """Jobs that would go by another version, and do the same: what differs is theirs to say."""
    unreadable: int
    cursor: Cursor
