"""Cells: a tenant moves to one of its own under load, and slices grow and shrink, 4 to 16 to 8 (F4, F10, decision 164).

Nothing is moved but by where what is new goes: nothing is lost, nothing is started twice, and no chain has a gap."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise

import pytest
from benchmarks.percentiles import percentile

from tests.scenarios.stage import NOW_MS, Call, Killed, Process, Stage, Workers
from tickwork.core.access.actors import LOCAL
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.cells import ALL, CellShape, of_team
from tickwork.core.ledger.keys import LedgerKey
from tickwork.flows.access import placements
from tickwork.flows.audit.reconciling import reconcile
from tickwork.ports import Layout

FULL = bool(os.environ.get("TICKWORK_FULL"))
RATE = 2_000 if FULL else 4
"""Timers a second of the tenant."""
SECONDS, WHILE_S = (100, 60) if FULL else (40, 15)
"""Of a stretch: every process has forgotten the placement before; of one that is looked at, or a deployment goes on."""
BEFORE = Layout(shards=16, slices=4, pools=("default",))
OWN, WIDE, NARROW = CellShape("acme", 16, 4), CellShape("wide", 16, 16), CellShape("narrow", 16, 8)


def with_cells(*cells: CellShape) -> Layout:
    return Layout(shards=16, slices=4, pools=("default",), others=cells)


class Load:
    """Clients that create all the time, some of them in processes that live long and trust what they have read."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.workers, self.created = Workers(), list[LedgerKey]()
        self.jobs = [stage.job(f"every-20-s-{n}", {"rate": "20 seconds"}, team="acme") for n in range(20)]
        self.jobs += [stage.job("every-minute", {"rate": "1 minute"}, team="shop")]
        self.created += stage.timers(40, NOW_MS + 12 * MINUTE_MS, team="acme")  # due when all moves are long made

    def go_on(self, layouts: Iterable[Layout], creators: list[Process], seconds: int = SECONDS) -> None:
        """While a deployment goes on, processes of both layouts live side by side."""
        both = tuple(layouts)
        for second in range(seconds):
            stage = self.stage
            stage.at_ms += SECOND_MS
            by = creators[second % len(creators)]
            self.created += stage.timers(RATE, stage.at_ms + (second % 7) * SECOND_MS, team="acme", by=by)
            self.created += stage.timers(1, stage.at_ms + (second % 5) * SECOND_MS, team="shop", by=by)
            layout = both[second % len(both)]
            for cell in layout.shapes:
                for slice_no in range(cell.slices):
                    stage.process(layout).window(slice_no, cell=cell.name)
            stage.work(self.workers)

    def cells_of_new(self, team: str, since: int) -> set[str]:
        return {key.cell for key in self.created[since:] if key.team == team}

    def finish(self) -> None:
        self.stage.at_ms = max(self.stage.at_ms, NOW_MS + 12 * MINUTE_MS)
        self.stage.serve(30, self.workers)
        reconcile(self.stage.process().ports)
        self.stage.work(self.workers)

    def assert_whole(self) -> None:
        stage, started = self.stage, self.workers.started
        assert all(stage.run(key).status == "succeeded" for key in self.created), "nothing lost"
        assert len(started) == len(set(started)), "nothing doubled"
        for job_id in self.jobs:
            nominal = sorted(run.key.scheduled_at_ms for run in stage.runs() if run.key.job_id == job_id)
            assert len({b - a for a, b in pairwise(nominal)}) == 1, "no gap, no repeat"
        stage.assert_chains_unbroken()

    def told(self, what: str) -> str:
        lags_ms = self.workers.lags_ms
        lost = sum(self.stage.run(key).status != "succeeded" for key in self.created)
        doubled = len(self.workers.started) - len(set(self.workers.started))
        return (
            f"\n{what}: {len(self.created)} timers and {len(self.jobs)} jobs, {lost} lost, {doubled} doubled, "
            f"{self.workers.dead_at_start} dead at start, lag p50 {percentile(lags_ms, 50)} ms, "
            f"p99 {percentile(lags_ms, 99)} ms"
        )


def test_a_tenant_moves_to_its_own_cell_and_back_under_load_and_nothing_is_lost_or_doubled() -> None:
    stage = Stage(BEFORE)
    load = Load(stage)
    layout = with_cells(OWN)
    load.go_on([BEFORE, layout], [stage.process(BEFORE), stage.process(layout)], WHILE_S)
    stage.layout = layout
    creators = [stage.process(), stage.process()]
    load.go_on([layout], creators, WHILE_S)

    placements.place(stage.process().ports, of_team("acme"), "acme", LOCAL, "2,000 timers a second")
    load.go_on([layout], creators)
    since = len(load.created)
    load.go_on([layout], creators, WHILE_S)
    assert load.cells_of_new("acme", since) == {"acme"}
    assert load.cells_of_new("shop", 0) == {"main"}, "nobody else is moved"
    places = {next_cell(stage, job_id) for job_id in load.jobs if job_id.startswith("acme:")}
    assert places == {"acme"}, "its chains have moved over"

    placements.take_back(stage.process().ports, of_team("acme"), LOCAL, "it is quiet again")
    load.go_on([layout], creators)
    since = len(load.created)
    load.go_on([layout], creators, WHILE_S)
    assert load.cells_of_new("acme", since) == {"main"}
    load.finish()
    load.assert_whole()
    print(load.told(f"a tenant of {RATE} timers a second to its own cell and back"))


def test_slices_grow_from_4_to_16_and_shrink_to_8_and_nothing_is_lost_or_doubled() -> None:
    stage = Stage(BEFORE)
    load = Load(stage)
    deployed, sizes = BEFORE, [4]
    for cell, others in ((WIDE, (WIDE,)), (NARROW, (WIDE, NARROW))):
        layout = with_cells(*others)
        load.go_on([deployed, layout], [stage.process(deployed), stage.process(layout)], WHILE_S)
        stage.layout = deployed = layout
        placements.place(stage.process().ports, ALL, cell.name, LOCAL, f"{cell.slices} slices")
        creators = [stage.process(), stage.process()]
        load.go_on([layout], creators)
        since = len(load.created)
        load.go_on([layout], creators, WHILE_S)
        assert {key.cell for key in load.created[since:]} == {cell.name}
        assert {next_cell(stage, job_id) for job_id in load.jobs} == {cell.name}
        sizes.append(cell.slices)
    load.finish()
    load.assert_whole()
    print(load.told(f"slices {' to '.join(map(str, sizes))}"))


def next_cell(stage: Stage, job_id: str) -> str:
    key = stage.get_job(job_id).next_key(stage.layout.home)
    assert key is not None
    return key.cell


STEP, LOOK, END = "after its step", "in its look at the other cell", "before it moves the cursor"


@pytest.mark.parametrize("died", [STEP, LOOK, END])
def test_a_scanner_that_dies_when_a_chain_has_crossed_leaves_it_unbroken(died: str) -> None:
    """The next occurrence lies in the other cell, in a second that was announced there already."""
    layout = with_cells(OWN)
    stage = Stage(layout)
    job_id = stage.job("every-5-s", {"rate": "5 seconds"}, catch_up=CatchUp("all"), team="acme")
    stage.serve(3)
    placements.place(stage.process().ports, of_team("acme"), "acme", LOCAL, "")
    due = stage.get_job(job_id).next_key("main")
    assert due is not None
    stage.at_ms = due.fire_at_ms + 6 * SECOND_MS  # it is late: what comes after it is due there, too
    for slice_no in range(OWN.slices):
        stage.process().window(slice_no, cell="acme")

    def kill() -> None:
        raise Killed

    def is_step(call: Call) -> bool:
        return call.sets("next_shard")

    dying = stage.process()
    if died == STEP:
        dying.after(is_step, kill)
    elif died == LOOK:  # when it has stepped the occurrence there, and not sent it
        dying.after(lambda call: is_step(call) and call.what == "jobs", kill)
    else:
        dying.before(lambda call: call.sets("done"), kill)
    with pytest.raises(Killed):
        dying.window(layout.slice_of(due.shard))
    assert next_cell(stage, job_id) == "acme"
    workers = stage.work()
    stage.serve(20, workers)
    if died == LOOK:  # the run in the old cell is over: nobody repeats what came of it but the audit
        assert stranded(stage)
        stage.serve(8 * 60, workers)
        reconcile(stage.process().ports)
        stage.work(workers)

    nominal = sorted(run.key.scheduled_at_ms for run in stage.runs() if run.key.job_id == job_id)
    assert {b - a for a, b in pairwise(nominal)} == {5 * SECOND_MS}
    assert not stranded(stage)
    assert len(workers.started) == len(set(workers.started))
    stage.assert_chains_unbroken()


def stranded(stage: Stage) -> list[str]:
    """What is behind a cursor, and was never sent."""
    return [run.key.ref for run in stage.runs() if run.status == "pending" and run.key.fire_at_ms < stage.at_ms]
