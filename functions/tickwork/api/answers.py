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


class Fault(TypedDict):
    """One thing that is wrong with a request."""

    field: str | None
    """Which part of it, as a dotted path; null: the whole."""
    detail: str
    """What is wrong."""
    remedy: str
    """What to change."""


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


class HealthAnswer(TypedDict):
    """The API answers."""

    status: str
    now: Moment
