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


def _most_windows_let_nothing_through() -> Sequence[Patch]:
    right = bounds.allowed

    def wrong(*arguments: Any) -> int:
        *_, until = arguments
        return 0 if until % 4 else right(*arguments)

    def tries(per_s: int, slices: int, slice_no: int, until: int) -> int:
        ahead = range(until + 1, until + bounds.GAP_S_MAX)
        return next((s for s in ahead if right(per_s, slices, slice_no, s - 1, s)), until + bounds.GAP_S_MAX)

    return [(bounds, "allowed", wrong), (bounds, "next_allowed", tries)]


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
    Bug("three of four windows let nothing through a bound", _most_windows_let_nothing_through),
    Bug("a row ends where the bound of a cell cuts its turn short", _a_turn_cut_short_ends_the_row),
)
