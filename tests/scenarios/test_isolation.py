"""What fails for one item, job, calendar, pool, shard or slice costs that one only, and loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.scenarios.stage import NOW_MS, Call, Process, Stage
from tests.scenarios.test_poison import garble
from tickwork.core.dispatch import set_aside
from tickwork.core.errors import Throttled, WorldError
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.tables import CALENDARS, JOBS, LEASES, SET_ASIDE
from tickwork.core.ledger.writes import Anyway, Is, Put, Update
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch import leasing
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.ports import Layout, OutMessage, SendReport, ready_queue

OTHERS_LATE_S_MAX = 2
"""More than without the failure."""


def refusing(stage: Stage, pool: str, *, closed: bool = False) -> Callable[[], None]:
    """The queue of one pool takes nothing, until the answer is called."""
    put = stage.put

    def failing(queue: str, messages: Sequence[OutMessage]) -> SendReport:
        if queue == ready_queue(pool):
            return SendReport(failed=tuple(range(len(messages))), why="AccessDenied", closed=closed)
        return put(queue, messages)

    stage.put = failing  # type: ignore[method-assign]

    def mend() -> None:
        stage.put = put  # type: ignore[method-assign]

    return mend


class Watch:
    """When each message arrived, for the lag of every ref; the ticker runs each minute."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.at_ms: dict[str, int] = {}
        self._minute = 0

    def look(self) -> None:
        if self.stage.at_ms // MINUTE_MS != self._minute:
            self._minute = self.stage.at_ms // MINUTE_MS
        for visible_ms, body in self.stage.inbox:
            self.at_ms.setdefault(json.loads(body)["ref"], visible_ms)
        self.stage.work()

    def lags_s(self, due: dict[str, int]) -> list[float]:
        return sorted((self.at_ms[ref] - due_ms) / 1_000 for ref, due_ms in due.items() if ref in self.at_ms)


def rows(stage: Stage) -> list[str]:
    return sorted(str(item["who"]) for item in stage.store.items(SET_ASIDE))


# --- a pool ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [False, True], ids=["fails", "is closed"])
@pytest.mark.parametrize("bad_seconds", [(5,), (50,), (20, 50)])
def test_a_queue_that_takes_nothing_holds_up_no_other_pool(bad_seconds: tuple[int, ...], closed: bool) -> None:
    stage = Stage(Layout(shards=1, slices=1, pools=("default", "bad")))
    good: dict[str, int] = {}
    bad: dict[str, int] = {}
    for minute in range(1, 11):
        for second in bad_seconds:
            due_ms = NOW_MS + minute * MINUTE_MS + second * SECOND_MS
            bad[stage.timers(1, due_ms, team="bad", pool="bad")[0].ref] = due_ms
        for second in range(2, 60, 5):
            due_ms = NOW_MS + minute * MINUTE_MS + second * SECOND_MS
            good[stage.timers(1, due_ms)[0].ref] = due_ms
    mend = refusing(stage, "bad", closed=closed)
    watch = Watch(stage)
    stage.run_until(NOW_MS + 12 * MINUTE_MS, each=watch.look)
    lags = watch.lags_s(good)
    assert len(lags) == len(good), "every timer of the other pool was sent"
    assert lags[-1] <= OTHERS_LATE_S_MAX
    assert rows(stage) == ["pool#bad"]
    assert not watch.lags_s(bad)

    mend()
    stage.run_until(NOW_MS + 14 * MINUTE_MS, each=watch.look)
    assert len(watch.lags_s(bad)) == len(bad), "and those of the broken one when it is mended"
    assert not rows(stage)
    assert stage.lease().aside_s == 0, "a slice without rows looks at none"


def test_the_jobs_of_a_broken_pool_are_caught_up_as_their_policy_says() -> None:
    stage = Stage(Layout(shards=1, slices=1, pools=("default", "bad")))
    stage.job("all", {"cron": "* * * * *", "zone": "UTC"}, CatchUp("all"), pool="bad")
    stage.job("latest", {"cron": "* * * * *", "zone": "UTC"}, CatchUp("latest"), pool="bad")
    mend = refusing(stage, "bad")
    stage.run_until(NOW_MS + 5 * MINUTE_MS + 20 * SECOND_MS, each=stage.work)
    stage.assert_chains_unbroken()
    mend()
    stage.run_until(NOW_MS + 8 * MINUTE_MS - SECOND_MS, each=stage.work)
    ended = {(run.key.name, (run.key.scheduled_at_ms - NOW_MS) // MINUTE_MS): run.status for run in stage.runs()}
    assert {ended["all", minute] for minute in range(1, 8)} == {"succeeded"}
    latest = [ended["latest", minute] for minute in range(2, 6)]
    assert latest == ["skipped"] * 3 + ["succeeded"], "of an outage, the newest; the others are recorded"
    stage.assert_chains_unbroken()


def test_the_audit_leaves_to_a_row_what_that_row_serves_and_nothing_else() -> None:
    """One pool's queue is away, and the message of another pool was lost in those seconds: that one is sent again."""
    stage = Stage(Layout(shards=1, slices=1, pools=("default", "bad")))
    waiting, _ = (stage.timers(1, NOW_MS + second * SECOND_MS, pool="bad")[0] for second in (1, 3))
    (lost,) = stage.timers(1, NOW_MS + 2 * SECOND_MS)
    refusing(stage, "bad")
    stage.at_ms += 4 * SECOND_MS
    stage.process().window()
    assert rows(stage) == ["pool#bad"]
    stage.inbox.clear()
    stage.at_ms += 6 * MINUTE_MS
    stage.process().window()
    stage.inbox.clear()
    reconcile(stage.process().ports)
    assert [body["ref"] for body in stage.bodies()] == [lost.ref]
    assert stage.run(waiting).status == "pending", "its row has it sent when its queue is back"


# --- a shard, a slice -----------------------------------------------------------------------------------------


def unreadable_shard(process: Process, shard: int) -> Process:
    def busy() -> None:
        raise Throttled("the partition is hot")

    return process.before(lambda c: c.verb == "query" and f"#{shard:04d}#" in str(c.detail), busy, times=10**6)


def test_a_shard_that_cannot_be_read_holds_up_no_other_shard_and_is_served_when_it_can() -> None:
    stage = Stage(Layout(shards=4, slices=1, pools=("default",)))
    keys = stage.timers(40, NOW_MS + 10 * SECOND_MS)
    for second in range(9, 30):
        stage.at_ms = NOW_MS + second * SECOND_MS
        unreadable_shard(stage.process(), 3).window()
    sent = {body["ref"] for body in stage.bodies()}
    assert sent == {key.ref for key in keys if key.shard != 3}
    assert rows(stage) == ["shard#0003"]
    stage.serve(31)
    workers = stage.work()
    assert len({run.key.ref for run in stage.runs() if run.ended}) == len(keys), workers
    assert not rows(stage)


def test_a_shard_that_is_known_to_fail_is_left_in_peace_until_its_next_try() -> None:
    stage = Stage(Layout(shards=4, slices=1, pools=("default",)))
    stage.timers(8, NOW_MS + 10 * SECOND_MS)
    reads = 0
    for second in range(10, 70):
        stage.at_ms = NOW_MS + second * SECOND_MS
        process = unreadable_shard(stage.process(), 3)
        process.window()
        reads += sum(call.verb == "query" and "#0003#" in str(call.detail) for call in process.calls)
    assert reads <= 10, "tries grow apart"


def test_a_slice_whose_reads_fail_keeps_no_other_from_its_ticks_and_the_ticker_still_fails() -> None:
    stage = Stage(Layout(shards=16, slices=16, pools=("default",)))
    keys = stage.timers(64, NOW_MS + 70 * MINUTE_MS)
    due_slices = {stage.layout.slice_of(key.shard) for key in keys}
    failed = 0
    for minute in range(66, 75):
        stage.at_ms = NOW_MS + minute * MINUTE_MS
        try:
            issue_ticks(unreadable_shard(stage.process(), 3).ports)
        except WorldError:
            failed += 1
        until_ms = stage.at_ms + MINUTE_MS - 1
        while (next_ms := stage.next_tick_ms()) is not None and next_ms <= until_ms:
            stage.at_ms = max(stage.at_ms, next_ms)
            stage.scan()
        stage.at_ms = until_ms
    bodies = {body["ref"] for body in stage.bodies()}
    fired = {stage.layout.slice_of(key.shard) for key in keys if key.ref in bodies}
    assert fired == due_slices
    assert failed == 9, "somebody hears of it"
    assert stage.signals.counts["scheduler.ticker_slice_failed_total"] >= 9


# --- a job, a calendar ----------------------------------------------------------------------------------------


def test_a_job_that_is_changed_all_the_time_holds_up_nobody() -> None:
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    busy_id = stage.job("busy", {"cron": "* * * * *", "zone": "UTC"})
    due_ms = NOW_MS + MINUTE_MS
    stage.timers(5, due_ms)
    stage.at_ms = due_ms + SECOND_MS

    def change() -> None:
        version = stage.get_job(busy_id).version
        stage.store.commit([Update(JOBS, {"job_id": busy_id}, Is("version", version), set={"version": version + 1})])

    def steps(call: Call) -> bool:
        return call.verb == "commit" and any(write.table is JOBS for write in call.detail)

    report = stage.process().before(steps, change, times=10**6).window()
    assert (report.outcome, report.sent) == ("served", 5)
    assert rows(stage) == [f"job#{busy_id}"]
    assert stage.lease().done == stage.second
    assert len(stage.serve(2).started) == 6, "it is stepped when it stands still"
    stage.assert_chains_unbroken()


@pytest.mark.parametrize(
    "garbage",
    [{"spec": {"from_a_newer_version": 1}}, {"spec": {"zone": "Mars/Olympus", "dates": ["2026-12-25"]}}, {"spec": 7}],
    ids=["newer", "no such zone", "no shape"],
)
def test_a_calendar_that_cannot_be_read_costs_the_jobs_that_name_it_and_they_lose_nothing(garbage: Any) -> None:
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    spec = {"zone": "UTC", "dates": ["2026-12-25"]}
    calendar = {"calendar_id": "shop:days", "team": "shop", "name": "days", "version": 1, "spec": spec}
    stage.store.commit([Put(CALENDARS, calendar, Anyway("a test"))])
    named = stage.job("named", {"cron": "* * * * *", "zone": "UTC"}, CatchUp("all"))
    stage.job("free", {"cron": "* * * * *", "zone": "UTC"}, CatchUp("all"))
    schedule = dict(stage.get_job(named).schedule)
    garble(stage, named, schedule | {"calendars": {"exclude": ["days"], "on_excluded": "skip"}})
    stage.store.commit([Put(CALENDARS, calendar | garbage, Anyway("a test"))])

    stage.run_until(NOW_MS + 5 * MINUTE_MS + SECOND_MS, each=stage.work)
    ended = {(run.key.name, (run.key.scheduled_at_ms - NOW_MS) // MINUTE_MS) for run in stage.runs() if run.ended}
    assert {minute for name, minute in ended if name == "free"} == {1, 2, 3, 4, 5}
    assert not {minute for name, minute in ended if name == "named"}
    assert rows(stage) == [f"job#{named}"]

    stage.store.commit([Put(CALENDARS, calendar, Anyway("a test"))])
    stage.run_until(NOW_MS + 11 * MINUTE_MS + SECOND_MS, each=stage.work)
    succeeded = {
        (run.key.scheduled_at_ms - NOW_MS) // MINUTE_MS
        for run in stage.runs()
        if run.key.name == "named" and run.status == "succeeded"
    }
    assert succeeded >= set(range(1, 11))
    assert not rows(stage)


def test_many_things_that_fail_at_once_share_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_aside, "ROWS_MAX", 3)
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    jobs = [stage.job(f"job-{n}", {"cron": "* * * * *", "zone": "UTC"}) for n in range(8)]
    right = {job_id: dict(stage.store.get(JOBS, {"job_id": job_id}) or {}) for job_id in jobs}
    for item in right.values():
        stage.store.commit([Put(JOBS, item | {"work": "tongues"}, Anyway("a test"))])
    stage.run_until(NOW_MS + 2 * MINUTE_MS, each=stage.work)
    assert len(rows(stage)) == 4
    assert "all#" in rows(stage)
    for item in right.values():
        stage.store.commit([Put(JOBS, item, Anyway("a test"))])
    stage.run_until(NOW_MS + 9 * MINUTE_MS, each=stage.work)
    assert not rows(stage)
    assert {run.key.name for run in stage.runs() if run.ended} == {f"job-{n}" for n in range(8)}
    stage.assert_chains_unbroken()


def test_a_table_of_jobs_that_cannot_be_read_delays_no_timer() -> None:
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    stage.job("minutely", {"cron": "* * * * *", "zone": "UTC"})
    stage.timers(5, NOW_MS + MINUTE_MS)
    stage.at_ms = NOW_MS + MINUTE_MS

    def busy() -> None:
        raise Throttled("the table is busy")

    report = stage.process().before(lambda c: c.what == "jobs", busy, times=10**6).window()
    assert (report.outcome, report.sent) == ("served", 5)
    assert rows(stage) == ["jobs#"]
    assert len(stage.serve(2).started) == 6


# --- windows --------------------------------------------------------------------------------------------------


def test_a_slice_without_rows_pays_nothing_for_them() -> None:
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    stage.timers(5, NOW_MS + 5 * SECOND_MS)
    stage.at_ms = NOW_MS + 5 * SECOND_MS
    process = stage.process()
    assert process.window().sent == 5
    assert [call.what for call in process.calls if call.verb == "commit"] == [LEASES.name] * 2
    assert not [call for call in process.calls if call.what == SET_ASIDE.name]


def test_a_window_that_doubts_its_lease_finds_out_that_it_still_has_it() -> None:
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    due_ms = NOW_MS + 10 * SECOND_MS
    stage.timers(3, due_ms)
    stage.tick()
    slow = stage.process()
    slow.after(lambda c: c.verb == "query" and c.what == "timers", lambda: slow.pause(8_100))
    stage.at_ms = due_ms
    stage.scan(slow)
    assert len(stage.work().started) == 3
    assert stage.lease().done == due_ms // SECOND_MS


def test_a_window_too_slow_to_trust_even_a_new_lease_gives_its_tick_back() -> None:
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    due_ms = NOW_MS + 10 * SECOND_MS
    stage.timers(3, due_ms)
    stage.tick()
    slow = stage.process()
    slow.after(lambda c: c.verb == "query" and c.what == "timers", lambda: slow.pause(4_000))
    slow.after(
        lambda c: c.verb == "commit" and c.sets("lease_until_ms") and not c.sets("token"), lambda: slow.pause(8_500)
    )
    stage.at_ms = due_ms
    stage.scan(slow)
    assert stage.signals.counts["scheduler.windows_unsure_total"] == 1
    began_ms = stage.at_ms
    while not stage.work().started:
        stage.at_ms = stage.next_tick_ms() or 0
        stage.scan()
    assert stage.at_ms - began_ms <= 10 * SECOND_MS


def test_an_early_tick_of_a_batch_delays_no_due_one_of_its_slice() -> None:
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    (key,) = stage.timers(1, NOW_MS + 10 * SECOND_MS)
    (later,) = stage.timers(1, NOW_MS + 35 * SECOND_MS)
    stage.at_ms = NOW_MS + 10 * SECOND_MS
    stage.make_all_ticks_visible()
    stage.scan()
    assert {body["ref"] for body in stage.bodies()} == {key.ref}
    stage.run_until(NOW_MS + 36 * SECOND_MS)
    assert {body["ref"] for body in stage.bodies()} == {key.ref, later.ref}


def test_whoever_takes_the_lease_knows_its_rows_as_they_stand() -> None:
    """The last owner may have written rows after the lease was read, and nothing that the take names has changed."""
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    stage.timers(1, NOW_MS + SECOND_MS)
    stage.at_ms = NOW_MS + SECOND_MS

    def rows_appear() -> None:
        stage.store.commit([Update(LEASES, {"slice": "main#0000"}, Anyway("a test"), set={"aside_s": 77})])

    late = stage.process().before(lambda c: c.sets("token"), rows_appear)
    holding = leasing.take(late.ports, 0, stage.second, "me")
    assert isinstance(holding, leasing.Holding)
    assert holding.lease.aside_s == 77
