"""The table of what happens: each action in each state of an occurrence, and what becomes of the ones after it.

docs/what-happens.md is written from it, and `test_cells.py` tries each cell, killed at each port call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.actions import acts
from tests.actions.acts import Action
from tests.actions.fates import (
    AGAIN,
    ARE_NO_MORE,
    ARE_SKIPPED,
    AS_DISPATCHED,
    AT_NEW_TIMES,
    CANCEL_REFUSED,
    CANCELLED,
    DELETED,
    ENDED,
    ENDED_BESIDE,
    GIVEN_UP,
    GO_ON,
    GO_ON_CHANGED,
    HELD,
    HELD_BY_HAND,
    LEFT_OUT,
    LIVE,
    NO_ATTEMPT_FOLLOWS,
    NOT_DEAD_ENDED,
    NOT_DEAD_GOES_ON,
    NOT_PASSED,
    REPLAYED,
    RUNS,
    RUNS_BESIDE,
    RUNS_CHANGED,
    SKIP_REFUSED,
    SKIPPED,
    STOPPED,
    TIMER_CANCELLED,
    TIMER_ENDED,
    TIMER_STARTED,
    TOO_LATE_TO_SKIP,
    WITH_ITS_GROUP,
    Fate,
    Then,
)
from tests.actions.states import STATES, State


@dataclass(frozen=True, slots=True)
class Row:
    """One action: the fate of the occurrence in each of STATES, and what becomes of the ones after it."""

    action: Action
    fates: tuple[Fate, ...]
    then: Then | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    action: Action
    state: State
    fate: Fate
    then: Then | None
    is_timer: bool

    @property
    def name(self) -> str:
        return f"{'timer' if self.is_timer else 'job'}: {self.action.name}, {self.state.name}"


_GOES_ON = (AS_DISPATCHED, AS_DISPATCHED, AS_DISPATCHED, ENDED, ENDED)
"""Queued, running, waiting, succeeded, dead: of what was dispatched, or has ended, nothing changes."""

_WITH_ITS_GROUP = (*(WITH_ITS_GROUP,) * 4, NO_ATTEMPT_FOLLOWS, WITH_ITS_GROUP, ENDED, ENDED)

JOB_ROWS: Final = (
    Row(acts.CREATE_AGAIN, (RUNS, RUNS, RUNS, *_GOES_ON), GO_ON),
    Row(acts.CHANGE, (RUNS_CHANGED, RUNS_CHANGED, RUNS_CHANGED, *_GOES_ON), GO_ON_CHANGED),
    Row(acts.MOVE, (GIVEN_UP, GIVEN_UP, RUNS, *_GOES_ON), AT_NEW_TIMES),
    Row(acts.PAUSE, (SKIPPED, SKIPPED, RUNS, *_GOES_ON), ARE_SKIPPED),
    Row(acts.RESUME, (RUNS, RUNS, SKIPPED, *_GOES_ON), GO_ON),
    Row(acts.SKIP, (LEFT_OUT, LEFT_OUT, LEFT_OUT, *(TOO_LATE_TO_SKIP,) * 3, *(SKIP_REFUSED,) * 2), GO_ON),
    Row(acts.UNSKIP, (RUNS, RUNS, RUNS, *_GOES_ON), GO_ON),
    Row(
        acts.CANCEL,
        (CANCELLED, CANCELLED, CANCELLED, CANCELLED, STOPPED, CANCELLED, CANCEL_REFUSED, CANCEL_REFUSED),
        GO_ON,
    ),
    Row(acts.DELETE, (DELETED, DELETED, DELETED, *_GOES_ON), ARE_NO_MORE),
    Row(acts.RECREATE, (RUNS_CHANGED, RUNS_CHANGED, DELETED, *_GOES_ON), GO_ON_CHANGED),
    Row(acts.REPLAY, (*(NOT_DEAD_GOES_ON,) * 6, NOT_DEAD_ENDED, REPLAYED), GO_ON),
    Row(acts.RUN_NOW, (*(RUNS_BESIDE,) * 2, HELD_BY_HAND, *(HELD,) * 3, *(ENDED_BESIDE,) * 2), GO_ON),
    Row(acts.BACKFILL, (*(NOT_PASSED,) * 2, *(LIVE,) * 4, *(AGAIN,) * 2), GO_ON),
    Row(acts.CANCEL_GROUP, _WITH_ITS_GROUP, ARE_NO_MORE),
)

TIMER_ROWS: Final = (
    Row(acts.TIMER_AGAIN, (RUNS, RUNS, RUNS, *_GOES_ON)),
    Row(acts.TIMER_DELETE, (*(TIMER_CANCELLED,) * 4, TIMER_STARTED, TIMER_STARTED, TIMER_ENDED, TIMER_ENDED)),
    Row(
        acts.TIMER_CANCEL,
        (CANCELLED, CANCELLED, CANCELLED, CANCELLED, STOPPED, CANCELLED, CANCEL_REFUSED, CANCEL_REFUSED),
    ),
    Row(acts.CANCEL_GROUP, _WITH_ITS_GROUP),
    Row(acts.TIMER_REPLAY, (*(NOT_DEAD_GOES_ON,) * 6, NOT_DEAD_ENDED, REPLAYED)),
)

CELLS: Final = tuple(
    Cell(row.action, state, fate, row.then, is_timer)
    for rows, is_timer in ((JOB_ROWS, False), (TIMER_ROWS, True))
    for row in rows
    for state, fate in zip(STATES, row.fates, strict=True)
)
