"""What a client sends about runs: which to list, which to cancel."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from tickwork.api.fields import PAGE_DEFAULT, RUNS_PER_CALL_MAX, Body, InstantMs, Limit, Query, Ref, Team, Text
from tickwork.core.errors import InvalidField
from tickwork.core.ledger import lifecycle


class CancelRunIn(Body):
    """A run by its `ref`, by its job and nominal time, or (a one-shot) by its id alone."""

    ref: Ref | None = None
    job_id: Text | None = None
    scheduled_at: Text | None = None

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if (self.ref is None) == (self.job_id is None) or (self.scheduled_at and not self.job_id):
            raise ValueError("give `ref`, or `job_id` with `scheduled_at` (a timer's id goes alone)")
        return self


class CancelRunsIn(Body):
    runs: list[CancelRunIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)
    reason: Annotated[str, Field(min_length=1, max_length=200)] = "cancelled"


STATUSES = sorted((set(lifecycle.MEANING) | {lifecycle.QUEUED}) - {lifecycle.SPENT})


def _status(text: str) -> str:
    if text and text not in STATUSES:
        raise InvalidField(f"there is no status {text[:40]!r}", field="status", remedy=f"one of {', '.join(STATUSES)}")
    return text


class RunsQuery(Query):
    """Which runs to list."""

    status: Annotated[str, BeforeValidator(_status), WithJsonSchema({"type": "string", "enum": STATUSES})] = ""
    team: Team = ""
    """Whose; every team's when left out."""
    since: InstantMs | None = None
    """Back to this instant; 24 hours when left out."""
    cursor: str | None = None
    """Where the last page ended."""
    limit: Limit = PAGE_DEFAULT
    """How many at most; a page may be shorter, or empty, and still have a cursor."""
