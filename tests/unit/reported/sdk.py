"""The SDK's own worker over a world in virtual time: it leases over HTTP, and its loops are the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.actions.world import World
from tests.support.worker_bench import HandClock
from tickwork.client import ApiRefused, ApiUnreachable
from tickwork.core.instants import SECOND_MS
from tickwork.worker import App
from tickwork.worker.process import Worker, WorkerOptions
from tickwork.worker.sources import LeaseSource


class WorldClock(HandClock):
    """The world's time: waiting moves it, and lets `meanwhile` happen."""

    def __init__(self, world: World, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._world, self._meanwhile, self._is_waiting = world, meanwhile, False

    def now_s(self) -> float:
        return self._world.at_ms / SECOND_MS

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self._world.at_ms += int(seconds * SECOND_MS)
        if not self._is_waiting:
            self._is_waiting = True
            self._meanwhile()
            self._is_waiting = False
        return event.is_set()


class WorldClient:
    """The API of a world, as the client of the SDK shows it; `fails` may raise in place of an answer."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.calls: list[tuple[str, Any]] = []
        self.fails: Callable[[str], object] = lambda _: None

    def post(self, path: str, body: Any, **_: Any) -> Any:
        self.calls.append((path, body))
        self.fails(path)
        json.dumps(body, allow_nan=False).encode()
        answer = self._world.ask("POST", path, body)
        if answer.status >= 500:
            raise ApiUnreachable(str(answer.body))
        if not answer.is_ok:
            raise ApiRefused(answer.status, answer.body)
        return answer.body

    def of(self, path: str) -> list[Any]:
        return [body for called, body in self.calls if called == path]


class SdkWorker:
    """A worker of an App; `turn` takes what is there, calls the functions, and reports until nothing is left to."""

    def __init__(self, world: World, app: App, *, lease_s: int = 60, concurrency: int = 4) -> None:
        self.api = WorldClient(world)
        self.clock = WorldClock(world, self._beat)
        stopping = threading.Event()
        source = LeaseSource(
            pool="default",
            worker="sdk",
            api=self.api,  # type: ignore[arg-type]
            stopping=stopping,
            clock=self.clock,
            lease_s=lease_s,
            wait_s=0,
            handlers=app.names,
        )
        options = WorkerOptions(concurrency)
        self.worker = Worker(app, source, self.api, options, stopping, self.clock)  # type: ignore[arg-type]

    def turn(self) -> None:
        begun: list[Callable[[], object]] = []
        self.worker.take_and_run(lambda function, delivery: begun.append(partial(function, delivery)))
        for work_off in begun:  # in threads of their own: a signal for one that has ended must not reach this one
            thread = threading.Thread(target=work_off)
            thread.start()
            thread.join()
        completer = self.worker._completer
        while not completer._ended.empty():
            first = completer._ended.get()
            assert first is not None
            completer.work_off(completer._gather(first))

    def _beat(self) -> None:
        self.worker._beats.step()
