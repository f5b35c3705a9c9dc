"""Queues at scale, and who serves them: the event source that wakes scanners, and the workers of a pool.

Messages become visible when their delay is over, are taken in batches of ten, and count as in flight until they are
deleted or come back. Nothing is lost or doubled here.
"""

from __future__ import annotations

import json
import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.scale import figures
from benchmarks.scale.process import ScaleProcess, TimedOut
from tickwork.aws.sqs import BATCH_MESSAGES_MAX
from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.queues import Queue
from tickwork.core.runs.attempts import Declined, StartRequest
from tickwork.flows.runs import worker_calls

if TYPE_CHECKING:
    from benchmarks.scale.world import ScaleWorld

_POLL_MS = 20
"""What becomes visible within one poll goes into one batch."""
_TRIES_MAX = 5


@dataclass(slots=True)
class Message:
    id: int
    body: str
    content: dict[str, Any] = field(default_factory=dict)
    """Of a ready message: its body, read."""
    group: str | None = None
    """Whose it is, where it says so."""


class ScaleQueue:
    """One queue. `consumer` is told when something can be taken; `seen` is shown each message as it comes in."""

    def __init__(self, world: ScaleWorld, queue: Queue, seen: Callable[[Message], None] | None = None) -> None:
        self._world = world
        self._visibility_ms = queue.visibility_s * SECOND_MS
        self._seen = seen
        self.consumer: Callable[[], None] = lambda: None
        self._waiting: dict[str | None, deque[Message]] = {None: deque()}
        self._in_flight: Counter[str | None] = Counter()
        self.received: dict[int, Message] = {}
        self.in_flight_peak = 0
        self.sent = 0
        self._polled = False

    @property
    def waiting(self) -> int:
        """How many are visible."""
        return sum(map(len, self._waiting.values()))

    def put(self, body: str, delay_ms: int, group: str | None = None) -> None:
        self.sent += 1
        message = Message(self.sent, body, group=group)
        if self._seen is not None:
            self._seen(message)
        self._show(message, delay_ms)

    def take(self, limit: int) -> list[Message]:
        """Up to `limit` visible messages, if so many more may be in flight."""
        room = self._world.limits.in_flight - len(self.received)
        taken: list[Message] = []
        while len(taken) < min(limit, room) and (line := self._next_line()) is not None:
            message = line.popleft()
            taken.append(message)
            self.received[message.id] = message
            self._in_flight[message.group] += 1
        self.in_flight_peak = max(self.in_flight_peak, len(self.received))
        return taken

    def _next_line(self) -> deque[Message] | None:
        """The oldest message is taken first, but those of noisy groups behind all others (figures)."""
        lines = [(self._is_noisy(group), line[0].id, line) for group, line in self._waiting.items() if line]
        return min(lines, key=lambda one: one[:2])[2] if lines else None

    def _is_noisy(self, group: str | None) -> bool:
        mine = self._in_flight[group]
        return group is not None and mine >= figures.NOISY_MIN and mine > figures.NOISY_SHARE * len(self.received)

    def _back(self, message_id: int) -> Message | None:
        """A message that is not in flight any more."""
        message = self.received.pop(message_id, None)
        if message is not None:
            self._in_flight[message.group] -= 1
        return message

    def delete(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._back(message.id)

    def delay(self, message_id: int, delay_ms: int) -> None:
        """ChangeMessageVisibility."""
        message = self._back(message_id)
        assert message is not None
        self._show(message, delay_ms)

    def give_up(self, messages: Sequence[Message]) -> None:
        """Whoever took these says no more of them: they come back when their visibility is over."""
        for message in messages:
            if message.id in self.received:
                self.delay(message.id, self._visibility_ms)

    def _show(self, message: Message, delay_ms: int) -> None:
        self._world.kernel.at(self._world.kernel.now_ms + delay_ms, partial(self._visible, message))

    def _visible(self, message: Message) -> None:
        self._waiting.setdefault(message.group, deque()).append(message)
        if not self._polled:
            self._polled = True
            self._world.kernel.at(self._world.kernel.now_ms + _POLL_MS, self._poll)

    def _poll(self) -> None:
        self._polled = False
        self.consumer()


class Function:
    """The environments of one Lambda function: how many are busy, and which start cold."""

    def __init__(self, world: ScaleWorld, timeout_s: int, memory_mb: int) -> None:
        self._world = world
        self._vcpu = memory_mb / figures.VCPU_MB
        self._timeout_ms = timeout_s * SECOND_MS
        self.running = self.peak = self.timed_out = 0
        self.busy_ms = self.longest_ms = 0
        self._warm = 0

    def invoke(self, wait_ms: float, body: Callable[[ScaleProcess], None]) -> None:
        """Run a body in an environment, after a wait, and longer when it must be made first."""
        self.running += 1
        self.peak = max(self.peak, self.running)
        if self._warm:
            self._warm -= 1
        else:
            wait_ms += figures.COLD_START.draw(self._world.rng)
        kernel = self._world.kernel
        run = partial(self._run, body)
        begin = partial(ScaleProcess, self._world, run, vcpu=self._vcpu, timeout_ms=self._timeout_ms)
        kernel.at(kernel.now_ms + math.ceil(wait_ms), begin)

    def _run(self, body: Callable[[ScaleProcess], None], process: ScaleProcess) -> None:
        began_ms = self._world.kernel.now_ms
        try:
            body(process)
        except TimedOut:
            self.timed_out += 1
        took_ms = self._world.kernel.now_ms - began_ms
        self.busy_ms += took_ms
        self.longest_ms = max(self.longest_ms, took_ms)
        self.running -= 1
        self._warm += 1


class EventSource:
    """Feeds a function from a queue, batch by batch. While messages wait, it adds pollers as slowly as Lambda does."""

    def __init__(
        self,
        world: ScaleWorld,
        queue: ScaleQueue,
        function: Function,
        serve: Callable[[ScaleProcess, list[Message]], None],
        *,
        batch_max: int,
        concurrency_max: int,
    ) -> None:
        self._world, self._queue, self._function, self._serve = world, queue, function, serve
        self._batch_max = batch_max
        self._max = min(concurrency_max, world.limits.pollers_max)
        self._pollers = float(world.limits.pollers_first)
        queue.consumer = self.pump
        world.kernel.at(world.kernel.now_ms + SECOND_MS, self._grow)

    def _grow(self) -> None:
        if self._queue.waiting:
            self._pollers = min(self._max, self._pollers + self._world.limits.pollers_per_s)
            self.pump()
        self._world.kernel.at(self._world.kernel.now_ms + SECOND_MS, self._grow)

    def pump(self) -> None:
        while self._queue.waiting and self._function.running < min(self._max, int(self._pollers)):
            batch = self._queue.take(self._batch_max)
            if not batch:
                return
            delivery_ms = figures.TICK_DELIVERY.draw(self._world.rng)
            self._function.invoke(delivery_ms, partial(self._run, batch))

    def _run(self, batch: list[Message], process: ScaleProcess) -> None:
        kernel = self._world.kernel
        try:
            self._serve(process, batch)
        finally:
            self._queue.give_up(batch)
            kernel.at(kernel.now_ms, self.pump)


class Workers:
    """The workers of a pool, each with ten messages at a time: start them, work, complete them, delete them."""

    def __init__(self, world: ScaleWorld, queue: ScaleQueue, count: int, job_ms: int) -> None:
        self._world, self._queue = world, queue
        self._idle = count
        self._job_ms = job_ms
        self.busy_peak = self._busy = 0
        queue.consumer = self._pump

    def _pump(self) -> None:
        while self._queue.waiting and self._idle:
            batch = self._queue.take(BATCH_MESSAGES_MAX)
            if not batch:
                return
            self._idle -= 1
            self._busy += 1
            self.busy_peak = max(self.busy_peak, self._busy)
            received_ms = self._world.kernel.now_ms + math.ceil(figures.SQS_CALL.draw(self._world.rng))
            self._world.kernel.at(received_ms, partial(ScaleProcess, self._world, partial(self._work, batch)))

    def _work(self, batch: list[Message], process: ScaleProcess) -> None:
        while batch:
            granted = [(m, started) for m in batch if (started := self._start(process, m)) is not None]
            process.spend(self._job_ms)
            ended = [message for message, started in granted if self._complete(process, started)]
            process.call("delete", ended, partial(self._queue.delete, ended))
            self._queue.give_up(batch)
            batch = self._queue.take(BATCH_MESSAGES_MAX)
            if batch:
                process.spend(figures.SQS_CALL.draw(self._world.rng), figures.CALL_CPU_MS)
        self._idle += 1
        self._busy -= 1

    def _start(self, process: ScaleProcess, message: Message) -> worker_calls.Started | None:
        body = message.content
        request = StartRequest(
            parse_ref(body["ref"]),
            process.ports.ids.unique(),
            "worker",
            int(body["lease_s"]),
            int(body["attempt"]),
            None,
            int(body["dispatched_at_ms"]),
            str(body["dispatched_by"]),
        )
        started = self._patiently(lambda: worker_calls.start(process.ports, request), process)
        if isinstance(started, Declined):
            self._world.seen["declined"] += 1
            if started.discard:
                self._queue.delete([message])
            return None
        if started is not None:
            self._world.started(message)
        return started

    def _complete(self, process: ScaleProcess, started: worker_calls.Started) -> bool:
        key, token = started.run.key, started.run.token
        ended = self._patiently(lambda: worker_calls.complete(process.ports, key, token), process)
        self._world.seen["completed"] += ended is not None and not isinstance(ended, Declined)
        return ended is not None

    def _patiently[T](self, call: Callable[[], T], process: ScaleProcess) -> T | None:
        """The call's answer, or None when the service was busy each time: the message comes back by itself."""
        for _ in range(_TRIES_MAX):
            try:
                return call()
            except WorldError:
                self._world.seen["worker was told to wait"] += 1
                process.spend(SECOND_MS)
        return None


def read_body(message: Message) -> None:
    message.content = json.loads(message.body)
