"""What answers of several chapters share: instants, pages, and the problem document."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from pydantic import Field

type Second = Annotated[
    str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", json_schema_extra={"format": "date-time"})
]
"""When something is due: UTC, to the second."""
type Moment = Annotated[
    str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", json_schema_extra={"format": "date-time"})
]
"""When something happened: UTC, to the millisecond."""
type Cursor = str | None
"""Hand it back for the next page; null: there is none."""


class Reached(TypedDict):
    """How far a list has come that reads more than it shows. Each is bounded in what one call costs."""

    cursor: Cursor
    bounded: bool
    """The page ended because one call may read no more, and not because it was full: go on with the cursor."""
    reached: Moment | None
    """All up to this instant was looked at, in the order of the list; null when that was all there is."""


class Fault(TypedDict):
    """One thing that is wrong with a request."""

    field: str | None
    """Which part of it, as a dotted path; null: the whole."""
    detail: str
    """What is wrong."""
    remedy: str
    """What to change."""


class QuotaFull(TypedDict):
    """A quota that a team has used up, and how much it is."""

    limit: str
    value: int


class Problem(TypedDict):
    """What is wrong, as RFC 9457 has it."""

    type: str
    """`urn:tickwork:problem:` and the kind of problem; programs go by it."""
    title: str
    """The kind of problem in words."""
    status: int
    detail: str
    """What is wrong with this request."""
    errors: NotRequired[list[Fault]]
    """Each part at fault, up to twenty."""
    quota: NotRequired[QuotaFull]
    """Which quota of the team keeps it out."""


class HealthAnswer(TypedDict):
    """The API answers."""

    status: str
    now: Moment
