"""The scheduler is down for hours (F8): each job by its catch-up policy, at a fifth of capacity, after what is due."""

from __future__ import annotations

import os
from collections import Counter

from tests.scenarios.stage import NOW_MS, Stage, Workers
from tickwork.core.dispatch.backlog import CATCH_UP_PERCENT
from tickwork.core.instants import HOUR_MS, MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.windows import BACKLOG_MS_MAX
from tickwork.ports import Layout

FULL = bool(os.environ.get("TICKWORK_FULL"))
JOBS = 40_000 if FULL else 4_000
CAPACITY_PER_S = 500 if FULL else 100
SLICES = 4
LAYOUT = Layout(shards=8, slices=SLICES, pools=("default",), slice_capacity_per_s=CAPACITY_PER_S)
LATE_PER_S = CAPACITY_PER_S * CATCH_UP_PERCENT // 100
OUTAGE_S = 3 * 3_600


def hourly_jobs_after_an_outage() -> Stage:
    """Hourly jobs, spread over the hour, that have run as they should; then nothing runs for three hours."""
    stage = Stage(LAYOUT)
    creator = stage.process()
    for n in range(JOBS):
        second = n * 3_600 // JOBS
        anchor = f"2026-10-30T00:{second // 60:02d}:{second % 60:02d}Z"
        stage.job(f"hourly-{n:05d}", {"rate": "1 hour", "anchor": anchor}, by=creator)
    stage.at_ms = NOW_MS + HOUR_MS  # everything has one run behind it
    stage.run_until(stage.at_ms + MINUTE_MS)
    stage.serve_until_quiet()
    stage.at_ms += OUTAGE_S * SECOND_MS
    return stage


def test_after_three_hours_each_hourly_job_runs_once_and_the_rest_is_recorded_and_paced() -> None:
    stage = hourly_jobs_after_an_outage()
    back_ms = stage.at_ms
    down_ms = back_ms - OUTAGE_S * SECOND_MS
    workers = Workers()
    seconds = 0
    late_most = 0
    while stage.has_backlog() or not seconds:
        stage.at_ms += SECOND_MS
        seconds += 1
        for slice_no in range(SLICES):
            report = stage.process().window(slice_no)
            assert report.outcome == "served"
            late_most = max(late_most, report.late)
        fresh = stage.timers(1, stage.at_ms)  # what is due now, while the backlog is worked off
        stage.work(workers)
        assert stage.run(fresh[0]).status == "succeeded", "it waits for nothing"
        assert seconds < 4_000
    stage.work(workers)

    missed = [run for run in stage.runs() if down_ms < run.key.fire_at_ms <= back_ms and run.is_recurring]
    skipped = Counter(run.key.job_id for run in missed if run.status == "skipped")
    ran = Counter(run.key.job_id for run in missed if run.status == "succeeded")
    overtaken = {job_id for job_id, count in skipped.items() if count == 3}
    hourly = Counter(run.key.job_id for run in stage.runs() if run.is_recurring and run.status == "succeeded")
    print(
        f"\n{JOBS} jobs down for {OUTAGE_S // 3600} h: {len(missed)} missed, {skipped.total()} skipped_outage, "
        f"{ran.total()} run; caught up in {seconds} s, at most {late_most} late runs in one window"
    )
    assert len(missed) == 3 * JOBS
    assert {run.reason for run in missed if run.status != "succeeded"} == {"skipped_outage"}
    assert set(ran.values()) == {1}, "of what a job has missed, it runs one"
    assert set(skipped.values()) <= {2, 3}
    assert len(ran) + len(overtaken) == JOBS, "three are skipped when the next hour came before the backlog's turn:"
    assert not set(ran) & overtaken
    assert overtaken <= set(hourly), "then that one runs, on time"
    assert len(overtaken) <= JOBS // 20
    assert len(workers.started) == len(set(workers.started))
    assert late_most <= 2 * LATE_PER_S, "a window catches up for at most two seconds"
    assert seconds >= JOBS // SLICES // LATE_PER_S - 2, "paced: a fifth of capacity"
    assert seconds <= JOBS // SLICES // LATE_PER_S * 2 + 5, "and it ends"
    stage.assert_chains_unbroken()


def test_timers_due_after_an_outage_do_not_wait_behind_the_backlog() -> None:
    stage = Stage(Layout(shards=2, slices=1, pools=("default",), slice_capacity_per_s=10))
    stage.timers(500, NOW_MS + 10 * SECOND_MS)  # at two a second, more than four minutes of backlog
    stage.at_ms = NOW_MS + HOUR_MS
    fresh = [stage.timers(1, stage.at_ms + second * SECOND_MS)[0] for second in range(1, 120)]
    workers = Workers()
    stage.tick()
    stage.run_until(stage.at_ms + 121 * SECOND_MS, each=lambda: stage.work(workers))

    lags_ms = [stage.run(key).started_at_ms - key.fire_at_ms for key in fresh]
    assert max(lags_ms) <= 2 * SECOND_MS
    late = len(workers.started) - len(fresh)
    assert 200 <= late <= 250, "meanwhile the backlog went on at two a second"
    assert stage.lease().late_until
    assert workers.dead_at_start == 0, "nothing was sent twice"

    stage.run_until(stage.at_ms + 200 * SECOND_MS, each=lambda: stage.work(workers))
    assert not stage.lease().late_until
    assert len(workers.started) == len(set(workers.started)) == 500 + len(fresh)


def test_more_missed_in_one_second_than_may_be_sent_in_one_is_worked_off_in_parts() -> None:
    stage = Stage(Layout(shards=2, slices=1, pools=("default",), slice_capacity_per_s=100))
    stage.timers(100, NOW_MS + 5 * SECOND_MS)
    for n in range(100):
        stage.job(f"daily-{n}", {"rate": "1 day", "anchor": "2026-10-30T00:00:05Z"})
    stage.at_ms = NOW_MS + HOUR_MS
    sent = []
    for _ in range(12):
        stage.at_ms += SECOND_MS
        sent.append(stage.process().window().late)
    assert sum(sent) == stage.sent == 200, "each once"
    assert sent[:1] == [40], "the first window has two seconds' budget"
    assert all(late == 20 for late in sent[1:9])


def test_the_reconciler_and_its_audit_leave_the_backlog_to_its_pace() -> None:
    stage = Stage(Layout(shards=2, slices=1, pools=("default",), slice_capacity_per_s=10))
    for n in range(200):
        stage.job(f"hourly-{n}", {"rate": "1 hour", "anchor": "2026-10-30T00:10:00Z"})
    stage.at_ms = NOW_MS + 30 * MINUTE_MS
    stage.process().window()
    assert stage.lease().late_until
    sent = stage.sent
    repairs = reconcile(stage.process().ports)
    assert (repairs.overdue, repairs.resent, repairs.without_next) == (0, 0, 0)
    assert stage.sent == sent
    stage.serve(120)
    assert not stage.lease().late_until
    assert reconcile(stage.process().ports).resent == 0


def test_all_that_was_missed_runs_each_and_in_order_when_the_job_says_so() -> None:
    stage = Stage(Layout(shards=2, slices=1, pools=("default",)))
    job_id = stage.job("minutely", {"cron": "* * * * *", "zone": "UTC"}, CatchUp("all"))
    stage.at_ms = NOW_MS + 3 * HOUR_MS + 30 * SECOND_MS
    workers = stage.serve(5)
    ran = sorted(run.key.scheduled_at_ms for run in stage.runs() if run.status == "succeeded")
    assert ran == [NOW_MS + n * MINUTE_MS for n in range(1, 181)]
    assert len(workers.started) == 180
    assert [run for run in workers.started] == [  # noqa: C416
        run.run_id for run in sorted(stage.runs(), key=lambda run: run.key.scheduled_at_ms) if run.ended
    ]
    assert stage.get_job(job_id).next.scheduled_at_ms == NOW_MS + 181 * MINUTE_MS  # type: ignore[union-attr]


def test_a_second_outage_while_the_first_is_caught_up_loses_nothing() -> None:
    stage = Stage(Layout(shards=2, slices=1, pools=("default",), slice_capacity_per_s=50))
    stage.timers(150, NOW_MS + 5 * SECOND_MS)
    stage.timers(50, NOW_MS + 2 * HOUR_MS + 10 * MINUTE_MS)
    stage.at_ms = NOW_MS + 2 * HOUR_MS
    workers = stage.serve(3)
    assert stage.lease().late_until
    stage.at_ms += HOUR_MS
    stage.serve(30, workers)
    assert not stage.lease().late_until
    assert len(workers.started) == len(set(workers.started)) == 200


def test_an_empty_backlog_of_a_week_holds_up_nothing() -> None:
    """Ten thousand empty minutes to read, at 5 ms each: a window gives them two seconds, then serves what is due."""
    stage = Stage(Layout(shards=4, slices=1, pools=("default",)))
    stage.timers(1, NOW_MS + SECOND_MS)
    stage.at_ms = NOW_MS + 7 * 24 * HOUR_MS
    stage.tick()
    lags_ms, windows = [], 0
    for _ in range(200):
        (key,) = stage.timers(1, stage.at_ms)
        stage.at_ms += SECOND_MS
        scanner = stage.process()
        scanner.latency_ms = 5
        began_ms = stage.at_ms
        scanner.window()
        windows += 1
        assert stage.at_ms - began_ms <= BACKLOG_MS_MAX + SECOND_MS
        stage.work()
        lags_ms.append(stage.run(key).started_at_ms - key.fire_at_ms)
        if not stage.lease().late_until:
            break
    assert not stage.lease().late_until
    assert 50 <= windows <= 150
    assert max(lags_ms) <= 5 * SECOND_MS


def test_one_scanner_with_the_ticks_of_many_slices_gives_their_backlogs_two_seconds_together() -> None:
    stage = Stage(Layout(shards=8, slices=8, pools=("default",), slice_capacity_per_s=100_000))
    stage.timers(8_000, NOW_MS + SECOND_MS)
    stage.at_ms = NOW_MS + HOUR_MS
    stage.tick()
    fresh = stage.timers(16, stage.at_ms + SECOND_MS)
    stage.at_ms += SECOND_MS
    scanner = stage.process()
    scanner.latency_ms = 10
    began_ms = stage.at_ms
    stage.scan(scanner)
    assert stage.at_ms - began_ms <= BACKLOG_MS_MAX + 2 * SECOND_MS
    stage.work()
    assert max(stage.run(key).started_at_ms - key.fire_at_ms for key in fresh) <= 4 * SECOND_MS
