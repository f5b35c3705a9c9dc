"""Calendars with `hard: true`: what is late, or to be tried again, waits for the end of a freeze, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.stage import NOW_MS, Killed, Stage
from tickwork.core.instants import MINUTE_MS, SECOND_MS, iso
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.work import RetryPolicy
from tickwork.core.runs.attempts import Declined
from tickwork.core.runs.putting_off import LOOK_AGAIN_MS
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.jobs import calendars
from tickwork.flows.runs import cancelling, worker_calls

FREEZE_FROM_MS, FREEZE_TO_MS = NOW_MS + 2 * MINUTE_MS, NOW_MS + 5 * MINUTE_MS
FREEZE = {"zone": "UTC", "ranges": [{"from": iso(FREEZE_FROM_MS)[:16], "to": iso(FREEZE_TO_MS)[:16]}]}
EACH_MINUTE = {"cron": "* * * * *", "calendars": {"exclude": ["freeze"]}}


def frozen_stage(spec: dict[str, Any] | None = None, **work: Any) -> tuple[Stage, str]:
    stage = Stage()
    calendars.put_calendar(stage.process().ports, "shop", "freeze", {**FREEZE, "hard": True, **(spec or {})}, None)
    return stage, stage.job("books", EACH_MINUTE, CatchUp("all"), **work)


def run_of(stage: Stage, due_ms: int) -> Run:
    (run,) = [run for run in stage.runs() if run.key.scheduled_at_ms == due_ms]
    return run


def die() -> None:
    raise Killed


def start_next(stage: Stage) -> worker_calls.Started | Declined:
    """A worker takes the oldest message that is visible, and starts its run."""
    (body, *_) = [body for (at_ms, _), body in zip(stage.inbox, stage.bodies(), strict=True) if at_ms <= stage.at_ms]
    stage.inbox.clear()
    return worker_calls.start(stage.process().ports, stage.start_request(body))


@pytest.mark.parametrize("is_hard", [True, False])
def test_what_is_late_starts_in_a_freeze_unless_a_calendar_says_that_it_is_hard(is_hard: bool) -> None:
    stage, _ = frozen_stage({"hard": is_hard})
    stage.at_ms = FREEZE_FROM_MS + 10 * SECOND_MS
    workers = stage.serve(5)
    late = run_of(stage, FREEZE_FROM_MS - MINUTE_MS)
    if not is_hard:
        assert (len(workers.started), late.status, late.put_off) == (1, "succeeded", ())
        return
    assert (workers.started, late.status, late.attempt) == ([], "waiting", 0)
    assert late.retry_at_ms == FREEZE_TO_MS
    since_ms = FREEZE_FROM_MS + 11 * SECOND_MS
    assert list(late.put_off) == [
        {"attempt": 1, "calendar": "freeze", "since_ms": since_ms, "until_ms": FREEZE_TO_MS}
    ]  # fmt: skip
    stage.assert_chains_unbroken()

    stage.at_ms = FREEZE_TO_MS - SECOND_MS
    workers = stage.serve(3)
    assert late.run_id in workers.started
    late = run_of(stage, FREEZE_FROM_MS - MINUTE_MS)
    assert (late.status, late.attempt, late.started_at_ms) == ("succeeded", 1, FREEZE_TO_MS)
    assert len(late.put_off) == 1, "and it is told for as long as its record lives"


def test_a_message_that_lay_in_its_queue_until_the_freeze_began_starts_nothing() -> None:
    stage, _ = frozen_stage()
    stage.at_ms = FREEZE_FROM_MS - MINUTE_MS
    stage.process().window()
    stage.at_ms = FREEZE_FROM_MS + SECOND_MS

    declined = start_next(stage)

    assert declined == Declined("put_off", discard=True)
    stage.at_ms = FREEZE_TO_MS - SECOND_MS
    assert run_of(stage, FREEZE_FROM_MS - MINUTE_MS).run_id in stage.serve(3).started


def test_a_retry_that_comes_due_in_a_freeze_waits_for_its_end() -> None:
    stage, _ = frozen_stage(retry=RetryPolicy(base_s=45, jitter_percent=0))
    stage.at_ms = FREEZE_FROM_MS - MINUTE_MS
    stage.process().window()
    started = start_next(stage)
    assert isinstance(started, worker_calls.Started)
    worker_calls.fail(stage.process().ports, started.run.key, started.run.token, "no", permanent=False)
    stage.at_ms = run_of(stage, FREEZE_FROM_MS - MINUTE_MS).retry_at_ms
    assert FREEZE_FROM_MS < stage.at_ms < FREEZE_TO_MS

    stage.serve(3)

    waiting = run_of(stage, FREEZE_FROM_MS - MINUTE_MS)
    assert (waiting.status, waiting.attempt, waiting.retry_at_ms) == ("waiting", 1, FREEZE_TO_MS)
    assert [one["attempt"] for one in waiting.put_off] == [2]
    stage.at_ms = FREEZE_TO_MS - SECOND_MS
    stage.serve(3)
    ended = run_of(stage, FREEZE_FROM_MS - MINUTE_MS)
    assert (ended.status, ended.attempt) == ("succeeded", 2)


def test_an_attempt_that_lapsed_is_not_taken_over_in_a_freeze() -> None:
    stage, _ = frozen_stage(lease_s=30)
    stage.at_ms = FREEZE_FROM_MS - MINUTE_MS
    stage.process().window()
    body = stage.bodies()[0]
    assert isinstance(start_next(stage), worker_calls.Started)
    stage.at_ms = FREEZE_FROM_MS + SECOND_MS

    assert worker_calls.start(stage.process().ports, stage.start_request(body)) == Declined("put_off", discard=True)

    run = run_of(stage, FREEZE_FROM_MS - MINUTE_MS)
    assert (run.status, run.retry_at_ms) == ("waiting", FREEZE_TO_MS)
    assert [(one["attempt"], one["outcome"]) for one in run.attempts] == [(1, "lost")]
    assert [one["attempt"] for one in run.put_off] == [2]


def test_what_a_freeze_has_held_back_is_spread_over_the_tolerance_of_its_jobs() -> None:
    stage = Stage()
    calendars.put_calendar(stage.process().ports, "shop", "freeze", {**FREEZE, "hard": True}, None)
    for number in range(40):
        stage.job(f"books-{number}", {**EACH_MINUTE, "cron": "0,1 0 * * *"}, CatchUp("all"), tolerance_s=20)
    stage.at_ms = FREEZE_FROM_MS + 10 * SECOND_MS
    stage.serve(1)
    due = [run.retry_at_ms for run in stage.runs() if run.put_off]
    assert len(due) == 40
    assert min(due) >= FREEZE_TO_MS
    assert max(due) < FREEZE_TO_MS + 20 * SECOND_MS
    assert len(set(due)) > 10


def test_a_freeze_without_an_end_is_looked_at_again_each_day_and_noticed_when_it_is_mended() -> None:
    stage, _ = frozen_stage()
    forever = {"zone": "UTC", "ranges": [{"from": "2026-01-01", "to": "2149-12-31"}], "hard": True}
    calendars.put_calendar(stage.process().ports, "shop", "freeze", forever, 1)
    due_ms = NOW_MS + MINUTE_MS
    stage.at_ms = due_ms
    for day in range(7):
        stage.serve(2)
        waiting = run_of(stage, due_ms)
        assert (waiting.status, len(waiting.put_off)) == ("waiting", 1)
        assert 0 < waiting.retry_at_ms - stage.at_ms <= LOOK_AGAIN_MS, day
        stage.at_ms = waiting.retry_at_ms - SECOND_MS
    calendars.put_calendar(stage.process().ports, "shop", "freeze", FREEZE, 2)

    stage.serve(3)

    assert run_of(stage, due_ms).status == "succeeded"


def test_a_calendar_that_becomes_hard_holds_for_what_was_pending_already() -> None:
    stage, job_id = frozen_stage({"hard": False})
    assert not run_of(stage, NOW_MS + MINUTE_MS).hard
    calendars.put_calendar(stage.process().ports, "shop", "freeze", {**FREEZE, "hard": True}, 1)

    reconcile(stage.process().ports)

    pending = run_of(stage, NOW_MS + MINUTE_MS)
    assert (pending.hard, pending.guarded, pending.status) == (True, True, "pending")
    assert "freeze@2" in stage.get_job(job_id).planned_with


def test_a_run_that_is_put_off_can_be_cancelled_and_its_retry_is_spent() -> None:
    stage, _ = frozen_stage()
    stage.at_ms = FREEZE_FROM_MS + 10 * SECOND_MS
    stage.serve(1)
    late = run_of(stage, FREEZE_FROM_MS - MINUTE_MS)
    cancelling.cancel_run(stage.process().ports, late.key, "not this month")
    stage.at_ms = FREEZE_TO_MS - SECOND_MS
    assert late.run_id not in stage.serve(3).started
    assert run_of(stage, FREEZE_FROM_MS - MINUTE_MS).status == "cancelled"


def test_a_job_without_hard_calendars_pays_nothing_for_those_of_others() -> None:
    def calls(spec: dict[str, Any] | None) -> list[tuple[str, str]]:
        stage = Stage()
        if spec is not None:
            calendars.put_calendar(stage.process().ports, "shop", "freeze", spec, None)
        schedule = EACH_MINUTE if spec is not None else {"cron": "* * * * *"}
        stage.job("books", schedule, CatchUp("all"))
        stage.at_ms = NOW_MS + MINUTE_MS
        scanner, worker = stage.process(), stage.process()
        scanner.window()
        assert isinstance(
            worker_calls.start(worker.ports, stage.start_request(stage.bodies()[0])), worker_calls.Started
        )
        made = [(call.verb, call.what) for call in (*scanner.calls, *worker.calls)]
        return [call for call in made if call[1] != "teams"]  # what a process asks for once in some seconds

    soft = [call for call in calls(FREEZE) if call[1] != "calendars"]
    assert soft == calls(None)
    hard = calls({**FREEZE, "hard": True})
    assert len(hard) == len(calls(FREEZE)) + 3, "its start reads its job and the calendar, and writes once more"


@pytest.mark.parametrize("is_after", [False, True])
def test_a_scanner_that_is_killed_anywhere_on_the_way_of_a_put_off_loses_nothing(is_after: bool) -> None:
    killed = 0
    for number in range(1, 40):
        stage, _ = frozen_stage()
        stage.at_ms = FREEZE_FROM_MS + 10 * SECOND_MS
        scanner = stage.process()
        script = scanner.after if is_after else scanner.before
        script(lambda call, number=number: call.n == number, die)
        try:
            scanner.window()
        except Killed:
            killed += 1
        _comes_at_the_end(stage)
    assert killed > 5


@pytest.mark.parametrize("is_after", [False, True])
def test_a_start_that_is_killed_anywhere_on_the_way_of_a_put_off_loses_nothing(is_after: bool) -> None:
    killed = 0
    for number in range(1, 20):
        stage, _ = frozen_stage()
        stage.at_ms = FREEZE_FROM_MS - MINUTE_MS
        stage.process().window()
        body = stage.bodies()[0]
        stage.at_ms = FREEZE_FROM_MS + SECOND_MS
        worker = stage.process()
        script = worker.after if is_after else worker.before
        script(lambda call, number=number: call.n == number, die)
        try:
            worker_calls.start(worker.ports, stage.start_request(body))
            stage.inbox.clear()
        except Killed:
            killed += 1
        _comes_at_the_end(stage)
    assert killed > 3


def _comes_at_the_end(stage: Stage) -> None:
    """The next scanner waits for the lease of the dead one. What is late then comes once, after the freeze."""
    stage.at_ms = FREEZE_FROM_MS + 30 * SECOND_MS
    assert not stage.serve(3).started
    stage.at_ms = FREEZE_TO_MS - SECOND_MS
    workers = stage.serve(4)
    late = run_of(stage, FREEZE_FROM_MS - MINUTE_MS)
    assert workers.started.count(late.run_id) == 1
    assert (late.status, late.attempt) == ("succeeded", 1)
    stage.assert_chains_unbroken()
