"""A herd that does not fit one window, windows that die in it, and backlogs that are extended: each gets on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from tests.scenarios.stage import NOW_MS, Call, Killed, Process, Stage
from tests.scenarios.test_killed_anywhere import assert_nothing_lost, die, killed_at_each_call
from tickwork.core.dispatch import backlog
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import SET_ASIDE
from tickwork.flows.dispatch.serving import PAGE_ITEMS_MAX
from tickwork.flows.runs import timers, worker_calls
from tickwork.ports import Layout, OutMessage, SendReport

JOBS = 9_000
DUE_MS = NOW_MS + MINUTE_MS
S0 = NOW_MS // SECOND_MS


@pytest.fixture(scope="module")
def herd() -> Callable[[], Stage]:
    """9,000 exact jobs of one slice, all due in one second."""
    stage = Stage(Layout(shards=4, slices=1, pools=("default",)))
    creator = stage.process()
    for n in range(JOBS):
        stage.job(f"job-{n:04d}", {"rate": "1 day", "anchor": "2026-10-30T00:01:00Z"}, by=creator)
    stage.at_ms = DUE_MS
    return stage.copy


def items_read(process: Process) -> int:
    """Items read by key, which is what a window spends on each occurrence beside the pages."""
    return sum(len(call.detail) for call in process.calls if call.verb == "get_many")


def test_the_windows_of_a_herd_read_each_occurrence_once_and_all_are_sent_within_twenty_seconds(
    herd: Callable[[], Stage],
) -> None:
    """The first window is killed at 11 s; each call takes long enough that none can do them all."""
    stage = herd()
    windows: list[Process] = []
    for _ in range(40):
        process = stage.process()
        process.latency_ms = 25
        windows.append(process)
        if len(windows) == 1:
            began_ms = stage.at_ms
            process.before(lambda _, began_ms=began_ms: stage.at_ms >= began_ms + 6_000, die)
        try:
            outcome = process.window().outcome
        except Killed:
            stage.at_ms = DUE_MS + 11 * SECOND_MS
            continue
        if outcome == "served":
            break
        stage.at_ms += SECOND_MS  # its tick comes again
    refs = Counter(body["ref"] for body in stage.bodies())
    late_s = max(body["dispatched_at_ms"] for body in stage.bodies()) / 1_000 - DUE_MS / 1_000
    assert len(refs) == JOBS
    assert sum(refs.values()) - JOBS <= 2 * PAGE_ITEMS_MAX, "the killed window repeats its page"
    assert sum(items_read(process) for process in windows) <= JOBS + 6 * PAGE_ITEMS_MAX
    assert late_s < 20, late_s
    assert len(windows) > 1, "or nothing was shown"
    stage.assert_chains_unbroken()


def test_a_window_killed_in_its_minute_leaves_one_page_to_be_repeated() -> None:
    stage = Stage(Layout(shards=4, slices=1, pools=("default",)))
    stage.timers(5_000, DUE_MS)
    stage.at_ms = DUE_MS
    sends = iter(range(1, 10_000))
    first = stage.process().before(lambda c: c.what == "ready-default" and next(sends) == 8, die)
    with pytest.raises(Killed):
        first.window()
    sent = stage.sent
    stage.at_ms += 11 * SECOND_MS
    stage.process().window()
    assert 5_000 <= stage.sent <= 5_000 + 2 * PAGE_ITEMS_MAX, sent
    assert len(stage.work().started) == 5_000


# --- a backlog that is extended -------------------------------------------------------------------------------


def timer(stage: Stage, second: int, shard: int) -> LedgerKey:
    for _ in range(100):
        (key,) = stage.timers(1, NOW_MS + second * SECOND_MS)
        if key.shard == shard:
            return key
        timers.cancel_timer(stage.process().ports, key.job_id)
    raise AssertionError("no such shard")


def test_a_backlog_that_is_extended_in_the_minute_it_has_come_to_skips_nothing() -> None:
    stage = Stage(Layout(shards=2, slices=1, pools=("default",), slice_capacity_per_s=5))
    timer(stage, 10, 0)
    for second in (302, 303, 304):
        timer(stage, second, 1)
    late = timer(stage, 330, 0)
    stage.at_ms = NOW_MS + 305 * SECOND_MS
    first = stage.process()

    def covered(call: Call) -> bool:
        return call.sets("late_until") and call.detail[0].set["late_until"] == S0 + 305

    first.after(covered, die)
    with pytest.raises(Killed):
        first.window()
    stage.at_ms = NOW_MS + 316 * SECOND_MS
    assert stage.process().window().outcome == "served"
    stage.at_ms = NOW_MS + 446 * SECOND_MS  # nobody has served the slice for 130 s
    for _ in range(60):
        stage.process().window()
        if not stage.lease().late_until and stage.lease().done >= S0 + 446:
            break
        stage.at_ms += SECOND_MS
    assert backlog.has_passed(stage.lease(), late)
    assert late.ref in {body["ref"] for body in stage.bodies()}


# --- dying with rows ------------------------------------------------------------------------------------------


def slice_with_rows() -> Stage:
    """A row of each kind, all due, in a slice with a backlog and something due."""
    stage = Stage(Layout(shards=2, slices=1, pools=("default", "bad")))
    stage.job("all", {"rate": "20 seconds", "anchor": "2026-10-30T00:00:00Z"}, CatchUp("all"), pool="bad")
    stage.job("latest", {"rate": "20 seconds", "anchor": "2026-10-30T00:00:00Z"}, pool="bad")
    stage.job("good", {"rate": "20 seconds", "anchor": "2026-10-30T00:00:00Z"}, CatchUp("all"))
    stage.timers(3, NOW_MS + 30 * SECOND_MS, pool="bad")
    stage.timers(3, NOW_MS + 30 * SECOND_MS)
    put = stage.put

    def failing(queue: str, messages: Sequence[OutMessage]) -> SendReport:
        if queue == "ready-bad":
            return SendReport(failed=tuple(range(len(messages))), why="busy")
        return put(queue, messages)

    stage.put = failing  # type: ignore[method-assign]
    for second in range(20, 160, 7):
        stage.at_ms = NOW_MS + second * SECOND_MS
        stage.process().window()
        stage.work()
    assert [item["who"] for item in stage.store.items(SET_ASIDE)] == ["pool#bad"]
    stage.at_ms += 45 * SECOND_MS
    stage.timers(2, stage.at_ms)
    stage.at_ms += SECOND_MS
    return stage


def test_a_window_with_rows_killed_between_any_two_port_calls_is_finished_by_the_next() -> None:
    template = slice_with_rows()

    def survive(stage: Stage, killed: bool) -> None:
        died_ms = stage.at_ms
        workers = stage.work()
        stage.at_ms += 11 * SECOND_MS if killed else 0
        stage.serve(35, workers)
        assert len(workers.started) == len(set(workers.started)), "no run started twice"
        assert_nothing_lost(stage, died_ms)
        assert not stage.store.items(SET_ASIDE)

    kills = killed_at_each_call(template.copy, lambda process: process.window(), survive)
    assert kills >= 30


def test_a_window_that_writes_its_rows_killed_between_any_two_port_calls_loses_nothing() -> None:
    def build() -> Stage:
        stage = Stage(Layout(shards=2, slices=1, pools=("default", "bad")))
        stage.job("all", {"rate": "1 second"}, CatchUp("all"), pool="bad")
        stage.timers(2, NOW_MS + 3 * SECOND_MS, pool="bad")
        stage.timers(2, NOW_MS + 3 * SECOND_MS)
        stage.at_ms = NOW_MS + 4 * SECOND_MS
        return stage

    def body(process: Process) -> None:
        put = process.stage.put

        def failing(queue: str, messages: Sequence[OutMessage]) -> SendReport:
            if queue == "ready-bad":
                return SendReport(failed=tuple(range(len(messages))), why="busy")
            return put(queue, messages)

        process.stage.put = failing  # type: ignore[method-assign]
        try:
            process.window()
        finally:
            process.stage.put = put  # type: ignore[method-assign]

    def survive(stage: Stage, killed: bool) -> None:
        died_ms = stage.at_ms
        workers = stage.work()
        stage.at_ms += 11 * SECOND_MS if killed else 0
        stage.serve(5, workers)
        assert len(workers.started) == len(set(workers.started))
        assert_nothing_lost(stage, died_ms)
        assert not stage.store.items(SET_ASIDE)

    assert killed_at_each_call(build, body, survive) >= 15


# --- early starts ---------------------------------------------------------------------------------------------


def test_a_run_is_started_when_it_is_due_and_not_a_minute_before() -> None:
    stage = Stage()
    job_id = stage.job("often", {"rate": "1 minute", "anchor": "2026-10-30T00:00:00Z"})
    upcoming = stage.get_job(job_id).next_key("main")
    assert upcoming is not None
    stage.at_ms = upcoming.fire_at_ms - 30 * SECOND_MS
    body = {"ref": upcoming.ref, "attempt": 1, "lease_s": 60, "dispatched_at_ms": 0, "dispatched_by": ""}
    declined = worker_calls.start(stage.process().ports, stage.start_request(body))
    assert isinstance(declined, worker_calls.Declined)
    assert (declined.reason, declined.discard) == ("not_due", False)


def test_a_chain_is_stepped_when_its_due_run_was_started_and_has_ended_before_the_window_saw_it() -> None:
    stage = Stage()
    job_id = stage.job("often", {"rate": "1 minute", "anchor": "2026-10-30T00:00:00Z"}, CatchUp("all"))
    upcoming = stage.get_job(job_id).next_key("main")
    assert upcoming is not None
    stage.at_ms = upcoming.fire_at_ms - SECOND_MS
    body = {"ref": upcoming.ref, "attempt": 1, "lease_s": 60, "dispatched_at_ms": 0, "dispatched_by": ""}
    started = worker_calls.start(stage.process().ports, stage.start_request(body))
    assert isinstance(started, worker_calls.Started)
    worker_calls.complete(stage.process().ports, upcoming, started.run.token)
    workers = stage.serve(5 * 60)
    assert len(workers.started) == 4
    assert [run.status for run in stage.runs() if run.ended] == ["succeeded"] * 5
    stage.assert_chains_unbroken()


def test_a_job_that_was_parked_runs_or_records_every_occurrence_when_it_is_back() -> None:
    stage = Stage()
    job_id = stage.job("hourly", {"cron": "0 * * * *", "zone": "UTC"})
    good = dict(stage.get_job(job_id).schedule)
    from tests.scenarios.test_poison import garble
    from tickwork.flows.audit.reconciling import reconcile

    garble(stage, job_id, {"cron": "0 * * * *", "zone": "Mars/Olympus"})
    for n in range(1, 40):
        stage.at_ms = NOW_MS + n * 5 * MINUTE_MS
        stage.process().window()
        stage.work()
        if n == 30:
            garble(stage, job_id, good)
        reconcile(stage.process().ports)
    stage.serve(5)
    hours = {(run.key.scheduled_at_ms - NOW_MS) // (60 * MINUTE_MS): run.status for run in stage.runs() if run.ended}
    assert {1, 2, 3} <= hours.keys()
    assert {"succeeded"} <= set(hours.values()) <= {"succeeded", "skipped"}
    assert json.dumps(stage.get_job(job_id).status) == '"active"'
