"""What a client sends about calendars."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tickwork.api.fields import Body


class CalendarIn(Body):
    """A calendar's content (docs/schedules.md), and the version it replaces (None: it is new)."""

    version: int | None = Field(default=None, ge=1, le=10**9)
    zone: str = "UTC"
    dates: list[Any] = Field(default=[])
    ranges: list[Any] = Field(default=[])
    weekly: list[Any] = Field(default=[])
    holidays: list[Any] = Field(default=[])
    hard: bool = Field(default=False)
    """Whether what is late, or is to be tried again, waits for the end of its times too."""
