"""Tables restored to an earlier time (docs/deploy.md): what the windows and the reconciler make of it."""

from __future__ import annotations

import copy
from collections import Counter

from tests.scenarios.stage import NOW_MS, Stage, Workers
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Anyway, Delete, Put
from tickwork.flows.audit.reconciling import reconcile
from tickwork.testing.memory import MemoryStore

DAY_PASSES = 26 * 3
"""Passes of the reconciler, every 20 minutes, until each bucket has had its audit of a day."""


def busy_stage() -> tuple[Stage, Workers]:
    """Jobs and one-shots, some done, some due soon, some later."""
    stage = Stage()
    for name, policy in (("all", CatchUp("all")), ("latest", CatchUp())):
        stage.job(name, {"rate": "10 seconds"}, policy)
    stage.timers(5, NOW_MS + 20 * SECOND_MS)
    stage.timers(5, NOW_MS + 90 * SECOND_MS)
    stage.timers(5, NOW_MS + 10 * MINUTE_MS)
    return stage, stage.serve(60)


def restore_ledger(stage: Stage, snapshot: MemoryStore) -> None:
    """The items of one table as they were; nothing else."""
    for item in stage.store.items(TIMERS):
        stage.store.commit([Delete(TIMERS, {"pk": item["pk"], "sk": item["sk"]}, Anyway("restored"))])
    for item in snapshot.items(TIMERS):
        stage.store.commit([Put(TIMERS, item, Anyway("restored"))])


def test_all_tables_restored_to_one_time_are_gone_on_with_and_what_runs_twice_has_the_same_key() -> None:
    stage, before = busy_stage()
    snapshot = copy.deepcopy(stage.store)
    lost_meanwhile = stage.timers(3, stage.at_ms + 20 * SECOND_MS)
    between = stage.serve(60)
    stage.store = snapshot

    after = stage.serve(20)
    reconcile(stage.process().ports)
    stage.at_ms = NOW_MS + 10 * MINUTE_MS - SECOND_MS
    stage.serve(40, after)

    started = Counter([*before.started, *between.started, *after.started])
    twice = {run_id for run_id, count in started.items() if count > 1}
    assert twice
    assert twice <= {*between.started}, "only what had run since then, and under the same run_id"
    assert max(started.values()) == 2
    assert Counter(run.status for run in stage.runs() if not run.is_recurring) == {"succeeded": 15}
    stage.assert_chains_unbroken()
    known = {run.run_id for run in stage.runs()}
    assert not {key.run_id for key in lost_meanwhile} & known, "what was created since is gone: its clients ask again"


def test_a_message_of_before_the_restore_dies_at_the_start_of_the_run_that_has_another() -> None:
    stage, _ = busy_stage()
    snapshot = copy.deepcopy(stage.store)
    stage.at_ms = NOW_MS + 90 * SECOND_MS
    stage.process().window()
    waiting = len(stage.inbox)
    assert waiting >= 5
    stage.store = snapshot
    stage.process().window()
    assert len(stage.inbox) == 2 * waiting, "sent again, for the ledger says that nobody has had it"

    workers = stage.work()

    assert workers.dead_at_start >= 5
    assert max(Counter(workers.started).values()) == 1


def test_a_ledger_restored_without_the_other_tables_is_mended_by_the_reconciler_within_a_day() -> None:
    stage, before = busy_stage()
    snapshot = copy.deepcopy(stage.store)
    between = stage.serve(60)
    restore_ledger(stage, snapshot)
    restored_pending = {run.run_id for run in stage.runs() if run.status == "pending"}

    after = Workers()
    for _ in range(DAY_PASSES):
        reconcile(stage.process().ports)
        stage.serve(1, after)
        stage.at_ms += 20 * MINUTE_MS - SECOND_MS

    ended = {run.run_id for run in stage.runs() if run.status in ("succeeded", "skipped")}
    assert restored_pending <= ended
    assert {*after.started} & {*between.started}, "and they run twice"
    assert not {*after.started} & {*before.started}
