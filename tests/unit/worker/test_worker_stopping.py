"""A signal reaches the job's own code, and nothing else."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest

from tickwork.worker import LeaseLost, RunCancelled
from tickwork.worker.context import StopFlag, StopJob
from tickwork.worker.stopping import Stoppable


def in_thread(stoppable: Stoppable, function: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    ends: list[object] = []

    def call() -> None:
        try:
            ends.append(stoppable.run(function))
        except BaseException as error:  # noqa: BLE001
            ends.append(type(error))

    thread = threading.Thread(target=call)
    thread.start()
    return thread, ends


@pytest.mark.parametrize("signal", [LeaseLost, RunCancelled])
def test_a_busy_job_that_never_asks_is_stopped(signal: type[StopJob]) -> None:
    stoppable, busy = Stoppable(StopFlag()), threading.Event()

    def job() -> None:
        busy.set()
        n = 0
        while True:
            with contextlib.suppress(Exception):  # a BaseException passes it
                n += 1

    thread, ends = in_thread(stoppable, job)
    assert busy.wait(5)
    assert stoppable.stop(signal)
    thread.join(5)
    assert ends == [signal]


def test_only_the_first_signal_counts() -> None:
    stoppable, busy = Stoppable(StopFlag()), threading.Event()

    def job() -> None:
        busy.set()
        while True:
            pass

    thread, ends = in_thread(stoppable, job)
    assert busy.wait(5)
    assert stoppable.stop(RunCancelled)
    assert not stoppable.stop(LeaseLost)
    thread.join(5)
    assert ends == [RunCancelled]


def test_a_job_told_to_stop_before_it_began_does_not_begin() -> None:
    stoppable = Stoppable(StopFlag())
    stoppable.stop(LeaseLost)
    thread, ends = in_thread(stoppable, lambda: pytest.fail("it ran"))
    thread.join(5)
    assert ends == [LeaseLost]


def test_a_job_that_has_ended_can_not_be_told() -> None:
    stoppable = Stoppable(StopFlag())
    thread, ends = in_thread(stoppable, lambda: "done")
    thread.join(5)
    assert not stoppable.stop(LeaseLost)
    assert ends == ["done"]


def test_the_jobs_cleanup_may_swallow_the_signal_and_the_flag_still_tells() -> None:
    flag = StopFlag()
    stoppable, busy = Stoppable(flag), threading.Event()

    def job() -> str:
        try:
            busy.set()
            while True:
                pass
        except BaseException:  # noqa: BLE001
            return "swallowed"

    thread, ends = in_thread(stoppable, job)
    assert busy.wait(5)
    stoppable.stop(LeaseLost)
    thread.join(5)
    assert ends == ["swallowed"]
    assert flag.is_lost


def test_signals_sent_around_the_end_of_a_job_never_escape_into_the_code_after_it() -> None:
    """Two thousand races: whatever the interleaving, `run` raises the signal or returns, and after it is silence."""
    rounds, escaped, told = 2_000, [], 0
    stoppables = [Stoppable(StopFlag()) for _ in range(rounds)]
    ready = [threading.Event() for _ in range(rounds)]

    def worker() -> None:
        for stoppable, event in zip(stoppables, ready, strict=True):
            try:
                with contextlib.suppress(LeaseLost):
                    stoppable.run(lambda event=event: (event.set(), sum(range(40))))
                sum(range(200))  # the worker's own code, in which nothing may strike
            except BaseException as error:  # noqa: BLE001
                escaped.append(error)

    thread = threading.Thread(target=worker)
    thread.start()
    for stoppable, event in zip(stoppables, ready, strict=True):
        assert event.wait(5)
        told += stoppable.stop(LeaseLost)
    thread.join(10)
    assert not thread.is_alive()
    assert escaped == []
