"""What users of other schedulers have learnt about overlap, pauses, backfills and limits, O1 to O13: each has tests.

O13 is shown here: whoever waits for a limit is in nobody's way.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.scenarios.stage import NOW_MS, Stage
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.work import Resource
from tickwork.core.runs.attempts import Declined
from tickwork.flows.runs import worker_calls
from tickwork.ports import Layout

HERE = Path(__file__).parents[1]
SCOPED = "unit/dispatch/test_scoped_pauses.py"
LESSONS: dict[str, tuple[str, ...]] = {
    "O1: a killed holder gives its slot back within a lease": (
        "unit/runs/test_semaphores.py::test_a_killed_holder_keeps_its_slot_until_its_lease_lapses_and_loses_it_then",
        "unit/runs/test_semaphores.py::test_a_slot_that_went_to_another_does_not_hold_up_a_completion",
        "unit/runs/test_waiters.py::test_a_busy_store_does_not_take_back_an_end_that_was_accepted",
    ),
    "O2: never more than N at a time, in any history": (
        "unit/runs/test_semaphores.py::test_never_more_than_n_at_a_time_in_any_history",
        "unit/runs/test_semaphores.py::test_two_starts_that_want_the_same_slot_at_once_do_not_share_it",
    ),
    "O3: what has ended, was deleted or died holds no job": (
        "unit/dispatch/test_overlap.py::test_what_has_ended_lets_the_next_one_fire",
        "unit/dispatch/test_overlap.py::test_one_that_is_to_stop_and_whose_worker_is_dead_holds_nothing",
        "unit/dispatch/test_buffer_one.py::test_when_all_have_died_the_look_lets_it_go_within_a_minute",
    ),
    "O4: what is skipped starts never, what waits only where it may": (
        "unit/dispatch/test_buffer_one.py::test_it_starts_no_later_than_its_job_lets_it",
        "unit/dispatch/test_buffer_one.py::test_it_does_not_start_where_its_schedule_is_over",
        "unit/dispatch/test_buffer_one.py::test_it_does_not_start_where_a_calendar_excludes_it",
    ),
    "O5: a pause stops starts and nothing else, and drained can be waited for": (
        f"{SCOPED}::test_what_was_started_goes_on_with_its_retries",
        "unit/audit/test_draining.py::test_it_is_drained_when_what_runs_has_ended_and_not_while_it_waits_for_a_retry",
    ),
    "O6: a resume starts what its answer said, and no other": (
        f"{SCOPED}::test_what_waits_for_a_resume_is_the_newest_or_all_as_was_asked_for_and_as_was_answered",
    ),
    "O7: a run by hand leaves a pause as it was": (
        "unit/runs/test_asking.py::test_it_runs_on_a_paused_job_and_leaves_the_pause_as_it_was",
        "unit/runs/test_backfills.py::test_it_leaves_the_chain_and_the_pause_and_neither_holds_nor_is_held",
    ),
    "O8: a run by hand obeys the overlap policy, and is seen by it": (
        "unit/runs/test_asking.py::test_under_skip_it_is_refused_while_another_run_holds_the_job_and_names_it",
        "unit/runs/test_asking.py::test_under_skip_the_next_scheduled_one_sees_it_and_is_skipped_with_its_name",
    ),
    "O9: the policy holds whatever blocks, and a drop is a recorded skip": (
        "unit/dispatch/test_buffer_one.py::test_the_first_that_is_due_waits_and_those_after_it_are_skipped",
        "unit/dispatch/test_buffer_all.py::test_what_is_more_than_may_wait_is_skipped_and_says_so",
        "unit/dispatch/test_buffer_all.py::test_what_has_waited_for_too_long_is_skipped_and_says_so",
    ),
    "O10: bulk always has a share, a free place is taken at once": (
        "scenarios/test_bulk.py::test_bulk_gets_a_fifth_of_its_slices_while_others_have_a_backlog",
        "unit/runs/test_backfills.py::test_no_more_run_at_a_time_than_it_says_and_a_free_place_is_taken_at_once",
    ),
    "O11: a cancelled backfill starts nothing more, a large one needs its dry run": (
        "unit/runs/test_backfills.py::test_cancelled_it_starts_nothing_more_and_what_has_started_goes_as_was_asked",
        "unit/runs/test_backfills.py::test_a_large_one_needs_the_token_of_its_dry_run_and_is_just_what_that_has_counted",
    ),
    "O12: who splits his load over many jobs gains nothing": (
        "scenarios/test_shares.py::test_a_team_that_spreads_its_load_over_many_jobs_gains_nothing",
    ),
    "O13: who waits for a limit is in nobody's way": (
        "scenarios/test_lessons.py::test_O13_runs_that_wait_for_one_tag_delay_no_run_without_it",
    ),
}


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((HERE / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_lesson_has_its_tests() -> None:
    assert [lesson.partition(":")[0] for lesson in LESSONS] == [f"O{n}" for n in range(1, 14)]
    for lesson, names in LESSONS.items():
        for name in names:
            path, _, test = name.partition("::")
            assert test in names_in(path), lesson


CALL_MS = 20
"""What a call takes here."""
ONE = Resource("reporting-db", 1)
DUE_MS = NOW_MS + 10 * SECOND_MS


@pytest.mark.parametrize("waiting", [500])
def test_O13_runs_that_wait_for_one_tag_delay_no_run_without_it(waiting: int) -> None:  # noqa: N802 - the lesson's id
    stage = Stage(Layout(shards=2, slices=1, pools=("default",)))
    for _ in range(-(-(waiting + 1) // 250)):
        stage.timers(250, DUE_MS, resources=(ONE,), lease_s=900)
    stage.at_ms = DUE_MS
    stage.process().window()
    held, *others = stage.bodies()[: waiting + 1]
    stage.inbox.clear()
    assert not isinstance(worker_calls.start(stage.process().ports, stage.start_request(held)), Declined)
    longest_ms = 0
    for body in others:
        worker = stage.process()
        worker.latency_ms, began_ms = CALL_MS, stage.at_ms
        answer = worker_calls.start(worker.ports, stage.start_request(body))
        assert isinstance(answer, Declined), "there is one slot"
        assert answer.reason == "no_slot"
        longest_ms = max(longest_ms, stage.at_ms - began_ms)
    assert longest_ms < SECOND_MS, "a worker is told at once, and is free"
    refs = {str(body["ref"]) for body in others}
    assert {run.attempt for run in stage.runs() if run.key.ref in refs} == {0}, "and it cost no attempt"

    due_ms = (stage.at_ms // SECOND_MS + 5) * SECOND_MS
    stage.timers(1, due_ms, team="free")
    stage.at_ms = due_ms
    scanner = stage.process()
    scanner.latency_ms = CALL_MS
    scanner.window()
    (free,) = (body for body in stage.bodies() if "#free#" in str(body["ref"]))
    worker = stage.process()
    worker.latency_ms = CALL_MS
    assert not isinstance(worker_calls.start(worker.ports, stage.start_request(free)), Declined)
    assert stage.at_ms - due_ms < SECOND_MS, "from due to started, with all of them waiting"
