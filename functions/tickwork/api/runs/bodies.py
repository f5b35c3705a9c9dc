"""What a client sends about runs: which to list, which to cancel."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from tickwork.api.fields import PAGE_DEFAULT, RUNS_PER_CALL_MAX, Body, InstantMs, Limit, Query, Ref, Team, Text
from tickwork.core.errors import InvalidField
from tickwork.core.ledger import lifecycle

STATUSES = sorted((set(lifecycle.MEANING) | {lifecycle.QUEUED}) - {lifecycle.SPENT})


def _status(text: str) -> str:
    if text not in STATUSES:  # also an empty one: of all statuses lists who leaves it out
        raise InvalidField(f"there is no status {text[:40]!r}", field="status", remedy=f"one of {', '.join(STATUSES)}")
    return text


type Status = Annotated[str, BeforeValidator(_status), WithJsonSchema({"type": "string", "enum": STATUSES})]


class CancelRunIn(Body):
    """A run by any of its names (`run`), by its `ref`, by its job and nominal time, or (a one-shot) by its id alone."""

    run: Ref | None = None
    ref: Ref | None = None
    job_id: Text | None = None
    scheduled_at: Text | None = None

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        named = [one for one in (self.run, self.ref) if one is not None]
        if len(named) > 1 or (self.ref is not None and self.job_id) or (not named and not self.job_id):
            raise ValueError("give `run`, or `ref`, or `job_id` with `scheduled_at` (a timer's id goes alone)")
        if self.scheduled_at and not self.job_id:
            raise ValueError("`scheduled_at` goes with `job_id`")
        return self


class CancelRunsIn(Body):
    runs: list[CancelRunIn] = Field(min_length=1, max_length=RUNS_PER_CALL_MAX)
    reason: Annotated[str, Field(min_length=1, max_length=200)] = "cancelled"


class RunQuery(Query):
    """What helps to find a run."""

    job_id: str = ""
    """The job that a `run_id` is of."""


ORDERS = (DUE, ENDED) = ("due", "ended")


def _order(text: str) -> str:
    if text not in ORDERS:
        raise InvalidField(f"there is no order {text[:40]!r}", field="order", remedy=f"one of {', '.join(ORDERS)}")
    return text


class RunsQuery(Query):
    """Which runs to list."""

    status: Status = ""
    team: Team = ""
    """Whose; every team's when left out."""
    since: InstantMs | None = None
    """Back to this instant; 24 hours when left out."""
    until: InstantMs | None = None
    """From this instant on back; from now when left out."""
    order: Annotated[str, BeforeValidator(_order), WithJsonSchema({"type": "string", "enum": list(ORDERS)})] = ""
    """By which instant, and which `since` and `until` mean. Left out: `ended` for runs that did not end well (dead,
    expired, skipped, cancelled), which are found at once; `due` for all others, read minute by minute."""
    cursor: str | None = None
    """Where the last page ended."""
    limit: Limit = PAGE_DEFAULT
    """How many at most; a page may be shorter, or empty, and still have a cursor."""
