"""Planted bugs in setting aside: each leaves out what makes a row safe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import set_aside, shares
from tickwork.core.ledger.writes import Anyway, Delete, Put, Write
from tickwork.flows.dispatch import catching_up, leasing, live, sharing
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


# --- the rows of teams ------------------------------------------------------------------------------------------


def _beyond_its_part_is_forgotten() -> Sequence[Patch]:
    def wrong(it: Any, key: Any) -> bool:
        return not it.shares.gives(key.team, it.ports.clock.monotonic_ms)

    return [(live, "leave_to_team", wrong)]


def _turn_ends_the_row() -> Sequence[Patch]:
    return [(sharing._Line, "row", lambda _: None)]


def _newer_work_goes_first() -> Sequence[Patch]:
    def wrong(self: Any, team: str, _: Any) -> bool:
        self.given[team] = self.given.get(team, 0) + 1
        is_given: bool = self.given[team] <= shares.LIVE_QUANTUM
        return is_given

    return [(shares.Shares, "gives", wrong)]


def _wider_from_where_it_stands() -> Sequence[Patch]:
    right = set_aside.widened

    def wrong(row: Any, left: Any) -> Any:
        return replace(right(row, left), at=max(row.at, left.at))

    return [(set_aside, "widened", wrong)]


def _next_is_overlooked() -> Sequence[Patch]:
    return [(sharing._Reader, "forget", lambda _: None)]


def _other_shards_are_skipped() -> Sequence[Patch]:
    def wrong(self: Any) -> Any:
        begin, first, _ = set_aside.parse_in_time(self._stretch.at)
        for second in range(max(begin, self._stretch.begin), self._stretch.until + 1):
            for shard in self._shards:
                if shard >= first:
                    yield second, shard

    return [(sharing._Reader, "_places", wrong)]


def _others_are_skipped_too() -> Sequence[Patch]:
    def wrong(it: Any, shard: int, sk: str) -> str:
        second, team, _ = sk.split("#", 2)
        return f"{second}#~" if team in it.shares.waiting else sk

    return [(live, "beyond_team", wrong)]


def _turn_begins_behind_its_page() -> Sequence[Patch]:
    right = sharing._Reader._passed

    def wrong(self: Any, shard: int) -> str:
        return max(right(self, shard), f"{self._stretch.begin:010d}#~")

    return [(sharing._Reader, "_passed", wrong)]


def _a_teams_rest_waits_for_a_try() -> Sequence[Patch]:
    right = set_aside.served_until

    def wrong(row: Any, at: str, done: int) -> Any:
        return replace(right(row, at, done), next_try_s=0)

    return [(set_aside, "served_until", wrong)]


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
    Bug("what is beyond a team's part gets no row", _beyond_its_part_is_forgotten),
    Bug("a team's row ends with its turn", _turn_ends_the_row),
    Bug("a team's newer work goes before its row", _newer_work_goes_first),
    Bug("a team's row that grows forgets what lies before it", _wider_from_where_it_stands),
    Bug("a turn does not see what it materialises", _next_is_overlooked),
    Bug("a turn goes on in its shard alone", _other_shards_are_skipped),
    Bug("with a team's rest that of the others is skipped", _others_are_skipped_too),
    Bug("a turn begins behind its first second", _turn_begins_behind_its_page),
    Bug("what is left of a team is due in no window", _a_teams_rest_waits_for_a_try),
)
