"""A process is killed between any two of its port calls: whoever comes next does the rest, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scenarios.stage import NOW_MS, Call, Killed, Process, Stage
from tickwork.core.errors import OutcomeUnknown
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Anyway, Delete, Put
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.runs import timers, worker_calls
from tickwork.ports import Layout

CALLS_MAX = 300


def die() -> None:
    raise Killed


def killed_at_each_call(
    build: Callable[[], Stage], body: Callable[[Process], object], survive: Callable[[Stage, bool], None]
) -> int:
    """Run `body` once for every port call that it makes, killed just before and just after it; `survive` is what
    comes then (and whether it was killed). How many kills."""
    kills = 0
    for k in range(1, CALLS_MAX):
        for after in (False, True):
            stage = build()
            process = stage.process()
            (process.after if after else process.before)(lambda call, k=k: call.n == k, die)
            try:
                body(process)
            except Killed:
                kills += 1
                survive(stage, True)
            else:
                survive(stage, False)
                return kills
    raise AssertionError(f"more than {CALLS_MAX} calls")


def mixed_window() -> Stage:
    """Something of every kind is due: one-shots, short chains, missed occurrences of every policy, a retry."""
    stage = Stage(Layout(shards=2, slices=1, pools=("default",)))
    for name, policy in (
        ("latest", CatchUp()),
        ("all", CatchUp("all")),
        ("last", CatchUp("last", 2)),
        ("none", CatchUp("none")),
        ("late", CatchUp("all", max_lateness_s=80)),
    ):
        stage.job(name, {"rate": "20 seconds", "anchor": "2026-10-30T00:00:00Z"}, policy)
    (failing,) = stage.timers(1, NOW_MS)
    stage.at_ms += SECOND_MS
    stage.process().window()
    for body in stage.bodies():
        request = stage.start_request(body)
        started = worker_calls.start(stage.process().ports, request)
        assert isinstance(started, worker_calls.Started)
        if request.key == failing:
            worker_calls.fail(stage.process().ports, request.key, started.run.token, "boom", permanent=False)
        else:
            worker_calls.complete(stage.process().ports, request.key, started.run.token)
    stage.inbox.clear()
    stage.at_ms = NOW_MS + 130 * SECOND_MS
    stage.timers(3, stage.at_ms)
    stage.job("short", {"rate": "1 second"})
    stage.inbox.clear()
    stage.at_ms += 2 * SECOND_MS
    return stage


@pytest.fixture(scope="module")
def mixed() -> Callable[[], Stage]:
    return mixed_window().copy


def assert_nothing_lost(stage: Stage, since_ms: int) -> None:
    unfinished = [run.key.ref for run in stage.runs() if run.key.fire_at_ms <= since_ms and not run.ended]
    assert not unfinished
    stage.assert_chains_unbroken()


def test_a_window_killed_between_any_two_port_calls_is_finished_by_the_next(mixed: Callable[[], Stage]) -> None:
    def survive(stage: Stage, killed: bool) -> None:
        died_ms = stage.at_ms
        workers = stage.work()
        stage.at_ms += 11 * SECOND_MS if killed else 0
        stage.serve(3, workers)
        assert len(workers.started) == len(set(workers.started)), "no run started twice"
        assert_nothing_lost(stage, died_ms)
        skipped = {run.key.name for run in stage.runs() if run.status == "skipped"}
        assert skipped >= {"latest", "last", "none", "late"}
        assert "all" not in skipped

    kills = killed_at_each_call(mixed, lambda process: process.window(), survive)
    print(f"\nkilled at {kills} places")
    assert kills >= 40


def test_a_creator_killed_anywhere_leaves_a_timer_that_fires_once_or_none_at_all() -> None:
    """Its client has no answer, and repeats the call with the same client key."""

    def build() -> Stage:
        stage = Stage(Layout(shards=2, slices=1, pools=("default",)))
        stage.timers(1, NOW_MS)
        stage.at_ms += SECOND_MS
        stage.process().window()
        stage.work()
        return stage

    new = timers.NewTimer("shop", NOW_MS, Work("default", "job", payload=f'"{"x" * 500}"'), "remind-7", "f")

    def survive(stage: Stage, killed: bool) -> None:
        if killed:
            stage.at_ms += SECOND_MS
            (created,) = timers.create_timers(stage.process().ports, [new])
            assert created.run.key.fire_at_ms == NOW_MS
        workers = stage.serve(2)
        assert len(workers.started) == 1
        assert_nothing_lost(stage, NOW_MS)

    assert killed_at_each_call(build, lambda p: timers.create_timers(p.ports, [new]), survive) >= 8


def test_a_creator_whose_client_gave_up_leaves_what_the_audit_finds() -> None:
    def build() -> Stage:
        stage = Stage(Layout(shards=2, slices=1, pools=("default",)))
        stage.timers(1, NOW_MS)
        stage.at_ms += SECOND_MS
        stage.process().window()
        stage.work()
        return stage

    def survive(stage: Stage, killed: bool) -> None:
        stage.serve(2)
        stage.at_ms += 301 * SECOND_MS
        stage.serve(1)
        reconcile(stage.process().ports)
        stage.work()
        assert_nothing_lost(stage, NOW_MS)

    assert killed_at_each_call(build, lambda p: p.stage.timers(2, NOW_MS, by=p), survive) >= 8


def test_registering_a_job_killed_anywhere_is_completed_by_the_same_request() -> None:
    def register(process: Process) -> str:
        return process.stage.job("minutely", {"rate": "1 minute", "anchor": "2026-10-30T00:00:00Z"}, by=process)

    def survive(stage: Stage, killed: bool) -> None:
        if killed:
            stage.at_ms += SECOND_MS
            register(stage.process())
        workers = stage.serve(62)
        assert len(workers.started) == len(set(workers.started)) >= 1
        assert_nothing_lost(stage, stage.at_ms - SECOND_MS)

    build = lambda: Stage(Layout(shards=2, slices=1, pools=("default",)))  # noqa: E731
    assert killed_at_each_call(build, register, survive) >= 6


def test_a_failing_attempt_killed_anywhere_is_tried_again_all_the_same() -> None:
    def build() -> Stage:
        stage = Stage(Layout(shards=2, slices=1, pools=("default",)))
        stage.timers(1, NOW_MS, lease_s=30)
        stage.at_ms += SECOND_MS
        stage.process().window()
        return stage

    def fail(process: Process) -> LedgerKey:
        (body,) = process.stage.bodies()
        request = process.stage.start_request(body)
        started = worker_calls.start(process.ports, request)
        assert isinstance(started, worker_calls.Started)
        worker_calls.fail(process.ports, request.key, started.run.token, "boom", permanent=False)
        process.stage.inbox.clear()  # the worker deletes its message only then
        return request.key

    def survive(stage: Stage, killed: bool) -> None:
        stage.at_ms += 31 * SECOND_MS
        stage.serve(60)
        (run,) = stage.runs()
        assert run.status == "succeeded"
        assert [one["outcome"] for one in run.attempts] in ([], ["failed"], ["lost"])

    assert killed_at_each_call(build, fail, survive) >= 4


def test_a_ticker_killed_anywhere_costs_lag_only() -> None:
    def build() -> Stage:
        stage = Stage(Layout(shards=2, slices=1, pools=("default",)))
        stage.timers(5, NOW_MS + 30 * SECOND_MS)
        return stage

    def survive(stage: Stage, killed: bool) -> None:
        workers = runs_started(stage, NOW_MS + 150 * SECOND_MS)
        assert workers == 5
        assert_nothing_lost(stage, NOW_MS + 30 * SECOND_MS)

    assert killed_at_each_call(build, lambda process: issue_ticks(process.ports), survive) >= 8


def runs_started(stage: Stage, until_ms: int) -> int:
    """How many runs started once ticker and scanners have gone on until then."""
    workers = stage.work()
    stage.run_until(until_ms, each=lambda: stage.work(workers))
    return len(workers.started)


def test_a_reconciler_killed_anywhere_leaves_its_work_to_the_next_pass(mixed: Callable[[], Stage]) -> None:
    def survive(stage: Stage, killed: bool) -> None:
        workers = stage.work()
        stage.serve(3, workers)
        reconcile(stage.process().ports)
        stage.work(workers)
        assert len(workers.started) == len(set(workers.started))
        assert_nothing_lost(stage, NOW_MS + 130 * SECOND_MS)

    assert killed_at_each_call(mixed, lambda process: reconcile(process.ports), survive) >= 8


def test_a_repair_whose_reply_was_lost_is_seen_to_in_the_same_pass() -> None:
    """Found by the simulator: the pass took its own first try for somebody else's, and left the item behind the
    cursor, which had gone by meanwhile, to the next pass."""
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    job_id = stage.job("minutely", {"cron": "* * * * *", "zone": "UTC"})
    stage.serve(1)
    upcoming = stage.get_job(job_id).next
    assert upcoming is not None
    item = stage.store.get(JOBS, {"job_id": job_id})
    assert item is not None
    parked = item | {"status": "error", "next_scheduled_at_ms": 0, "next_fire_at_ms": 0, "next_shard": 0}
    key = stage.get_job(job_id).occurrence_key("main", upcoming).as_item()
    stage.store.commit([Put(JOBS, parked, Anyway("parked")), Delete(TIMERS, key, Anyway("parked"))])
    reconciler = stage.process()

    def the_cursor_goes_by() -> None:
        stage.at_ms = upcoming.fire_at_ms + SECOND_MS
        stage.process().window()

    def lose_the_reply() -> None:
        raise OutcomeUnknown("the reply was lost")

    def repair(call: Call) -> bool:
        return call.verb == "commit" and call.what == "jobs"

    reconciler.before(repair, the_cursor_goes_by).after(repair, lose_the_reply)
    reconcile(reconciler.ports)
    assert len(stage.work().started) == 1, "sent by the one who wrote it"
    stage.assert_chains_unbroken()
