"""The end of a worker (W12): what runs is finished, reported or handed back, and heartbeats go on through all of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.worker_bench import Bench, message, receipt, refused, unreachable
from tickwork.worker import App, Context, Interrupted, LeaseLost, RunCancelled
from tickwork.worker.clock import WorkerClock
from tickwork.worker.process import Worker, WorkerOptions

GRACE_S, CLEAN_UP_S = 20.0, 5.0
BEGUN_S = 1_000.0


class Ending:
    """A worker whose jobs run in threads of their own, and whose clock is moved by whoever waits. `when(s, act)`: what
    happens once so many seconds of the shutdown have passed."""

    def __init__(self, function: Callable[[Context], Any], runs: int = 1) -> None:
        app = App()
        app.job("job")(function)
        self.bench = Bench(app)
        self.bench.worker._options = WorkerOptions(4, GRACE_S, CLEAN_UP_S)
        self.acts: list[tuple[float, Callable[[], object]]] = []
        self.bench.take(*(message(f"r{n}") for n in range(1, runs + 1)))
        self.threads = [threading.Thread(target=run, daemon=True) for run in self.bench.submitted]
        waited = self.bench.clock.wait

        def wait(event: threading.Event, seconds: float) -> bool:
            self._act()
            return waited(event, seconds)

        self.bench.clock.wait = wait  # type: ignore[method-assign]

    def _act(self) -> None:
        for act in [one for one in self.acts if one[0] <= self.passed_s]:
            self.acts.remove(act)
            act[1]()
        self.bench.worker._beats.step()
        self.bench.report()

    @property
    def passed_s(self) -> float:
        return self.bench.clock.at_s - BEGUN_S

    def when(self, after_s: float, act: Callable[[], object]) -> None:
        self.acts.append((after_s, act))

    def end(self) -> bool:
        """Begin the jobs, then stop; whether nothing was given up."""
        for thread in self.threads:
            thread.start()
        self.bench.worker.stop()
        end = self.bench.worker._end
        end.drain(BEGUN_S + GRACE_S, CLEAN_UP_S)
        end.hand_back_the_rest()
        return not self.bench.active


def until(event: threading.Event) -> Callable[[Context], None]:
    """A job that works until it is let go, or told to stop."""

    def job(ctx: Context) -> None:
        while not event.wait(0.001):
            ctx.check()

    return job


class Stubborn:
    """A job that is in C code: what is sent to its thread does not arrive."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def __call__(self, ctx: Context) -> None:
        self.let_go.wait(30)


def released(ending: Ending) -> list[dict[str, Any]]:
    return ending.bench.api.entries("/runs:release")


def test_a_job_that_ends_within_the_grace_is_completed_and_nothing_handed_back() -> None:
    over = threading.Event()
    ending = Ending(until(over))
    ending.when(10, over.set)
    ending.when(10, ending.threads[0].join)
    assert ending.end()
    assert [entry["outcome"] for entry in ending.bench.api.entries("/runs:complete")] == ["succeeded"]
    assert released(ending) == []
    assert ending.passed_s < 11


def test_one_that_does_not_is_told_to_stop_and_handed_back_as_soon_as_it_has() -> None:
    ending = Ending(until(threading.Event()))
    ending.when(GRACE_S, ending.threads[0].join)
    assert ending.end()
    assert released(ending) == [{"ref": "ref-r1", "token": 7}]
    assert ending.bench.sqs.shown[receipt(message())][-1] == 0, "its message is visible at once"
    assert GRACE_S <= ending.passed_s < GRACE_S + 1
    assert ending.bench.api.of("/runs:complete") == []
    assert ending.bench.sqs.deleted == []


def test_the_context_says_why() -> None:
    seen: list[tuple[bool, bool, bool]] = []
    over = threading.Event()

    def job(ctx: Context) -> None:
        try:
            until(over)(ctx)
        except Interrupted:
            seen.append((ctx.is_interrupted, ctx.is_lost, ctx.is_cancelled))
            raise

    ending = Ending(job)
    ending.when(GRACE_S, ending.threads[0].join)
    ending.end()
    assert seen == [(True, False, False)]


def test_heartbeats_go_on_until_the_last_job_has_ended() -> None:
    begun, over, seen = threading.Event(), threading.Event(), list[bool]()

    def job(ctx: Context) -> None:
        begun.set()
        assert over.wait(10)

    app = App()
    app.job("job")(job)
    bench = Bench(app)
    bench.source._clock = WorkerClock()
    worker = Worker(app, bench.source, bench.api, WorkerOptions(1, 60.0), bench.stopping)  # type: ignore[arg-type]

    def beat_until(done: threading.Event) -> None:
        assert bench.stopping.wait(10)
        seen.append(done.is_set())
        over.set()
        done.wait(10)

    worker._beats.beat_until = beat_until  # type: ignore[method-assign]
    bench.sqs.batches.append([message()])
    thread = threading.Thread(target=lambda: seen.append(worker.run()))
    thread.start()
    assert begun.wait(10)
    worker.stop()
    thread.join(10)
    assert seen == [False, True]
    assert bench.sqs.deleted == [receipt(message())]


@pytest.mark.parametrize("then", [ValueError("stopped"), SystemExit(1), KeyboardInterrupt()])
def test_a_job_that_fails_because_it_was_told_to_stop_has_not_failed(then: BaseException) -> None:
    def job(ctx: Context) -> None:
        try:
            until(threading.Event())(ctx)
        except Interrupted:
            raise then from None

    ending = Ending(job)
    ending.when(GRACE_S, ending.threads[0].join)
    assert ending.end()
    assert len(released(ending)) == 1
    assert ending.bench.api.of("/runs:complete") == []


def test_one_that_ends_well_all_the_same_is_completed() -> None:
    def job(ctx: Context) -> None:
        try:
            until(threading.Event())(ctx)
        except Interrupted:
            return

    ending = Ending(job)
    ending.when(GRACE_S, ending.threads[0].join)
    assert ending.end()
    assert released(ending) == []
    assert [entry["outcome"] for entry in ending.bench.api.entries("/runs:complete")] == ["succeeded"]


def test_a_job_that_does_not_stop_is_handed_back_last_for_when_its_process_is_gone() -> None:
    job = Stubborn()
    ending = Ending(job)
    assert not ending.end()
    assert released(ending) == [{"ref": "ref-r1", "token": 7, "stops_in_s": 5}]
    assert ending.bench.sqs.shown[receipt(message())][-1] == 5
    assert ending.passed_s >= GRACE_S + CLEAN_UP_S
    job.let_go.set()


def test_a_release_that_found_no_answer_is_tried_again_while_there_is_time() -> None:
    ending = Ending(until(threading.Event()))
    ending.bench.api.fail["/runs:release"] = [unreachable(), unreachable()]
    ending.when(GRACE_S, ending.threads[0].join)
    assert ending.end()
    assert len(released(ending)) == 3
    assert GRACE_S + 2 <= ending.passed_s < GRACE_S + 3, "a second between them"


@pytest.mark.parametrize("failures", [20, 30])
def test_it_is_tried_as_long_as_the_lease_holds_also_without_heartbeats(failures: int) -> None:
    ending = Ending(until(threading.Event()))
    ending.bench.api.fail["/runs:release"] = [unreachable()] * failures
    ending.bench.api.fail["/runs:heartbeat"] = [None, *[unreachable()] * 100]
    ending.when(GRACE_S, ending.threads[0].join)
    assert ending.end()
    assert ending.passed_s >= GRACE_S + failures
    assert ending.bench.sqs.shown[receipt(message())][-1] == 0


def test_one_that_never_finds_any_leaves_the_run_to_lapse() -> None:
    ending = Ending(until(threading.Event()))
    ending.bench.api.fail["/runs:release"] = [unreachable()] * 1_000
    ending.bench.api.fail["/runs:heartbeat"] = [unreachable()] * 1_000
    ending.when(GRACE_S, ending.threads[0].join)
    ending.end()
    assert ending.passed_s <= 61
    assert 0 not in ending.bench.sqs.shown[receipt(message())]


def test_a_platform_that_takes_nothing_back_is_asked_once() -> None:
    """Of an older version: 404. The lease lapses, as it always did."""
    ending = Ending(until(threading.Event()))
    ending.bench.api.fail["/runs:release"] = [refused(404)]
    ending.when(GRACE_S, ending.threads[0].join)
    assert ending.end()
    assert len(released(ending)) == 1
    assert 0 not in ending.bench.sqs.shown[receipt(message())]


@pytest.mark.parametrize(("discard", "deleted"), [(True, 1), (False, 0)])
def test_a_release_that_is_refused_is_not_repeated(discard: bool, deleted: int) -> None:
    ending = Ending(until(threading.Event()))
    ending.bench.api.answers["/runs:release"] = lambda _: {"accepted": False, "reason": "x", "discard": discard}
    ending.when(GRACE_S, ending.threads[0].join)
    assert ending.end()
    assert len(released(ending)) == 1
    assert len(ending.bench.sqs.deleted) == deleted


def test_many_are_handed_back_together() -> None:
    ending = Ending(until(threading.Event()), runs=4)
    for thread in ending.threads:
        ending.when(GRACE_S, thread.join)
    assert ending.end()
    assert [len(body["runs"]) for body in ending.bench.api.of("/runs:release")] == [4]


def test_what_has_ended_is_reported_beyond_the_grace_as_long_as_its_lease_holds() -> None:
    over = threading.Event()
    ending = Ending(until(over))
    over.set()
    ending.when(0, ending.threads[0].join)
    ending.bench.api.fail["/runs:complete"] = [unreachable()] * 33
    assert ending.end()
    assert ending.passed_s > GRACE_S + CLEAN_UP_S
    assert ending.bench.sqs.deleted == [receipt(message())]
    assert released(ending) == []


def test_and_no_longer() -> None:
    over = threading.Event()
    ending = Ending(until(over))
    over.set()
    ending.when(0, ending.threads[0].join)
    ending.bench.api.fail["/runs:complete"] = [unreachable()] * 10_000
    ending.bench.api.fail["/runs:heartbeat"] = [unreachable()] * 10_000
    assert ending.end()
    assert ending.passed_s <= 61
    assert ending.bench.sqs.deleted == []


def test_a_lease_lost_while_it_cleans_up_is_not_handed_back() -> None:
    ending = Ending(until(threading.Event()))

    def lose() -> None:
        ending.bench.active[0].stop.set(LeaseLost)

    ending.when(GRACE_S - 1, lose)
    ending.when(GRACE_S - 1, ending.threads[0].join)
    assert ending.end()
    assert released(ending) == []


def test_a_run_that_was_cancelled_before_is_completed_as_that() -> None:
    ending = Ending(until(threading.Event()))
    ending.when(5, lambda: ending.bench.active[0].call.stop(RunCancelled))
    ending.when(5, ending.threads[0].join)
    assert ending.end()
    assert [entry["outcome"] for entry in ending.bench.api.entries("/runs:complete")] == ["cancelled"]


def test_a_heartbeat_under_way_does_not_hide_again_what_was_handed_back() -> None:
    ending = Ending(until(threading.Event()))
    (delivery,) = ending.bench.active
    ending.when(GRACE_S, ending.threads[0].join)
    ending.end()
    ending.bench.source.hold([delivery])
    ending.bench.settle()
    assert ending.bench.sqs.shown[receipt(message())][-1] == 0


def test_being_told_twice_gives_no_second_grace() -> None:
    ending = Ending(until(threading.Event()))
    ending.bench.worker.stop()
    ending.bench.clock.at_s += 15
    ending.bench.worker.stop()
    assert ending.bench.worker._stopped_at_s == BEGUN_S
