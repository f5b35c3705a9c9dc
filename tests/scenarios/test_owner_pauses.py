"""A slice owner that pauses for 22 s and wakes (F4): it can repeat messages, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scenarios.stage import NOW_MS, Call, Process, Stage
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.flows.dispatch.serving import PAGE_ITEMS_MAX
from tickwork.ports import Layout

RUNS = 8_400
SENT_BEFORE = 7 * 250
"""At least the timers of seven pages of 500 (PAGE_ITEMS_MAX), before those of the eighth, at which it pauses. The
occurrences of jobs, which are the other half, go behind all timers."""
PAUSE_MS = 22 * SECOND_MS
LAST_SECOND = (NOW_MS + 2 * MINUTE_MS) // SECOND_MS - 1
REJECTED = "scheduler.dispatch_rejected_stale_token_total"


@pytest.fixture(scope="module")
def due_minute() -> Callable[[], Stage]:
    """8,400 runs of one minute, 140 each second, half of them of jobs that recur."""
    stage = Stage(Layout(shards=4, slices=1, pools=("default",)))
    creator = stage.process()
    for second in range(60):
        due_ms = NOW_MS + MINUTE_MS + second * SECOND_MS
        stage.timers(RUNS // 120, due_ms, by=creator)
        for n in range(RUNS // 120):
            schedule = {"rate": "1 day", "anchor": f"2026-10-30T00:01:{second:02d}Z"}
            stage.job(f"job-{second:02d}-{n:02d}", schedule, by=creator)
    stage.at_ms = NOW_MS + 2 * MINUTE_MS - SECOND_MS
    return stage.copy


def nth_send(n: int) -> Callable[[Call], bool]:
    seen = iter(range(1, 10_000))
    return lambda call: call.verb == "send" and call.what == "ready-default" and next(seen) == n


def last_cursor_write(call: Call) -> bool:
    """The one that passes the minute that is full."""
    return call.sets("done") and call.detail[0].set["done"] >= LAST_SECOND


def step_of_a_chain(call: Call) -> bool:
    return call.verb == "commit" and call.what == "leases" and len(call.detail) > 1


def served_by_two(stage: Stage, where: Callable[[Call], bool], *, frozen: bool) -> tuple[Process, Process]:
    """The owner pauses at a call; when its lease has lapsed, another serves the slice; then the owner wakes."""
    owner, other = stage.process(), stage.process()

    def meanwhile() -> None:
        stage.at_ms += 10 * SECOND_MS + 1
        assert other.window().outcome == "served"

    owner.before(where, lambda: owner.pause(PAUSE_MS, meanwhile, frozen=frozen))
    report = owner.window()
    assert report.outcome == "fenced"
    return owner, other


def sends(process: Process) -> int:
    return sum(len(call.detail) for call in process.calls if call.what == "ready-default")


def assert_each_run_once(stage: Stage) -> int:
    """No run started twice, none left out; how many messages died at start."""
    workers = stage.work()
    assert len(workers.started) == RUNS
    assert len(set(workers.started)) == RUNS
    assert set(workers.declined) <= {"succeeded"}
    assert stage.statuses() == {"succeeded": RUNS, "pending": RUNS // 2}
    stage.assert_chains_unbroken()
    return workers.dead_at_start


def test_with_a_running_monotonic_clock_it_repeats_only_the_batch_in_its_hands(due_minute: Callable[[], Stage]) -> None:
    stage = due_minute()
    owner, other = served_by_two(stage, nth_send(8), frozen=False)

    assert sends(other) == RUNS, "the other starts at the cursor"
    assert 2 * PAGE_ITEMS_MAX >= sends(owner) - SENT_BEFORE > 0, "the batch in its hands, and no more"
    assert assert_each_run_once(stage) == sends(owner)


def test_without_a_monotonic_clock_the_messages_it_repeats_die_at_start(due_minute: Callable[[], Stage]) -> None:
    stage = due_minute()
    owner, other = served_by_two(stage, nth_send(8), frozen=True)

    assert stage.signals.counts[REJECTED] == 1, "its next write was refused, and counted"
    assert sends(other) == RUNS
    assert sends(owner) - SENT_BEFORE >= PAGE_ITEMS_MAX, "it does not know that it paused"
    assert assert_each_run_once(stage) == sends(owner)


@pytest.mark.parametrize("frozen", [False, True])
def test_its_cursor_write_is_rejected_and_counted(due_minute: Callable[[], Stage], frozen: bool) -> None:
    stage = due_minute()
    owner, _ = served_by_two(stage, last_cursor_write, frozen=frozen)

    assert stage.signals.counts[REJECTED] == 1
    assert ("stale_token_refused", {"slice": "main#0000"}) in stage.signals.lines
    assert stage.lease().token == 2
    assert stage.lease().done == (NOW_MS + 2 * MINUTE_MS + 9 * SECOND_MS) // SECOND_MS
    assert sends(owner) == RUNS, "it had sent everything before it paused"
    assert assert_each_run_once(stage) <= PAGE_ITEMS_MAX, "and the other the last page of it again"


@pytest.mark.parametrize("frozen", [False, True])
def test_it_can_not_materialise_a_next_occurrence(due_minute: Callable[[], Stage], frozen: bool) -> None:
    stage = due_minute()
    owner, _ = served_by_two(stage, step_of_a_chain, frozen=frozen)

    assert stage.signals.counts[REJECTED] == 1
    assert sends(owner) == RUNS // 2, "the timers, which go first; of the jobs, nothing"
    assert assert_each_run_once(stage) == RUNS // 2
