"""Timers as answers show them."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from tickwork.api.answers import QuotaFull, Reached
from tickwork.api.runs.answers import RunShown
from tickwork.api.work_answers import WorkShown


class TimerShown(RunShown, WorkShown):
    """A one-shot: the same record is its timer and its run."""

    timer_id: str
    created_by: NotRequired[str]
    """Whose request has created it, where that is known."""
    cancelled_by: NotRequired[str]
    """Whose request has cancelled it before it started."""


class TimerAnswer(TimerShown):
    """A timer that this request, or the same one before, has created."""

    warnings: list[str]
    """What may surprise in its time."""


class CreatedTimer(TimerAnswer):
    """An entry of a batch that is there."""

    created: bool
    """By this request; false: by the same request before, with the same client_key."""


class UncreatedTimer(TypedDict):
    """What became of an entry of a batch that is not there."""

    created: Literal[False]
    client_key: NotRequired[str]
    problem: str
    """The kind of problem, as the end of a problem document's `type`. `busy`: it was not tried, or it is not known
    whether it was created; repeat it with its client_key."""
    field: str | None
    detail: str
    remedy: str
    quota: NotRequired[QuotaFull]
    """Which quota of the team keeps it out."""


class TimersAnswer(TypedDict):
    timers: list[CreatedTimer | UncreatedTimer]
    """In the order of the request."""


class TimersPage(Reached):
    timers: list[TimerShown]


class CancelledTimer(TypedDict):
    timer_id: str
    cancelled: Literal[True]
    status: str


class UncancelledTimer(TypedDict):
    timer_id: str
    cancelled: Literal[False]
    problem: str
    """The kind of problem, as the end of a problem document's `type`."""
    detail: str


class CancelTimersAnswer(TypedDict):
    timers: list[CancelledTimer | UncancelledTimer]
    """In the order of the request."""
