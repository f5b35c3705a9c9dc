"""A signal reaches the job's own code, and nothing else."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tickwork.worker import LeaseLost, RunCancelled
from tickwork.worker.calling import _Cancellable
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


def test_of_two_that_tell_it_at_once_one_sends_the_signal() -> None:
    """The first has set the flag and finds the gate taken, by the second, who was not the first."""
    stoppable, busy, ends = Stoppable(StopFlag()), threading.Event(), threading.Event()

    def job() -> None:
        busy.set()
        while not ends.is_set():
            pass

    thread, found = in_thread(stoppable, job)
    assert busy.wait(5)
    gate, told = stoppable._gate, list[bool]()

    class Meeting:
        """Lets the first come to the gate only while the second is in it."""

        def acquire(self, blocking: bool = True) -> bool:
            taken = gate.acquire(blocking)
            if not told and threading.current_thread() is second:
                told.append(False)
                first = threading.Thread(target=lambda: told.append(stoppable.stop(RunCancelled)))
                first.start()
                first.join(5)
            return taken

        def release(self) -> None:
            gate.release()

    stoppable._gate = Meeting()  # type: ignore[assignment]
    stoppable.flag.set(RunCancelled)
    second = threading.Thread(target=lambda: told.append(stoppable.stop(LeaseLost)))
    second.start()
    second.join(5)
    thread.join(0.5)
    ends.set()
    thread.join(5)
    assert told == [False, False, True]
    assert found == [LeaseLost], "what the flag says by then"


def test_a_coroutine_that_is_told_just_as_its_loop_closes_has_ended() -> None:
    class ClosedJustNow:
        def is_closed(self) -> bool:
            return False

        def call_soon_threadsafe(self, _: object) -> None:
            raise RuntimeError("Event loop is closed")

    async def nothing() -> None: ...

    running: Any = _Cancellable(nothing)
    running._loop, running._task = ClosedJustNow(), SimpleNamespace(cancel=None)
    running.cancel()
