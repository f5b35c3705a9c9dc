"""The number of shards changes while timers fire (F2): nothing is lost or doubled, all ends up in its place."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.scenarios.stage import NOW_MS, Killed, Stage, Workers
from tickwork.core.dispatch.slices import LEASE_TTL_MS
from tickwork.core.ids import shard_of
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch import live
from tickwork.flows.runs import timers
from tickwork.ports import Layout

SLICES = 2
STEPS = {
    "4 to 16": [(4, 0), (4, 16), (16, 4), (16, 4), (16, 0)],
    "16 to 4": [(16, 0), (4, 16), (4, 16), (4, 0)],
}
"""(shards, shards_before) of each deployment, as docs/operations.md has them. Growing reads the new shards before
anything is written to them."""


def layout(shards: int, before: int) -> Layout:
    return Layout(shards=shards, shards_before=before, slices=SLICES, pools=("default",))


@pytest.mark.parametrize("change", STEPS)
def test_timers_and_chains_survive_a_change_of_the_number_of_shards(change: str) -> None:
    steps = [layout(*step) for step in STEPS[change]]
    stage = Stage(steps[0])
    jobs = [stage.job(f"every-20-s-{n}", {"rate": "20 seconds"}) for n in range(20)]
    far = stage.timers(40, NOW_MS + 9 * MINUTE_MS)  # created before, due when every deployment has been made
    places = {key.job_id: key.shard for key in far}
    workers, created = Workers(), list(far)
    for new, old in zip(steps[1:], steps, strict=False):
        for second in range(100):
            # While a deployment goes on, processes of both live side by side.
            stage.at_ms += SECOND_MS
            creator, scanner = (new, old) if second % 2 else (old, new)
            if second > 50:
                creator = scanner = new
            created += stage.timers(2, stage.at_ms + (second % 7) * SECOND_MS, by=stage.process(creator))
            for slice_no in range(SLICES):
                stage.process(scanner).window(slice_no)
            stage.work(workers)
        stage.layout = new
    stage.layout = steps[-1]
    for shrunk in (replace(steps[-1], shards_before=steps[-2].shards_before),):
        stage.layout = shrunk  # until the old layout's items have ended
        stage.at_ms = max(stage.at_ms, NOW_MS + 9 * MINUTE_MS)
        stage.serve(90, workers)
        reconcile(stage.process().ports)
        stage.work(workers)

    assert {key.job_id: key.shard for key in far} == places
    assert all(stage.run(key).status == "succeeded" for key in created), "nothing lost"
    assert len(workers.started) == len(set(workers.started)), "nothing doubled"
    for job_id in jobs:
        job = stage.get_job(job_id)
        assert job.next is not None
        assert job.next.shard == shard_of(job_id, steps[-1].shards), "its chain has moved over"
        nominal = sorted(run.key.scheduled_at_ms for run in stage.runs() if run.key.job_id == job_id)
        assert {b - a for a, b in pairwise(nominal)} == {20 * SECOND_MS}, "no gap, no repeat"
    stage.assert_chains_unbroken()
    shards = {run.key.shard for run in stage.runs() if run.status == "pending"}
    assert shards <= set(range(steps[-1].shards))
    print(f"\n{change}: {len(created)} timers, {len(workers.started)} runs, {workers.dead_at_start} dead at start")


def test_a_chain_that_comes_to_an_earlier_shard_while_an_outage_is_caught_up_goes_on_at_once() -> None:
    """Its next occurrence lies in the minute that is being served, in a shard that was served already."""
    old, new = Layout(shards=16, slices=1, pools=("default",)), Layout(shards=4, shards_before=16, slices=1)
    stage = Stage(old)
    jobs = [stage.job(f"every-5-s-{n}", {"rate": "5 seconds"}, catch_up=CatchUp("all")) for n in range(12)]
    assert any(shard_of(job_id, 16) > shard_of(job_id, 4) for job_id in jobs)
    stage.at_ms += 3 * MINUTE_MS
    stage.layout = new
    workers = stage.serve(30)

    assert not stage.lease().late_until
    stranded = [run.key.ref for run in stage.runs() if run.status == "pending" and run.key.fire_at_ms < stage.at_ms]
    assert not stranded, "what the cursor has passed was sent"
    assert len(workers.started) == len(set(workers.started)) >= 12 * 36


def test_a_window_that_dies_while_chains_move_leaves_no_occurrence_in_a_shard_it_had_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """no-lost-timer: the occurrence that it fired has ended when its successor comes, and the next of its chain lies in
    the same minute, in a shard before the place that it had come to."""
    monkeypatch.setattr(live, "PAGE_ITEMS_MAX", 2)
    old, new = Layout(shards=16, slices=1, pools=("default",)), Layout(shards=4, shards_before=16, slices=1)
    stage = Stage(old)
    job_id = next(f"shop:every-5-s-{n}" for n in range(100) if shard_of(f"shop:every-5-s-{n}", 16) >= 12)
    stage.job(job_id.partition(":")[2], {"rate": "5 seconds"}, catch_up=CatchUp("all"))
    stage.timers(30, NOW_MS + 4 * SECOND_MS)
    stage.at_ms += 13 * SECOND_MS
    stage.layout = new

    def kill() -> None:
        raise Killed

    dying = stage.process()
    dying.after(lambda call: call.verb == "send" and any(job_id in one.body for one in call.detail), kill)
    with pytest.raises(Killed):
        dying.window()
    workers = stage.work()
    stage.at_ms += LEASE_TTL_MS
    stage.process().window()
    stage.work(workers)

    stranded = [run.key.ref for run in stage.runs() if run.status == "pending" and run.key.fire_at_ms < stage.at_ms]
    assert not stranded, "what the cursor has passed was sent"


def test_a_one_shot_of_the_old_layout_can_still_be_read_and_cancelled_by_its_id() -> None:
    stage = Stage(layout(16, 0))
    keys = stage.timers(30, NOW_MS + MINUTE_MS)
    assert any(key.shard >= 4 for key in keys)
    stage.layout = layout(4, 16)
    ports = stage.process().ports
    assert all(timers.get_timer(ports, key.job_id).status == "pending" for key in keys)
    cancelled = [key for key in keys if key.shard >= 4]
    for key in cancelled:
        timers.cancel_timer(ports, key.job_id)
    stage.at_ms = NOW_MS + MINUTE_MS
    workers = stage.serve(1)
    assert len(workers.started) == len(keys) - len(cancelled)


def test_growing_in_one_step_is_a_mistake_that_the_audit_finds_late() -> None:
    """What the first step of growing is for: an old scanner passes a shard that it does not know of."""
    old, new = layout(4, 0), layout(16, 4)
    stage = Stage(old)
    stage.serve(1)
    keys = stage.timers(40, stage.at_ms + 2 * SECOND_MS, by=stage.process(new))
    unknown = [key for key in keys if key.shard >= 4]
    workers = stage.serve(5)  # by scanners of the old deployment
    assert len(workers.started) == len(keys) - len(unknown) < len(keys)

    stage.layout = new
    stage.serve(301, workers)
    assert all(stage.run(key).status == "pending" for key in unknown)
    reconcile(stage.process().ports)
    stage.work(workers)
    assert len(workers.started) == len(set(workers.started)) == len(keys), "late, but not lost"
