"""A thread of `tickwork serve` ends when it is told to, and of nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.support.fakes import KeptSignals
from tickwork.core.errors import InvariantViolated, Throttled
from tickwork.local.loops import FIRST_PAUSE_S, PAUSE_S_MAX, keep_doing, run_together

STEPS = 9


class _Stopping(threading.Event):
    """Notes how long it would be waited for, and waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        return self.is_set()


def _run(step: Callable[[int], object], every_s: float = 0.0) -> tuple[list[float], KeptSignals, int]:
    """What was waited between the steps, what was said, how many steps there were."""
    stopping, signals, steps = _Stopping(), KeptSignals(), 0

    def counted() -> None:
        nonlocal steps
        steps += 1
        if steps == STEPS:
            stopping.set()
        step(steps)

    keep_doing(counted, name="ticker", stopping=stopping, signals=signals, every_s=every_s)
    return stopping.waits, signals, steps


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("error", [InvariantViolated("ours"), RecursionError(), KeyError("x"), MemoryError()])
def test_no_error_ends_a_loop_and_ours_are_counted_with_their_traceback(error: Exception) -> None:
    waits, signals, steps = _run(lambda _: _raise(error))
    assert steps == STEPS
    assert signals.counts["local.threads_failed_total"] == STEPS
    assert [action for action, _ in signals.lines] == ["thread_failed"] * STEPS
    assert all("_raise" in str(facts["traceback"]) and facts["thread"] == "ticker" for _, facts in signals.lines)
    assert waits == [min(FIRST_PAUSE_S * 2**n, PAUSE_S_MAX) for n in range(STEPS)]


def test_an_error_of_the_world_is_a_line_and_no_more() -> None:
    _, signals, _ = _run(lambda _: _raise(Throttled("busy")))
    assert not signals.counts
    assert "traceback" not in signals.lines[0][1]


def test_after_a_step_that_went_well_the_pause_begins_anew() -> None:
    waits, _, _ = _run(lambda n: n % 3 == 0 or _raise(Throttled("busy")), every_s=60.0)
    assert waits == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 60.0] * (STEPS // 3)


def test_loops_run_side_by_side_until_all_have_ended() -> None:
    meeting = threading.Barrier(3, timeout=10)
    met: list[int] = []

    def loop() -> None:
        met.append(meeting.wait())

    run_together([loop] * 3)
    assert sorted(met) == [0, 1, 2]
