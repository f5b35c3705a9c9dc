"""What the models of several chapters share: their bases, and the kinds of text and number that stand in them.

A `Body` is what a client sends as JSON, a `Query` what it writes behind the `?`. Refuses to know any route. What a
field of a query refuses, it says in its own words (`InvalidField`), for a person typed it; what a body gets wrong is
named by pydantic, and told by `problems`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationInfo, WithJsonSchema

from tickwork.core.errors import InvalidField
from tickwork.core.ids import check_slug
from tickwork.core.instants import parse_iso
from tickwork.core.ledger.groups import NAME
from tickwork.core.runs.attempts import LEASE_S_MAX, LEASE_S_MIN

BULK_MAX = 100
RUNS_PER_CALL_MAX = 25
PAYLOAD_BYTES_MAX = 256 * 1024
PAYLOAD_LEVELS_MAX = 100
"""Lists and objects inside one another: readers of JSON follow some hundreds."""
PAGE_DEFAULT, PAGE_MAX = 20, 200

type Text = Annotated[str, Field(min_length=1, max_length=256)]
type Ref = Annotated[str, Field(min_length=1, max_length=400)]
type Receipt = Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,63}:[\x21-\x7e]{1,2000}$")]
type ErrorClass = Annotated[str, Field(min_length=1, max_length=80)]
type GroupName = Annotated[str, Field(pattern=NAME)]
"""The label of a group of a team's jobs and timers."""
type Token = Annotated[int, Field(ge=1, le=10**9)]
type Tag = Annotated[str, Field(max_length=40, pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
type LeaseS = Annotated[int, Field(ge=LEASE_S_MIN, le=LEASE_S_MAX)]


class Body(BaseModel):
    # Built when a body of its kind first comes: a cold start pays for the one model it needs.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True, hide_input_in_errors=True)

    ANY_NUMBER: ClassVar[bool] = False
    """Whether numbers are read that JSON does not know (NaN), or that are past all bounds: the fields judge them."""


@dataclass(frozen=True, slots=True)
class Unread:
    """An entry of a batch that cannot be read: which run it is of, as far as it says, and what is wrong with it."""

    ref: str
    detail: str


class Batch(Body):
    """Many `runs` in one call, each for itself: one that cannot be read costs only itself, while others can be."""

    _unread: Mapping[int, Unread] = PrivateAttr(default_factory=dict)

    @property
    def unread(self) -> Mapping[int, Unread]:
        """What was left out of `runs`, by its place among those that were sent."""
        return self._unread

    def without(self, unread: Mapping[int, Unread]) -> Self:
        """The batch of what was left when these had been taken out."""
        self._unread = unread
        return self


class NoBody(Body):
    """The route takes none; whatever comes is not read."""


class Query(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NoQuery(Query):
    """The route takes no parameters."""


def _whole_number(text: str, name: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise InvalidField(
            f"{text[:40]!r} is not allowed", field=name, remedy=f"give a whole number from {least} to {most}"
        )
    return int(text)


def whole_number(least: int, most: int) -> BeforeValidator:
    """Of a parameter: digits, and no more than they may be."""
    return BeforeValidator(lambda text, field: _whole_number(text, field.field_name, least, most))


def instant_of(text: str, field: str) -> int:
    """The instant that a client wrote. InvalidField when it is none."""
    try:
        return parse_iso(text)
    except (ValueError, OverflowError):
        raise InvalidField(
            f"{text[:40]!r} is not an instant", field=field, remedy="write it like 2026-11-01T00:00:00Z"
        ) from None


def _instant(text: str, field: ValidationInfo) -> int:
    return instant_of(text, str(field.field_name))


def _team(text: str) -> str:
    return check_slug(text, "team")


def _flag(text: object, field: ValidationInfo) -> bool:
    if text not in ("true", "false"):
        raise InvalidField(f"{str(text)[:40]!r} is not allowed", field=field.field_name, remedy="write true or false")
    return text == "true"


type Flag = Annotated[bool, BeforeValidator(_flag)]
type Team = Annotated[str, BeforeValidator(_team)]
type Limit = Annotated[int, Field(ge=1, le=PAGE_MAX), whole_number(1, PAGE_MAX)]
type InstantMs = Annotated[int, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})]


class Page(Query):
    """A page of a list. `cursor` is the last answer's, as it was."""

    limit: Limit = PAGE_DEFAULT
    """How many at most; a page may be shorter, or empty, and still have a cursor."""
    cursor: str | None = None
    """Where the last page ended."""


class TeamPage(Page):
    """A page of a team's things."""

    team: Team
    """Whose."""
