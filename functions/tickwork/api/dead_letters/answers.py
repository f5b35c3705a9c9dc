"""Dead letters and replays as answers show them."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from tickwork.api.answers import Cursor, Moment, Reached, Second
from tickwork.api.runs.answers import RunShown


class CauseShown(TypedDict):
    """Why a run died: the reason of its end, and the error of its last attempt."""

    reason: str
    error: str
    error_class: str | None


class DeadLetterShown(RunShown):
    cause: CauseShown
    died_at: Moment


class DeadLettersPage(Reached):
    runs: list[DeadLetterShown]


class MatchedRun(TypedDict):
    ref: str
    occurrence: str
    run_id: str


class CountedReplay(TypedDict):
    """A dry run: which ones would be replayed."""

    dry_run: Literal[True]
    matched: int
    runs: list[MatchedRun]
    cursor: Cursor


class ReplayedRun(TypedDict):
    ref: str
    occurrence: str
    run_id: str
    replayed: bool
    reason: NotRequired[str]
    """Why it is not replayed."""
    held_by: NotRequired[str]
    """`held`: the run of the job that has not ended, beside which its `overlap` lets no other run."""
    due_at: NotRequired[Second]
    """When it is delivered again."""


class ReplayDone(TypedDict):
    dry_run: Literal[False]
    matched: int
    replayed: int
    runs: list[ReplayedRun]
    cursor: Cursor


type ReplayAnswer = CountedReplay | ReplayDone
