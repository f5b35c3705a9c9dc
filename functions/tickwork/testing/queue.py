"""Simulated queues: delays, visibility, redelivery, at-least-once, any order.

A queue delivers: when a message becomes visible, its consumer is started with it; or it is pulled from: then its
consumer is told that there is something, and takes it. What the consumer does not delete comes back after the
visibility timeout. `SimSender` and `SimReceiver` are what one process sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import batched
from typing import TYPE_CHECKING

from tickwork.core.errors import InvariantViolated, WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.queues import Queue
from tickwork.core.texts import is_carried
from tickwork.ports import TICKS_QUEUE, InMessage, OutMessage, SendReport

if TYPE_CHECKING:
    from tickwork.testing.process import Process
    from tickwork.testing.world import SimWorld

_BATCH_MAX = 10
_DELIVERY_MS = 300
"""A message is delivered up to this late even on a good day, which reorders messages."""
_LATE_MS = 60_000
_NO_CONSUMER_MS = 1_000
_HIDDEN_S_MAX = 43_200
"""SQS refuses more than twelve hours."""


@dataclass(slots=True)
class Message:
    id: int
    body: str
    visible_at_ms: int
    sent_at_ms: int
    receives: int = 0

    @property
    def received(self) -> InMessage:
        return InMessage(str(self.id), self.body, self.receives)


class SimQueue:
    """One queue. `consumer` gets the messages of a delivery (none, where it is `pulled` from); nobody is there before
    `served_from_ms`, and nothing is taken in before `refuses_until_ms`. What is older than its retention is gone."""

    def __init__(
        self,
        world: SimWorld,
        queue: Queue,
        consumer: Callable[[list[Message]], None],
        batch_max: int,
        *,
        pulled: bool = False,
    ) -> None:
        self.world = world
        self.name = queue.name
        self.pulled = pulled
        self.takers: list[Callable[[], None]] = []
        self.retention_ms = queue.retention_s * SECOND_MS
        self.visibility_ms = queue.visibility_s * SECOND_MS
        self.receives_max = queue.receives_max
        self.consumer = consumer
        self.batch_max = batch_max
        self.messages: dict[int, Message] = {}
        self.served_from_ms = 0
        self.refuses_until_ms = 0
        self.gathers_ms = 0
        """Messages are delivered at multiples of this only, and so in batches."""
        self._ids = 0

    def put(self, body: str, delay_ms: int) -> None:
        """A message is in the queue, visible after the delay and a little later than that."""
        world = self.world
        self._ids += 1
        visible_at_ms = world.kernel.now_ms + delay_ms + int(world.rng.random() ** 2 * _DELIVERY_MS)
        self.messages[self._ids] = Message(self._ids, body, visible_at_ms, world.kernel.now_ms)
        self._wake(self._ids, visible_at_ms)

    def delete(self, message_id: int) -> None:
        self.messages.pop(message_id, None)

    def delay(self, message_id: int, delay_ms: int) -> None:
        """ChangeMessageVisibility."""
        message = self.messages.get(message_id)
        if message is not None:
            message.visible_at_ms = self.world.kernel.now_ms + delay_ms
            self._wake(message_id, message.visible_at_ms)

    def _wake(self, message_id: int, when_ms: int) -> None:
        when_ms += -when_ms % self.gathers_ms if self.gathers_ms else 0
        self.world.kernel.at(when_ms, lambda: self._deliver(message_id))

    def take(self, limit: int, hide_ms: int) -> list[Message]:
        """ReceiveMessage: up to so many that are visible now, hidden from now on."""
        now_ms = self.world.kernel.now_ms
        if now_ms < self.served_from_ms:
            return []
        batch = [message for message in self.messages.values() if message.visible_at_ms <= now_ms][:limit]
        return self._received(batch, hide_ms)

    def _deliver(self, message_id: int) -> None:
        now_ms = self.world.kernel.now_ms
        if now_ms < self.served_from_ms:
            if message_id in self.messages:
                self._wake(message_id, self.served_from_ms + _NO_CONSUMER_MS)
            return
        batch = [m for m in (self.messages.get(message_id),) if m is not None and m.visible_at_ms <= now_ms]
        if not batch:
            return
        if self.pulled:
            self._call_takers()
            return
        if self.batch_max > 1:
            batch += [m for m in self.messages.values() if m.visible_at_ms <= now_ms and m.id != message_id]
            del batch[self.batch_max :]
        batch = self._received(batch, self.visibility_ms)
        if batch:
            self.consumer(batch)

    def _call_takers(self) -> None:
        if not self.takers:
            self.consumer([])
        for wake in self.takers:
            wake()

    def _received(self, batch: Sequence[Message], hide_ms: int) -> list[Message]:
        """The messages that are handed out, each hidden and counted; what is too old, or was received too often, is
        gone."""
        now_ms = self.world.kernel.now_ms
        handed = []
        for message in batch:
            if now_ms - message.sent_at_ms > self.retention_ms:
                self.world.seen["message outlived its queue"] += 1
                del self.messages[message.id]
                continue
            message.receives += 1
            message.visible_at_ms = now_ms + hide_ms
            if message.receives > self.receives_max:
                del self.messages[message.id]
            else:
                self._wake(message.id, message.visible_at_ms)
            handed.append(message)
        return handed


class SimSender:
    """A `ports.Sender` as one process sees it: batches of ten, each a call that may fail in part. `ticks_failed`: of
    how many ticks it was told that the queue did not take them."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.ticks_failed = 0

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        failed: list[int] = []
        refused: list[tuple[int, str]] = []
        target = self._process.world.queues[queue]
        if queue in self._process.world.broken.closed:
            return self._process.call(f"send {queue}", messages, partial(self._refused_all, messages))
        for batch in batched(enumerate(messages), _BATCH_MAX):
            try:
                report = self._process.call(
                    f"send {queue}", [message for _, message in batch], partial(self._send, target, batch)
                )
            except WorldError:  # the adapter reports a throttle or a lost connection as failed
                failed += [index for index, _ in batch]
                continue
            failed += report.failed
            refused += report.refused
        if queue == TICKS_QUEUE:
            self.ticks_failed += len(failed)
        return SendReport(tuple(failed), tuple(refused))

    def _send(self, target: SimQueue, batch: Sequence[tuple[int, OutMessage]]) -> SendReport:
        failed: list[int] = []
        refused: list[tuple[int, str]] = []
        world = self._process.world
        faults, rng = world.faults, world.rng
        ticks = target.name == TICKS_QUEUE
        down = world.kernel.now_ms < target.refuses_until_ms or world.broken.takes_nothing(target.name)
        for index, message in batch:
            if down or faults.strikes(rng, "send_failed"):
                world.seen["send_failed"] += 1
                failed.append(index)
                continue
            if not is_carried(message.body) or (not ticks and faults.strikes(rng, "send_refused")):
                world.seen["send_refused"] += 1
                world.checks.refused(message.body)
                refused.append((index, "simulated"))
                continue
            self._accept(target, message, "tick" if ticks else "message")
            if faults.strikes(rng, "send_failed_but_sent"):
                world.seen["send_failed_but_sent"] += 1
                failed.append(index)
        return SendReport(tuple(failed), tuple(refused))

    def _refused_all(self, messages: Sequence[OutMessage]) -> SendReport:
        """There is no such queue. A window sets aside what was for it; a creator has its caller told by the alarm."""
        world = self._process.world
        world.seen["queue not there"] += 1
        world.checks.turned_away(self._process, [message.body for message in messages])
        return SendReport(tuple(range(len(messages))), why="simulated: there is no such queue", closed=True)

    def _accept(self, target: SimQueue, message: OutMessage, what: str) -> None:
        world = self._process.world
        faults, rng = world.faults, world.rng
        delay_ms = message.delay_s * 1_000
        if what == "tick":
            world.checks.ticked(message.body)
        else:
            world.checks.sent(self._process, message.body, world.kernel.now_ms + delay_ms)
        if faults.strikes(rng, f"{what}_lost"):
            world.seen[f"{what}_lost"] += 1
            return
        if faults.strikes(rng, f"{what}_late"):
            world.seen[f"{what}_late"] += 1
            delay_ms += rng.randrange(_LATE_MS)
        target.put(message.body, delay_ms)
        if faults.strikes(rng, f"{what}_doubled"):
            world.seen[f"{what}_doubled"] += 1
            target.put(message.body, delay_ms + rng.randrange(_LATE_MS))


class SimReceiver:
    """A `ports.Receiver` as one process sees it: a long poll parks."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
        world, source = self._process.world, self._process.world.queues[queue]

        def effect() -> list[Message]:
            found = source.take(limit, hide_s * SECOND_MS)
            if not found and wait_s and world.kernel.wait(source.takers, wait_s * SECOND_MS):
                found = source.take(limit, hide_s * SECOND_MS)
            return found

        found = self._process.call(f"receive {queue}", limit, effect)
        return [message.received for message in found]

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        source = self._process.world.queues[queue]
        if not 0 <= seconds <= _HIDDEN_S_MAX:
            raise InvariantViolated(f"a message can be hidden for 0 to {_HIDDEN_S_MAX} s, not for {seconds}")
        self._process.world.checks.hidden(self._process, queue, seconds)
        self._process.call("hide", (queue, receipt, seconds), lambda: source.delay(int(receipt), seconds * SECOND_MS))

    def delete(self, queue: str, receipt: str) -> None:
        source, observer = self._process.world.queues[queue], self._process.world.checks

        def effect() -> None:
            if (message := source.messages.get(int(receipt))) is not None:
                observer.given_up(self._process, queue, message.body)
            source.delete(int(receipt))

        self._process.call("delete message", (queue, receipt), effect)
