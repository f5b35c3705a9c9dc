"""Pauses as answers show them."""

from __future__ import annotations

from typing import TypedDict

from tickwork.api.answers import Cursor, Moment
from tickwork.api.paused_view import ScopePauseShown, StartShown, StartsShown


class EndedBy(TypedDict):
    """Who ended the last pause, and when."""

    by: str
    at: Moment


class ResumedScope(TypedDict):
    kind: str
    name: str
    changed: bool
    """Whether it was paused until now."""
    dry_run: bool
    starts: StartsShown
    resumed: EndedBy | None
    """Null: it ended by itself, is paused, or never was."""


class InFlightAnswer(TypedDict):
    """What has been started of a scope and has not ended. It is drained when all pages of a pass are empty."""

    runs: list[StartShown]
    cursor: Cursor


class PausesAnswer(TypedDict):
    pauses: list[ScopePauseShown]
    """Those in force."""
