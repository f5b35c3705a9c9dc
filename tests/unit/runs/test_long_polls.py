"""Waiting for work over HTTP: bounded in time by the layout, bounded in number by who answers few at a time."""

from __future__ import annotations

import json
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from tests.support.fakes import FakeClock, fake_ports
from tests.support.http import ApiUnderTest

from tickwork.api.app import build_app
from tickwork.local.long_polls import FewLongPolls
from tickwork.local.server import LONG_POLLS, RESOLVERS, serve
from tickwork.ports import InMessage, Layout, NoReceiver, Ports
from tickwork.worker.clock import WorkerClock
from tickwork.worker.sources import LeaseSource

LEASE = "/pools/default:lease"


class EmptyQueue(NoReceiver):
    """Nothing comes; `waits` are the seconds that each call was willing to wait, which pass on the clock."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock, self.waits = clock, list[int]()

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
        self.waits.append(wait_s)
        self._clock.at_ms += wait_s * 1_000
        return []


def ports_with(queue: Any, **layout: Any) -> Ports:
    return replace(fake_ports(layout=Layout(**layout)), receiver=queue)


def lease(ports: Ports, wait_s: int) -> dict[str, Any]:
    status, answer = ApiUnderTest(ports).call("POST", LEASE, {"worker": "w", "wait_s": wait_s})
    assert status == 200
    return dict(answer)


@pytest.mark.parametrize(("asked", "waited"), [(0, 0), (3, 3), (5, 5), (20, 5)])
def test_nobody_waits_longer_than_the_layout_allows(asked: int, waited: int) -> None:
    ports = fake_ports()
    queue = EmptyQueue(ports.clock)  # type: ignore[arg-type]
    assert lease(replace(ports, receiver=queue), asked)["runs"] == []
    assert queue.waits == [waited]


def test_who_may_not_wait_is_told_to_come_again_after_the_rest_of_it() -> None:
    assert lease(ports_with(NoReceiver()), 20) == {"runs": [], "waited_ms": 0, "retry_after_s": 5}
    assert lease(ports_with(NoReceiver()), 0) == {"runs": [], "waited_ms": 0}


class Gate(NoReceiver):
    """Calls that wait do so until it opens. Each is noted, and each that is answered at once."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.waiting, self.at_once = threading.Semaphore(0), threading.Semaphore(0)

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
        if wait_s:
            self.waiting.release()
            assert self.opened.wait(30)
        else:
            self.at_once.release()
        return []


def test_ten_waiting_workers_keep_nobody_else_waiting() -> None:
    gate = Gate()
    ports = ports_with(FewLongPolls(gate, LONG_POLLS))
    server = serve(lambda: build_app(ports), 0)
    url = f"http://127.0.0.1:{server.server_address[1]}"

    def ask(_: int) -> dict[str, Any]:
        request = urllib.request.Request(
            url + LEASE, json.dumps({"worker": "w", "wait_s": 20}).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.load(answer))

    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
    try:
        with ThreadPoolExecutor(10) as workers:
            asking = [workers.submit(ask, n) for n in range(10)]
            for noted in [gate.waiting] * LONG_POLLS + [gate.at_once] * (10 - LONG_POLLS):
                assert noted.acquire(timeout=30)
            # The gate is shut: what is answered now does not wait for those who do.
            with urllib.request.urlopen(url + "/health", timeout=30) as answer:
                assert answer.status == 200
            gate.opened.set()
            assert all(one.result(30)["runs"] == [] for one in asking)
    finally:
        gate.opened.set()
        server.shutdown()
        server.server_close()
    assert RESOLVERS - LONG_POLLS >= RESOLVERS // 2


def test_a_poll_that_ends_makes_room_for_another_also_when_it_fails() -> None:
    class Failing(NoReceiver):
        def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
            if wait_s:
                raise ValueError(str(wait_s))
            return []

    few = FewLongPolls(Failing(), 1)
    for _ in range(3):
        with pytest.raises(ValueError, match="7"):
            few.receive("ready-default", limit=1, wait_s=7, hide_s=60)


class Waits(WorkerClock):
    def __init__(self) -> None:
        self.waited: list[float] = []

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waited.append(seconds)
        return False


@pytest.mark.parametrize(("told", "waited"), [({}, 0), ({"retry_after_s": 4}, 4), ({"retry_after_s": 900}, 10)])
def test_a_worker_waits_by_himself_when_he_was_not_let(told: dict[str, int], waited: int) -> None:
    class Api:
        def post(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {"runs": [], **told}

    clock = Waits()
    source = LeaseSource(
        pool="default",
        worker="w",
        api=Api(),  # type: ignore[arg-type]
        stopping=threading.Event(),
        clock=clock,
        lease_s=60,
        wait_s=10,
    )
    assert source.take(1) == []
    assert sum(clock.waited) == waited
