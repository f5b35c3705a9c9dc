"""The pools of a world and who works for each: a second worker written for the simulator, the pusher, and the
production worker in its three forms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.simulator import servers, workers
from tests.simulator.elements import DOWN_HOST, LAMBDA_POOL, LEASED_POOL, REAL_POOL
from tests.simulator.tight import GATHERED, GATHERS_MS
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import queues
from tickwork.flows.runs import pushing
from tickwork.flows.runs.pushing import Pusher
from tickwork.ports import PUSH_POOL, InMessage
from tickwork.testing.process import Process
from tickwork.testing.queue import Message, SimQueue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulator.world import World
    from tickwork.core.runs.push_targets import Target
    from tickwork.core.runs.pushes import Answer as PushAnswer

_FORGETS_AFTER_MS = 150 * SECOND_MS
_LAMBDA_BATCH = 3
_DOWN_SHARE = 0.15


def make_queues(world: World) -> dict[str, SimQueue]:
    """The queues of the world, by name."""
    made = [SimQueue(world, queues.TICKS, partial(servers.scan, world), queues.TICKS_PER_BATCH)]
    made += [_ready(world, pool) for pool in world.pools]
    made[0].gathers_ms = GATHERS_MS if GATHERED in world.tight else 0
    if "queue_forgets" in world.classes:
        for queue in made[1:]:
            queue.retention_ms = _FORGETS_AFTER_MS
    return {queue.name: queue for queue in made}


def _ready(world: World, pool: str) -> SimQueue:
    queue = queues.ready(pool)
    match pool:
        case "push":
            return SimQueue(world, queue, partial(push, world), 1)
        case "real" | "leased":
            return SimQueue(world, queue, lambda _: workers.call_somebody(world, pool), 1, pulled=True)
        case "lambda":
            return SimQueue(world, queue, partial(workers.invoke_lambda, world), _LAMBDA_BATCH)
    return SimQueue(world, queue, partial(servers.work, world, queue.name), 1)


assert {"push", "real", "leased", "lambda"} == {PUSH_POOL, REAL_POOL, LEASED_POOL, LAMBDA_POOL}


class SimPoster:
    """Push targets: mostly well, sometimes down, slow or full of complaints."""

    def __init__(self, process: Process, world: World) -> None:
        self._process, self._world = process, world

    def post(self, target: Target, body: bytes, headers: Mapping[str, str], *, timeout_ms: int) -> PushAnswer:
        from tickwork.core.runs.pushes import Answer

        rng = self._world.apart
        drawn = 1.0 if self._world.faults.off else rng.random()
        took_ms = timeout_ms if drawn < _DOWN_SHARE / 3 else rng.randint(5, 2_000)
        self._process.ports.clock.sleep_ms(took_ms)
        self._world.seen["pushed"] += 1
        if self._is_down(target):
            return Answer(503)
        if drawn < _DOWN_SHARE / 3:
            return Answer(0, error_class="TimedOut", detail="nothing came")
        if drawn < _DOWN_SHARE:
            return Answer(503, retry_after=rng.choice(("", "7", "Wed, 01 Jan 2020 00:00:00 GMT")))
        if drawn < _DOWN_SHARE * 1.3:
            return Answer(rng.choice((400, 404, 429)))
        return Answer(204)

    def _is_down(self, target: Target) -> bool:
        """One of the targets is down for the first half of the safety phase, in worlds with faults."""
        shape = self._world.shape
        is_early = self._world.kernel.now_ms < shape.start_ms + shape.safety_ms // 2
        return is_early and target.host == DOWN_HOST and bool(self._world.classes)


def push(world: World, messages: list[Message]) -> None:
    """One invocation of the pusher; the event source deletes what may go."""
    queue = world.queues[queues.ready_queue(PUSH_POOL)]

    def body(process: Process) -> None:
        pusher = Pusher(SimPoster(process, world), ("secret",))
        batch = {str(message.id): InMessage(str(message.id), message.body) for message in messages}
        world.checks.ledger.carries(process, messages[0].body)
        kept = pushing.push_batch(process.ports, pusher, PUSH_POOL, batch)
        if kept:
            process.gave_up = True
        else:
            world.checks.answered(process)
        for message in messages:
            if str(message.id) not in kept:
                world.checks.ledger.given_up(process, message.body)
                queue.delete(message.id)

    Process(world, "pusher", body)
