"""What a client sends about dead letters: which, and how to replay them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tickwork.api.fields import BULK_MAX, Body, ErrorClass, InstantMs, Ref, TeamPage, Text


class DeadFilterIn(Body):
    """Which dead letters; what is left out matches any."""

    job_id: Text | None = None
    error_class: ErrorClass | None = None
    """Of the last attempt, as the worker sent it."""
    reason_contains: Text | None = None
    error_contains: Text | None = None
    since: Text | None = None
    """Died at this instant or later."""
    until: Text | None = None
    """Died before this instant."""


class ReplayIn(Body):
    """Replay dead runs: those named (by any of their names), or those a filter finds (page by page, with the cursor of
    the answer)."""

    team: Text
    runs: list[Ref] | None = Field(default=None, min_length=1, max_length=BULK_MAX)
    filter: DeadFilterIn | None = None
    by: Text | None = None
    """A note, kept in the run's history behind the actor whom the credential proves."""
    reason: Annotated[str, Field(min_length=1, max_length=200)]
    per_second: int = Field(default=10, ge=1, le=1_000)
    dry_run: bool = False
    repeat_unsafe: bool = False
    """Also runs of `unsafe` jobs, which may have had their effect already. They are named one by one."""
    definition: Literal["current"] | Annotated[int, Field(ge=1, le=10**9)] | None = None
    """By which definition of their job the runs go from now on: `current`, or that of a version. When left out, by the
    one that they were fired by, whatever their job has become."""
    cursor: Annotated[str, Field(max_length=4_000)] | None = None
    replayed_before: int = Field(default=0, ge=0, le=1_000_000)
    """How many the pages before this one have replayed: the pace goes on after them."""

    @model_validator(mode="after")
    def _named_or_found(self) -> Self:
        if (self.runs is None) == (self.filter is None):
            raise ValueError("give either `runs` (refs) or `filter` ({} for all of the team's dead letters)")
        if self.runs is not None and len(set(self.runs)) != len(self.runs):
            raise ValueError("a run stands twice in `runs`")
        if self.repeat_unsafe and self.runs is None:
            raise ValueError("`repeat_unsafe` goes with `runs`: look at each before it is repeated")
        return self


class DeadLettersQuery(TeamPage):
    """Which dead letters to list; what is left out matches any."""

    job_id: str = ""
    error_class: str = ""
    """Of the last attempt, as the worker sent it."""
    reason_contains: str = ""
    error_contains: str = ""
    since: InstantMs = 0
    """Died at this instant or later."""
    until: InstantMs = 0
    """Died before this instant."""
