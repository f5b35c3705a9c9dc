"""An API process that stalls for minutes before, between and after its writes (F6): no accepted timer falls behind."""

from __future__ import annotations

import pytest

from tests.scenarios.stage import NOW_MS, Process, Stage
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.ledger.work import Work
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.runs import timers
from tickwork.ports import Layout

STALL_MS = 7 * MINUTE_MS
AHEAD_MS = 5 * SECOND_MS


def a_slice_at_work() -> Stage:
    stage = Stage(Layout(shards=2, slices=1, pools=("default",)))
    stage.timers(1, NOW_MS)
    stage.serve(1)
    return stage


def create_a_timer(process: Process) -> None:
    new = timers.NewTimer("shop", NOW_MS + AHEAD_MS, Work("default", "job", payload="x" * 500), "remind", "f")
    timers.create_timers(process.ports, [new])


def create_a_job(process: Process) -> None:
    process.stage.job("minutely", {"rate": "1 minute", "anchor": "2026-10-30T00:00:05Z"}, by=process)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("skew_ms", [0, -20 * SECOND_MS, 20 * SECOND_MS])
@pytest.mark.parametrize("create", [create_a_timer, create_a_job])
def test_wherever_the_api_stalls_what_it_accepts_has_fired_when_it_answers_or_fires_later(
    create: object, skew_ms: int, after: bool
) -> None:
    assert callable(create)
    calls = 0
    for k in range(1, 40):
        stage = a_slice_at_work()
        api = stage.process()
        api.skew_ms = skew_ms
        workers = stage.work()

        def others(stage: Stage = stage) -> None:
            """The scanner goes on, well past the timer's second."""
            for _ in range(int(STALL_MS // SECOND_MS) // 10):
                stage.at_ms += 9 * SECOND_MS
                stage.serve(1)

        (api.after if after else api.before)(
            lambda call, k=k: call.n == k, lambda api=api, others=others: api.pause(STALL_MS, others)
        )
        create(api)
        calls = len(api.calls)
        stage.serve(2, workers)
        overdue = [
            run.key.ref for run in stage.runs() if run.key.fire_at_ms < stage.at_ms - SECOND_MS and not run.ended
        ]
        assert not overdue, f"stalled at call {k} ({api.calls[k - 1]})"
        assert "scheduler.set_aside_total" not in stage.signals.counts
        stage.assert_chains_unbroken()
        assert reconcile(stage.process().ports).overdue == 0, "no repair was needed"
        if k >= calls:
            assert calls >= 4
            return
    raise AssertionError(f"{calls} calls and no end")
