"""What a client sends about pauses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tickwork.api.fields import Body, GroupName, Query, Text

Cell = Annotated[str, Field(pattern=r"^([a-z0-9-]{1,20}|\*)$")]
"""A whole cell, or `*` for all."""


class ScopeIn(Body):
    """What is paused: a team; with `group`, what of the team bears that label; with `pool`, a pool of that team, or, of
    the platform's team, one of the deployment; with `cell`, everything in it."""

    team: Text | None = None
    """Left out: the caller's own."""
    pool: Text | None = None
    """As its team calls it. What needs one of its lanes is paused with it."""
    group: GroupName | None = None
    """A label of the team's jobs and timers."""
    cell: Cell | None = None
    """A whole cell, or `*` for all: for the platform alone."""
    by: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    """A note, kept behind the actor whom the credential proves."""


class ScopePauseIn(ScopeIn):
    """Start nothing of a scope from now on."""

    reason: Annotated[str, Field(min_length=1, max_length=160)]
    until: Text | None = None
    """When it ends by itself; when left out, somebody has to resume it."""
    at_resume: Literal["skip", "latest", "all"] = "skip"
    """What becomes of the occurrences of jobs that are due meanwhile: each is skipped; or, when the pause is over, the
    newest of each job runs, or all do. Timers wait in any case, and run then."""


class ScopeResumeIn(ScopeIn):
    """Let a scope start again."""

    dry_run: bool = False
    """Only tell what that would start."""


class InFlightQuery(Query):
    """Of what, as for a pause, and where the last call ended."""

    team: Text | None = None
    """Left out: the caller's own."""
    pool: Text | None = None
    group: GroupName | None = None
    cell: Cell | None = None
    cursor: str | None = None


class PausesQuery(Query):
    """Whose pauses."""

    team: Text | None = None
    """Those of a team, of its pools, and of the platform; left out: the caller's own, and all for the platform."""
