"""Calendars as answers show them."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from tickwork.api.answers import Cursor, Moment


class CalendarShown(TypedDict):
    """A calendar: its content, as far as it says anything, and its version."""

    calendar_id: str
    version: int
    zone: NotRequired[str]
    dates: NotRequired[list[Any]]
    ranges: NotRequired[list[Any]]
    weekly: NotRequired[list[Any]]
    holidays: NotRequired[list[Any]]
    hard: NotRequired[bool]
    changed_at: Moment


class CalendarsPage(TypedDict):
    calendars: list[CalendarShown]
    cursor: Cursor
