"""P2 in a cell of its own gets a fifth while others have a backlog, and never nothing; none of it is lost or missed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.scenarios.stage import NOW_MS, Call, Killed, Process, Stage
from tickwork.core.dispatch import bounds, shares
from tickwork.core.errors import Throttled
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.cells import CellShape, Placement, of_lane, placement_key
from tickwork.core.ledger.keys import parse_ref, slice_key
from tickwork.core.ledger.lanes import P2
from tickwork.core.ledger.tables import LEASES, PASSES, SET_ASIDE, TEAMS
from tickwork.core.ledger.writes import Anyway, Put
from tickwork.flows.dispatch import sharing
from tickwork.ports import Layout

BULK = "bulk"
CAPACITY_PER_S = 50
FIFTH = CAPACITY_PER_S // 5
DUE_MS = NOW_MS + 10 * SECOND_MS


def a_stage(bulk_slices: int = 1, **more: int) -> Stage:
    """Two slices of everybody, and a cell in which P2 is placed."""
    others = (CellShape(BULK, bulk_slices, bulk_slices),)
    stage = Stage(
        Layout(shards=2, slices=2, pools=("default",), others=others, slice_capacity_per_s=CAPACITY_PER_S, **more)
    )
    place(stage, of_lane(P2), BULK)
    return stage


def place(stage: Stage, of: str, cell: str) -> None:
    stage.store.commit([Put(TEAMS, Placement(of=of, placed_in=cell).to_item(), Anyway("a test"))])


def press(stage: Stage, for_s: int = bounds.PRESSED_S) -> None:
    row = bounds.load_key("main") | {"until_s": stage.at_ms // SECOND_MS + for_s}
    stage.store.commit([Put(PASSES, row, Anyway("a test"))])


def window(stage: Stage, process: Process | None = None, slice_no: int = 0) -> int:
    """A window of the cell of P2, and how much it has dispatched."""
    before = len(stage.inbox)
    (process or stage.process()).window(slice_no, cell=BULK)
    return len(stage.inbox) - before


def windows(stage: Stage, count: int, *, pressed: bool) -> list[int]:
    sent = []
    for _ in range(count):
        if pressed:
            press(stage)
        sent.append(window(stage))
        stage.at_ms = (stage.at_ms // SECOND_MS + 1) * SECOND_MS
    return sent


def bulk(stage: Stage, count: int, due_ms: int = DUE_MS, team: str = "shop") -> None:
    for begin in range(0, count, 250):
        stage.timers(min(250, count - begin), due_ms, team=team, lane=P2)


def refs(stage: Stage) -> list[str]:
    return [str(body["ref"]) for body in stage.bodies()]


def rows(stage: Stage) -> list[str]:
    return sorted(str(item["who"]) for item in stage.store.items(SET_ASIDE))


# --- a fifth, and not less -----------------------------------------------------------------------------------


def test_bulk_gets_a_fifth_of_its_slices_while_others_have_a_backlog() -> None:
    stage = a_stage()
    bulk(stage, 100)
    stage.at_ms = DUE_MS
    first, *later = windows(stage, 6, pressed=True)
    assert first <= bounds.SECONDS_MAX * FIFTH
    assert later == [FIFTH] * 5
    assert rows(stage) == ["team#shop"], "what is over it waits in the row of its team"
    lease = stage.store.get(LEASES, {"slice": slice_key(BULK, 0)})
    assert lease is not None
    assert lease["done"] == stage.second - 1, "and the cursor goes on"


def test_a_backlog_that_is_over_leaves_bulk_its_pace_and_nothing_behind() -> None:
    stage = a_stage()
    bulk(stage, 100)
    stage.at_ms = DUE_MS
    windows(stage, 2, pressed=True)
    stage.at_ms += bounds.PRESSED_S * SECOND_MS
    windows(stage, 1, pressed=False)
    assert len(refs(stage)) == len(set(refs(stage))) == 100
    assert not rows(stage)


def test_bulk_that_nobody_is_held_up_by_reads_the_word_and_is_bound_by_nothing() -> None:
    stage = a_stage()
    bulk(stage, 100)
    stage.at_ms = DUE_MS
    assert windows(stage, 1, pressed=False) == [100]
    assert not rows(stage)


def test_bulk_beside_fewer_slices_than_its_own_is_a_fifth_of_all_that_is_dispatched() -> None:
    per_s = bounds.bulk_per_s(CAPACITY_PER_S, 8, 2)
    assert per_s * 4 == 2 * CAPACITY_PER_S
    assert bounds.bulk_per_s(1, 1, 1) == 1, "it is never nothing"


@pytest.mark.parametrize("per_s", [1, 3, 10, 47])
def test_what_slices_may_dispatch_is_in_sum_what_their_cell_may(per_s: int) -> None:
    second = 1_793_318_400
    for slices in (1, 4, 16):
        each = [
            sum(bounds.allowed(per_s, slices, n, s - 1, s) for s in range(second, second + 48)) for n in range(slices)
        ]
        assert sum(each) == per_s * 48
        assert max(each) - min(each) <= 1
        for n in range(slices):
            follows = bounds.next_allowed(per_s, slices, n, second)
            assert bounds.allowed(per_s, slices, n, follows - 1, follows) > 0


def test_teams_share_the_fifth() -> None:
    stage = a_stage()
    for team in ("ann", "bob"):
        bulk(stage, 200, team=team)
    stage.at_ms = DUE_MS
    windows(stage, 9, pressed=True)
    got = Counter(parse_ref(ref).team for ref in refs(stage))
    assert got["bob"] > got["ann"] / 3, "the first in the order of keys has the first seconds alone, and no more"


# --- who says so ---------------------------------------------------------------------------------------------


def pressed_until(stage: Stage) -> int:
    return bounds.pressed_until(stage.store.get(PASSES, bounds.load_key("main")))


def writes_the_word(call: Call) -> bool:
    return call.verb == "commit" and any(write.table is PASSES for write in call.detail)


def a_backlog_of_others(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Process:
    """A herd beside bulk, and a slow store."""
    monkeypatch.setattr(shares, "ALONE_MS", 0)
    monkeypatch.setattr(shares, "LIVE_QUANTUM", 50)
    monkeypatch.setattr(shares, "QUANTUM", 2)
    monkeypatch.setattr(sharing, "FIRED_ITEMS_MAX", 10)
    for _ in range(12):
        stage.timers(250, DUE_MS)
    stage.at_ms = DUE_MS
    process = stage.process()
    process.latency_ms = 60
    return process


def test_a_window_that_cannot_dispatch_all_of_its_second_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = a_stage()
    first = a_backlog_of_others(stage, monkeypatch)
    first.window(0)
    assert stage.second < pressed_until(stage) <= stage.second + bounds.PRESSED_S
    said = [call.verb for call in first.calls if call.what == PASSES.name or writes_the_word(call)]
    assert said == ["get", "commit"]
    again = stage.process()
    again.latency_ms = 60
    again.window(1)
    assert [call.verb for call in again.calls if call.what == PASSES.name] == ["get"], "it has just been said"


def test_who_can_dispatch_all_says_nothing_and_asks_nothing() -> None:
    stage = a_stage()
    stage.timers(100, DUE_MS)
    stage.at_ms = DUE_MS
    process = stage.process()
    process.window(0)
    asked = [call.detail for call in process.calls if call.what in (PASSES.name, TEAMS.name) and call.verb != "query"]
    assert not [detail for detail in asked if placement_key(of_lane(P2)) in detail]
    assert not [call for call in process.calls if call.what == PASSES.name]


def test_where_bulk_has_no_cell_of_its_own_nobody_says_or_asks_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Layout(shards=2, slices=2, pools=("default",)))
    process = a_backlog_of_others(stage, monkeypatch)
    process.window(0)
    assert not [call for call in process.calls if call.what == PASSES.name]


def test_a_cell_in_which_others_lie_too_is_not_held_back() -> None:
    stage = a_stage()
    bulk(stage, 100)
    place(stage, "all", BULK)
    stage.at_ms = DUE_MS
    assert windows(stage, 1, pressed=True) == [100]


def test_a_word_that_cannot_be_read_is_taken_as_said() -> None:
    stage = a_stage()
    bulk(stage, 100)
    stage.at_ms = DUE_MS

    def busy() -> None:
        raise Throttled("the table is busy")

    process = stage.process().before(lambda c: c.verb == "get" and c.what == PASSES.name, busy, times=9)
    assert window(stage, process) < 100
    assert "load_unread" in [action for action, _ in stage.signals.lines]


def test_a_word_that_is_not_told_costs_nobody_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = a_stage()

    def busy() -> None:
        raise Throttled("the table is busy")

    process = a_backlog_of_others(stage, monkeypatch)
    process.before(lambda c: c.what == PASSES.name, busy, times=9)
    assert process.window(0).outcome == "served"
    assert "load_untold" in [action for action, _ in stage.signals.lines]


# --- nothing is missed, nothing lost --------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["none", "latest", "all"])
def test_an_occurrence_that_was_held_back_for_minutes_was_not_missed(policy: str) -> None:
    stage = a_stage()
    for n in range(150):
        stage.job(f"job-{n:03d}", {"rate": "5 minutes", "anchor": "2026-01-01T00:00:00Z"}, CatchUp(policy), lane=P2)
    stage.at_ms = (stage.at_ms // (5 * MINUTE_MS) + 1) * 5 * MINUTE_MS
    monkey = replace(stage.layout, slice_capacity_per_s=5)
    due_s = stage.second
    for _ in range(150):
        press(stage)
        stage.process(monkey).window(0, cell=BULK)
        stage.at_ms += SECOND_MS
    started = {parse_ref(ref).job_id for ref in refs(stage) if parse_ref(ref).scheduled_at_ms == due_s * SECOND_MS}
    assert stage.second - due_s > 100, "else nothing was held back for longer than an outage is"
    assert len(started) == 150
    assert {run.status for run in stage.runs()} == {"pending"}, "none was skipped"
    stage.assert_chains_unbroken()


def test_a_crash_at_any_call_of_a_window_that_is_held_back_loses_nothing() -> None:
    def crowded() -> Stage:
        stage = a_stage()
        bulk(stage, 30)
        bulk(stage, 10, team="pay")
        stage.at_ms = DUE_MS
        press(stage)
        return stage

    stage = crowded()
    whole = stage.process()
    window(stage, whole)
    assert rows(stage)
    for n in range(1, len(whole.calls) + 1):
        for after in (False, True):
            stage = crowded()
            process = stage.process()

            def die() -> None:
                raise Killed

            (process.after if after else process.before)(lambda c, n=n: c.n == n, die)
            with pytest.raises(Killed):
                process.window(0, cell=BULK)
            stage.at_ms += 11 * SECOND_MS
            windows(stage, 8, pressed=True)
            assert len(set(refs(stage))) == 40, f"died at call {n}, {after=}"
            assert not rows(stage)


# --- what a cell may dispatch ---------------------------------------------------------------------------------


def test_a_cell_dispatches_no_more_in_a_second_than_it_may() -> None:
    stage = Stage(Layout(shards=2, slices=2, pools=("default",), cell_dispatch_per_s=20))
    stage.timers(200, DUE_MS)
    stage.at_ms = DUE_MS
    sent = []
    for _ in range(12):
        before = len(stage.inbox)
        for slice_no in (0, 1):
            stage.process().window(slice_no)
        sent.append(len(stage.inbox) - before)
        stage.at_ms += SECOND_MS
    assert sent[0] <= bounds.SECONDS_MAX * 20
    assert max(sent[1:]) == 20
    assert sum(sent) == len(set(refs(stage))) == 200
    assert not rows(stage)
    assert stage.signals.counts["scheduler.held_back_total"] > 0
