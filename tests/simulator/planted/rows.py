"""Planted bugs in setting aside: each leaves out what makes a row safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import set_aside
from tickwork.core.ledger.writes import Anyway, Delete, Put, Write
from tickwork.flows.dispatch import catching_up, leasing
from tickwork.flows.dispatch.serving import Serving


def _left_is_forgotten() -> Sequence[Patch]:
    right = set_aside.taking_in
    return [(set_aside, "taking_in", lambda rows, slice_id, left, now_s: right(rows, slice_id, {}, now_s))]


def _row_after_the_advance() -> Sequence[Patch]:
    """The cursor first, the row in a write of its own."""
    right = Serving.advance

    def wrong(self: Any, done: int, *, release: bool, covering: bool) -> bool:
        if not self.total.left:
            return right(self, done, release=release, covering=covering)
        ok = leasing.advance(self.ports, self.holding, done, release=False, covering=covering)
        return ok and right(self, done, release=release, covering=covering)

    return [(Serving, "advance", wrong)]


def _replaced_not_widened() -> Sequence[Patch]:
    def wrong(row: Any, left: Any) -> Any:
        return replace(row, begin=left.begin, until=left.until, place=left.place)

    return [(set_aside, "widened", wrong)]


def _deleted_unserved() -> Sequence[Patch]:
    return [(catching_up, "_serve_row", lambda *_: None)]


def _not_covered() -> Sequence[Patch]:
    right = catching_up._write

    def wrong(it: Any, aside: Any, *, release: bool) -> None:
        if release:
            right(it, aside, release=release)

    return [(catching_up, "_write", wrong)]


def _failed_counts_as_served() -> Sequence[Patch]:
    right = catching_up.work_off

    def wrong(*arguments: Any) -> str:
        outcome = right(*arguments)
        return catching_up.FINISHED if outcome == catching_up.FAILED else outcome

    return [(catching_up, "work_off", wrong)]


def _place_of_the_page_that_failed() -> Sequence[Patch]:
    right = set_aside.failed_again

    def wrong(row: Any, now_s: int) -> Any:
        return right(replace(row, place=f"{row.until // 60:08d}#9999#~"), now_s)

    return [(set_aside, "failed_again", wrong)]


def _writes_without_condition() -> Sequence[Patch]:
    right = set_aside.writes

    def wrong(before: Any, after: Any) -> list[Write]:
        return [
            replace(write, condition=Anyway("planted")) if isinstance(write, Put | Delete) else write
            for write in right(before, after)
        ]

    return [(set_aside, "writes", wrong)]


def _rows_never_served() -> Sequence[Patch]:
    return [(catching_up, "has_due_rows", lambda _: False)]


BUGS = (
    Bug("what was left is not set aside", _left_is_forgotten),
    Bug("the row is written after the advance", _row_after_the_advance),
    Bug("a row is replaced, not widened", _replaced_not_widened),
    Bug("a row is deleted before it is served", _deleted_unserved),
    Bug("a row does not cover what it materialises", _not_covered),
    Bug("a row that failed again is deleted", _failed_counts_as_served),
    Bug("a row skips what failed", _place_of_the_page_that_failed),
    Bug("rows are written without a condition", _writes_without_condition),
    Bug("rows are never served", _rows_never_served),
)
