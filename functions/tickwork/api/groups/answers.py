"""Groups as answers show them."""

from __future__ import annotations

from typing import TypedDict

from tickwork.api.answers import Moment
from tickwork.api.paused_view import ScopePauseShown


class GroupCancelled(TypedDict):
    """The last time that a group was cancelled."""

    by: str
    reason: str
    at: Moment


class GroupShown(TypedDict):
    """A group, which need not hold anything. What it holds is in the lists of timers and jobs."""

    team: str
    group: str
    epoch: int
    """How often it was cancelled. What is made now is in this one; what was made in an earlier one is cancelled."""
    cancelled: GroupCancelled | None
    """Null: nobody has."""
    paused: ScopePauseShown | None
    """The pause of the group that is in force, if one is."""
