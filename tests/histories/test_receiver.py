"""The simulated receiver keeps the port's promises, and the swarm's faults strike it as any other call."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulator.world import World
from tickwork.core.errors import Throttled
from tickwork.core.instants import SECOND_MS
from tickwork.ports import Receiver
from tickwork.testing.faults import Faults
from tickwork.testing.process import CRASHED, Process

QUEUE = "ready-default"
WAIT_S = 5
LONG_MS = 60 * SECOND_MS


def _world(**rates: float) -> World:
    """A world in which nobody else serves the queue."""
    world = World(1, faults=Faults(rates))
    queue = world.queues[QUEUE]
    queue.pulled, queue.consumer = True, lambda _: None
    return world


def _as_process(world: World, body: Callable[[Receiver], object], for_ms: int = LONG_MS) -> Process:
    process = Process(world, "consumer", lambda process: body(process.ports.receiver))
    world.kernel.run_until(world.kernel.now_ms + for_ms)
    return process


def _receive(world: World, limit: int = 10, hide_s: int = 30) -> list[str]:
    found: list[str] = []
    _as_process(
        world,
        lambda receiver: found.extend(
            message.body for message in receiver.receive(QUEUE, limit=limit, wait_s=WAIT_S, hide_s=hide_s)
        ),
        for_ms=8 * SECOND_MS,
    )
    return found


def test_a_received_message_is_hidden_for_as_long_as_was_asked_and_comes_back() -> None:
    world = _world()
    world.queues[QUEUE].put("one", 0)
    world.kernel.run_until(world.kernel.now_ms + SECOND_MS)
    assert _receive(world) == ["one"]
    assert _receive(world) == []
    world.kernel.run_until(world.kernel.now_ms + 30 * SECOND_MS)
    assert _receive(world) == ["one"]


def test_no_more_are_received_than_were_asked_for_and_the_first_is_waited_for() -> None:
    world = _world()
    for body in ("one", "two", "three"):
        world.queues[QUEUE].put(body, 0)
    world.kernel.run_until(world.kernel.now_ms + SECOND_MS)
    assert len(_receive(world, limit=2)) == 2
    world.queues[QUEUE].put("four", 12 * SECOND_MS)
    assert len(_receive(world)) == 1
    assert _receive(world) == ["four"]


def test_what_is_deleted_does_not_come_back_and_what_is_shown_comes_at_once() -> None:
    world = _world()
    for body in ("one", "two"):
        world.queues[QUEUE].put(body, 0)
    world.kernel.run_until(world.kernel.now_ms + SECOND_MS)

    def consume(receiver: Receiver) -> None:
        for message in receiver.receive(QUEUE, limit=10, wait_s=0, hide_s=600):
            if message.body == "one":
                receiver.delete(QUEUE, message.receipt)
            else:
                receiver.hide(QUEUE, message.receipt, 0)

    _as_process(world, consume, for_ms=2 * SECOND_MS)
    assert _receive(world) == ["two"]


def test_a_throttled_call_has_no_effect_and_says_so() -> None:
    world = _world(throttle=1.0)
    world.queues[QUEUE].put("one", 0)
    world.kernel.run_until(world.kernel.now_ms + SECOND_MS)
    told: list[str] = []

    def consume(receiver: Receiver) -> None:
        for call in (
            lambda: receiver.receive(QUEUE, limit=1, wait_s=0, hide_s=600),
            lambda: receiver.hide(QUEUE, "1", 600),
            lambda: receiver.delete(QUEUE, "1"),
        ):
            try:
                call()
            except Throttled:
                told.append("throttled")

    _as_process(world, consume)
    world.faults.stop()
    assert told == ["throttled"] * 3
    assert _receive(world) == ["one"]


def test_a_process_that_dies_with_the_reply_leaves_its_messages_hidden() -> None:
    world = _world(crash_after=1.0)
    world.queues[QUEUE].put("one", 0)
    world.kernel.run_until(world.kernel.now_ms + SECOND_MS)
    died = _as_process(
        world, lambda receiver: receiver.receive(QUEUE, limit=1, wait_s=0, hide_s=20), for_ms=2 * SECOND_MS
    )
    world.faults.stop()
    assert died.state == CRASHED
    assert _receive(world) == []
    world.kernel.run_until(world.kernel.now_ms + 20 * SECOND_MS)
    assert _receive(world) == ["one"]
