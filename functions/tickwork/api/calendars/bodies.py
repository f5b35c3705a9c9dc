"""What a client sends about calendars."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tickwork.api.fields import Body


def _not_hard(hard: bool) -> bool:
    if hard:
        raise ValueError(
            "catch-up and retries do not wait for the end of a calendar's times yet: leave it out; nothing is planned "
            "in them either way, and pausing the job holds what is late"
        )
    return hard


class CalendarIn(Body):
    """A calendar's content (docs/schedules.md), and the version it replaces (None: it is new)."""

    version: int | None = Field(default=None, ge=1, le=10**9)
    zone: str = "UTC"
    dates: list[Any] = Field(default=[])
    ranges: list[Any] = Field(default=[])
    weekly: list[Any] = Field(default=[])
    holidays: list[Any] = Field(default=[])
    hard: Annotated[bool, AfterValidator(_not_hard)] = False
