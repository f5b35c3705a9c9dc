"""A lease is trusted as long as its answer says, by a monotonic clock from before it was asked (W14)."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from tests.support.worker_bench import QUEUE, Bench, FakeApi, FakeSqs, HandClock, message
from tests.unit.worker.test_worker_lambdas import Invocation
from tests.unit.worker.test_worker_leases import LEASE_S, Scene
from tickwork.worker import App, Context, LeaseLost
from tickwork.worker.beating import BEAT_S_MIN
from tickwork.worker.clock import WorkerClock
from tickwork.worker.lambdas import lambda_handler
from tickwork.worker.process import Worker, WorkerOptions
from tickwork.worker.sources import LeaseSource, SqsSource

ASKED_S, BOUND_S = 300, 60


def granted(lease_ms: int) -> dict[str, Any]:
    return {"granted": True, "token": 7, "attempt": 1, "lease_ms": lease_ms}


def bench(lease_ms: int, lease_s: int = ASKED_S) -> Bench:
    app = App()
    app.job("job")(lambda ctx: None)
    made = Bench(app)
    made.api.answers["/runs:start"] = lambda _: granted(lease_ms)
    made.take(message(lease_s=lease_s))
    return made


def test_the_first_heartbeat_comes_at_a_third_of_what_was_granted_not_of_what_was_asked_for() -> None:
    held = bench(BOUND_S * 1_000)
    held.clock.at_s += BOUND_S / 3 - 1
    held.worker._beats.step()
    assert held.api.of("/runs:heartbeat") == []
    held.clock.at_s += 1
    held.worker._beats.step()
    assert len(held.api.of("/runs:heartbeat")) == 1


def test_a_lease_that_a_heartbeat_cannot_lengthen_is_given_up_when_it_ends() -> None:
    held = bench(BOUND_S * 1_000)
    ends_s = held.clock.at_s + BOUND_S
    left_ms = lambda _: {"accepted": True, "lease_ms": int(max(0, ends_s - held.clock.at_s) * 1_000)}  # noqa: E731
    held.api.answers["/runs:heartbeat"] = left_ms
    (delivery,) = held.active
    beats_s: list[float] = []
    while not delivery.stop.is_lost:
        held.clock.at_s += 0.125
        held.worker._beats.step()
        if delivery.beaten_at_s not in beats_s:
            beats_s.append(delivery.beaten_at_s)
    assert ends_s <= held.clock.at_s <= ends_s + 0.125
    assert min(later - earlier for earlier, later in pairwise(beats_s)) >= BEAT_S_MIN, "not ever more often"


def test_it_is_given_up_also_while_a_heartbeat_waits_for_its_answer() -> None:
    held = bench(BOUND_S * 1_000)
    held.clock.at_s += BOUND_S
    held.worker._beats.give_up_outlasted()  # what the other thread does
    assert held.active[0].stop.is_lost


def test_a_heartbeat_without_an_answer_does_not_keep_the_job_running() -> None:
    """On real threads: the one that beats is stuck until the job has been stopped."""
    app, stopped, stopping = App(), threading.Event(), threading.Event()

    @app.job("job")
    def job(ctx: Context) -> None:
        try:
            for _ in range(1_500):
                threading.Event().wait(0.01)
        except LeaseLost:
            stopped.set()
            raise

    api, sqs = FakeApi(), FakeSqs()
    api.answers["/runs:start"] = lambda _: granted(900)
    api.answers["/runs:heartbeat"] = lambda _: {"accepted": stopped.wait(20)}
    sqs.batches.append([message()])
    clients: Any = {"sqs": sqs, "control": sqs, "api": api}
    source = SqsSource(queue_url=QUEUE, worker="w", stopping=stopping, clock=WorkerClock(), **clients)
    worker = Worker(app, source, clients["api"], WorkerOptions(1, grace_s=0), stopping)
    running = threading.Thread(target=worker.run, daemon=True)
    running.start()
    assert stopped.wait(10), "while the heartbeat was waiting"
    worker.stop()
    running.join(10)
    assert api.of("/runs:complete") == []


def test_a_start_answered_after_its_lease_had_ended_is_not_begun() -> None:
    ran: list[str] = []
    app = App()
    app.job("job")(lambda ctx: ran.append(ctx.run_id))
    made = Bench(app)

    def late(_: dict[str, Any]) -> dict[str, Any]:
        made.clock.at_s += BOUND_S + 1
        return granted(BOUND_S * 1_000)

    made.api.answers["/runs:start"] = late
    made.take(message())
    made.run_all()
    assert ran == []
    assert made.api.of("/runs:complete") == []


def test_the_message_is_hidden_as_long_as_the_lease_that_was_granted() -> None:
    assert list(bench(BOUND_S * 1_000).sqs.shown.values()) == [[BOUND_S + 1]]


@pytest.mark.parametrize("lease_ms", [None, "60000", True])
def test_a_platform_that_does_not_say_grants_what_was_asked_for(lease_ms: Any) -> None:
    (delivery,) = bench(lease_ms, lease_s=60).active
    assert delivery.trust_s == 60


class LongPoll(FakeApi):
    """Answers a lease after 15 s of waiting, and some seconds on the way back."""

    def __init__(self, clock: HandClock, **top: Any) -> None:
        super().__init__()
        self._clock, self._top = clock, top

    def post(self, path: str, body: Any, **options: Any) -> Any:
        self._clock.at_s += 15 + 4
        ready = {"ref": "r", "run_id": "i", "job_id": "t:j", "handler": "job", "token": 1, "attempt": 1}
        times = {"scheduled_at": "2026-11-30T02:00:00Z", "fire_at": "2026-11-30T02:00:05Z"}
        return {"runs": [ready | times | {"lease_ms": 30_000}], **self._top}


@pytest.mark.parametrize(
    ("top", "trusted_s"),
    [({"waited_ms": 15_000}, 15 + 30), ({"waited_ms": 99_000}, 19 + 30)],
    ids=["from when the platform answered at the earliest", "a platform that says more than there was"],
)
def test_a_lease_of_a_long_poll_is_not_trusted_from_its_answer_s_arrival(top: dict[str, Any], trusted_s: float) -> None:
    clock = HandClock()
    asked_at_s = clock.now_s()
    api: Any = LongPoll(clock, **top)
    source = LeaseSource(pool="p", worker="w", api=api, stopping=threading.Event(), clock=clock, lease_s=60, wait_s=20)
    (delivery,) = source.take(1)
    assert delivery.lease_ends_s == asked_at_s + trusted_s


def test_a_lambda_job_is_stopped_when_the_lease_that_was_granted_ends() -> None:
    api, stopped = FakeApi(), threading.Event()
    api.answers["/runs:start"] = lambda _: granted(50)
    app = App()

    @app.job("job")
    def job(ctx: Context) -> None:
        try:
            for _ in range(1_000):
                threading.Event().wait(0.01)
        except LeaseLost:
            stopped.set()
            raise

    records = [{"messageId": "1", "receiptHandle": "r", "body": message()}]
    answer = lambda_handler(app, api=api)({"Records": records}, Invocation(100))  # type: ignore[arg-type]
    assert stopped.is_set()
    assert api.of("/runs:complete") == []
    assert answer == {"batchItemFailures": [{"itemIdentifier": "1"}]}, "its message comes again"


def test_an_attempt_that_may_not_take_for_ever_has_stopped_when_another_can_start() -> None:
    """A resource of one had two holders: the ledger's lease ended at max_duration_s, the worker trusted its own."""
    stopped_at: list[int] = []

    def job(scene: Scene, ctx: Context) -> None:
        began_ms = scene.world.clock.at_ms
        scene.service.cut = {"/runs:heartbeat"}
        try:
            scene.work(3 * LEASE_S)
        except LeaseLost:
            stopped_at.append((scene.world.clock.at_ms - began_ms) // 1_000)
            raise

    scene = Scene(job, max_duration_s=30)
    scene.go()
    assert stopped_at[0] <= 30
    assert all(not answer["granted"] for answer in scene.rival_starts)


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has it")
def test_a_night_in_which_the_machine_slept_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The monotonic clock stands still then, and leases do not."""
    clock, slept_s = WorkerClock(), 8 * 3_600
    before_s, told = clock.now_s(), time.clock_gettime
    with_sleep = {time.CLOCK_BOOTTIME: slept_s}
    monkeypatch.setattr(time, "clock_gettime", lambda which: told(which) + with_sleep.get(which, 0))
    assert clock.now_s() - before_s >= slept_s
