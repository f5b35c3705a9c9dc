"""The worker against the platform's own flows in memory, on one clock: long runs, cut heartbeats, late completions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.support.runs_world import World
from tests.support.worker_bench import FakeSqs, HandClock
from tickwork.client import ApiUnreachable
from tickwork.core.ledger.messages import compact_json
from tickwork.flows.runs.cancelling import cancel_run
from tickwork.worker import App, Context, LeaseLost, RunCancelled
from tickwork.worker.process import Worker, WorkerOptions
from tickwork.worker.sources import SqsSource

LEASE_S = 60


class WorldClock(HandClock):
    """The worker's clock is the platform's."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def now_s(self) -> float:
        return self._world.clock.at_ms / 1000

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self._world.after(seconds)
        return event.is_set()


class Service:
    """The client's calls, answered by the real resolver. `cut` holds the paths that get no answer."""

    def __init__(self, world: World) -> None:
        self._api = ApiUnderTest(world.ports)
        self.cut: set[str] = set()
        self.calls: list[str] = []

    def post(self, path: str, body: object, **_: Any) -> Any:
        self.calls.append(path)
        if path in self.cut:
            raise ApiUnreachable("cut off")
        status, answer = self._api.call("POST", path, body)
        assert status == 200, answer
        return answer


class Scene:
    """A worker that holds one run, and a rival that is given the same message again and again."""

    def __init__(self, job: Callable[[Scene, Context], None], **work: Any) -> None:
        self.world, self.began = World(), 0
        self.service = Service(self.world)
        self.key = self.world.timer(delay_s=5, lease_s=LEASE_S, **work)
        self.world.after(6)
        self.world.scan()
        app = App()

        @app.job("job")
        def run(ctx: Context) -> None:
            self.began += 1
            job(self, ctx)

        self.worker, self.queue = self._worker(app, "first")
        self.rival_starts: list[dict[str, Any]] = []

    def _worker(self, app: App, name: str) -> tuple[Worker, FakeSqs]:
        queue, stopping, clock = FakeSqs(), threading.Event(), WorldClock(self.world)
        source = SqsSource(
            queue_url="q",
            sqs=queue,  # type: ignore[arg-type]
            control=queue,  # type: ignore[arg-type]
            api=self.service,  # type: ignore[arg-type]
            worker=name,
            stopping=stopping,
            clock=clock,
        )
        worker = Worker(app, source, self.service, WorkerOptions(), stopping, clock)  # type: ignore[arg-type]
        return worker, queue

    def go(self) -> None:
        """Take the message, run the job in this thread, report."""
        self.queue.batches.append([compact_json(self.world.message(self.key))])
        self.worker.take_and_run(lambda function, delivery: function(delivery))
        completer = self.worker._completer
        while not completer._ended.empty():
            ended = completer._ended.get()
            assert ended is not None
            completer.send([ended])

    def work(self, seconds: int) -> None:
        """Work that never asks whether it must stop; each second the heartbeats have their turn, and the rival."""
        for second in range(seconds):
            self.world.after(1)
            self.worker._beats.step()
            if second % 10 == 0:
                self.rival_start()

    def rival_start(self) -> dict[str, Any]:
        body = self.world.message(self.key)
        entry = {"ref": body["ref"], "claim": f"rival-{self.world.ids.unique()}", "lease_s": LEASE_S}
        (answer,) = self.service.post("/runs:start", {"worker": "rival", "runs": [entry]})["runs"]
        self.rival_starts.append(answer)
        return dict(answer)

    def complete(self, token: int) -> dict[str, Any]:
        entry = {"ref": self.key.ref, "token": token, "outcome": "succeeded"}
        (answer,) = self.service.post("/runs:complete", {"runs": [entry]})["runs"]
        return dict(answer)


def test_a_job_of_three_leases_is_one_copy_as_long_as_it_beats() -> None:
    scene = Scene(lambda scene, ctx: scene.work(3 * LEASE_S + 5))
    scene.go()
    assert scene.began == 1
    assert len(scene.rival_starts) > 15
    assert {answer["reason"] for answer in scene.rival_starts} == {"held"}
    assert scene.service.calls.count("/runs:heartbeat") == 9
    assert scene.world.run(scene.key).status == "succeeded"
    assert scene.world.outcomes(scene.key) == []
    assert len(scene.queue.deleted) == 1


def test_cut_off_from_the_platform_it_is_stopped_before_its_lease_ends_and_completes_nothing() -> None:
    ended_at: list[int] = []

    def job(scene: Scene, ctx: Context) -> None:
        began_ms = scene.world.clock.at_ms
        scene.service.cut = {"/runs:heartbeat"}
        try:
            scene.work(3 * LEASE_S)
            pytest.fail("it went on to its end")
        except LeaseLost:
            ended_at.append((scene.world.clock.at_ms - began_ms) // 1000)
            raise

    scene = Scene(job)
    scene.go()
    assert ended_at == [40], "at two thirds of the lease"
    assert "/runs:complete" not in scene.service.calls
    assert scene.queue.deleted == []
    assert all(not answer["granted"] for answer in scene.rival_starts), "the lease still held when it stopped"


def test_the_next_attempt_has_a_higher_token_and_the_late_completion_is_rejected_and_counted() -> None:
    def job(scene: Scene, ctx: Context) -> None:
        scene.service.cut = {"/runs:heartbeat"}
        scene.work(3 * LEASE_S)

    scene = Scene(job)
    scene.go()
    scene.world.after(LEASE_S)
    granted = scene.rival_start()
    assert (granted["granted"], granted["attempt"], granted["token"]) == (True, 2, 2)
    rejected_before = scene.world.signals.counts["runs.stale_token_total"]

    late = scene.complete(token=1)  # what a worker that does not stop would send

    assert (late["accepted"], late["reason"], late["discard"]) == (False, "stale_token", False)
    assert scene.world.signals.counts["runs.stale_token_total"] == rejected_before + 1
    assert scene.complete(token=2)["accepted"]
    assert scene.world.outcomes(scene.key) == ["lost"]
    assert scene.world.run(scene.key).status == "succeeded"
    assert scene.world.signals.counts["worker.lease_expired_while_running_total"] >= 1


def test_a_run_cancelled_in_flight_is_stopped_at_its_next_heartbeat_and_ends_cancelled() -> None:
    stopped_after: list[int] = []

    def job(scene: Scene, ctx: Context) -> None:
        began_ms = scene.world.clock.at_ms
        scene.work(5)
        cancel_run(scene.world.ports, scene.key, "the order was withdrawn")
        try:
            scene.work(LEASE_S)
        except RunCancelled:
            stopped_after.append((scene.world.clock.at_ms - began_ms) // 1000)
            raise

    scene = Scene(job)
    scene.go()
    assert stopped_after == [LEASE_S // 3]
    assert scene.world.run(scene.key).status == "cancelled"
    assert len(scene.queue.deleted) == 1
