"""Planted bugs of bounds: what is over one is lost, or never goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import bounds
from tickwork.flows.dispatch import catching_up, live, sharing


def _over_the_bound_is_passed() -> Sequence[Patch]:
    right = sharing.leave_to_team

    def wrong(it: Any, key: Any) -> bool:
        return not it.shares.has_room or right(it, key)

    return [(live, "leave_to_team", wrong)]


def _a_bound_lets_nothing_through() -> Sequence[Patch]:
    return [(bounds, "allowed", lambda *_: 0)]


def _what_is_held_back_is_due_in_no_window() -> Sequence[Patch]:
    return [(bounds, "next_allowed", lambda *_: 0)]


def _a_turn_cut_short_ends_the_row() -> Sequence[Patch]:
    right = sharing.serve_teams

    def wrong(it: Any, rows: Any, next_s: int) -> Any:
        served = right(it, rows, next_s)
        return dict.fromkeys(served) if not it.shares.has_room else served

    return [(catching_up, "serve_teams", wrong)]


BUGS = (
    Bug("what is over the bound of a cell gets no row", _over_the_bound_is_passed),
    Bug("the bound of a cell lets nothing through", _a_bound_lets_nothing_through),
    Bug("what a bound holds back is due in no window", _what_is_held_back_is_due_in_no_window),
    Bug("a row ends where the bound of a cell cuts its turn short", _a_turn_cut_short_ends_the_row),
)
