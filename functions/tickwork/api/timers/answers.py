"""Timers as answers show them."""

from __future__ import annotations

from typing import Literal, TypedDict

from tickwork.api.answers import Reached
from tickwork.api.runs.answers import RunShown
from tickwork.api.work_answers import WorkShown


class TimerShown(RunShown, WorkShown):
    """A one-shot: the same record is its timer and its run."""

    timer_id: str


class TimersAnswer(TypedDict):
    timers: list[TimerShown]
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
