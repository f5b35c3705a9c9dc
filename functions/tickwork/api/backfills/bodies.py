"""What a client sends about backfills: which range, how, and what becomes of one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tickwork.api.fields import Body, Text
from tickwork.core.jobs.backfills import CONCURRENCY_MAX

type Reason = Annotated[str, Field(min_length=1, max_length=160)]
type Note = Annotated[str, Field(min_length=1, max_length=80)]


class BackfillIn(Body):
    """Run a job's occurrences of a range again; or count them first."""

    since: Text
    """Of this nominal time or later."""
    until: Text
    """Before this nominal time, which has passed."""
    outcomes: Literal["none", "failed", "all"] = "none"
    """Those that never ran; those that failed, too; or all. One that is still to end is never run again."""
    order: Literal["oldest_first", "newest_first"] = "oldest_first"
    lane: Literal["P0", "P1", "P2"] | None = None
    """The lane of its runs. Left out: bulk, `P2`, where the pool of the job has that lane, and else the job's own."""
    concurrency: int = Field(default=1, ge=1, le=CONCURRENCY_MAX)
    """Runs at a time, of this backfill alone."""
    reason: Reason
    """Why; each run's history shows it."""
    by: Note | None = None
    """A note, kept behind the actor whom the credential proves."""
    dry_run: bool = False
    """Only count: what there is, what would be run, what that costs; and the token of just that list."""
    token: Text | None = None
    """Of the dry run. Above a hundred runs it is needed; where it is given, just what it names is run. Of more than ten
    thousand occurrences it names what was asked for, and the job's schedule."""
    client_key: Text | None = None
    """What you call this request: repeated with it, it is answered with the first backfill."""


class PauseBackfillIn(Body):
    """Launch nothing more for the time being."""

    reason: Reason
    by: Note | None = None
    """A note, kept behind the actor whom the credential proves."""


class ResumeBackfillIn(Body):
    by: Note | None = None
    """A note, kept behind the actor whom the credential proves."""


class CancelBackfillIn(Body):
    """Launch nothing more at all. What was launched and not started is cancelled."""

    reason: Reason
    runs: Literal["leave", "cancel"]
    """What becomes of its runs that have started."""
    by: Note | None = None
    """A note, kept behind the actor whom the credential proves."""
