"""A ready queue in memory, on a world's clock: a `ports.Receiver` over what its outbox has sent."""

from __future__ import annotations

from collections import Counter

from tests.support.runs_world import World
from tickwork.core.errors import Throttled
from tickwork.ports import InMessage


class WorldQueue:
    """What was sent, until when each message is hidden, and which are gone. `busy` makes it throttle."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hidden_until_ms: dict[str, int] = {}
        self.gone: set[str] = set()
        self.receives: Counter[str] = Counter()
        self.busy = False

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
        found: list[InMessage] = []
        for number, (name, message) in enumerate(self.world.outbox.sent):
            handle = f"handle/{number}=="
            visible = self.hidden_until_ms.get(handle, 0) <= self.world.clock.at_ms
            if name == queue and visible and handle not in self.gone and len(found) < limit:
                self.receives[handle] += 1
                found.append(InMessage(handle, message.body, self.receives[handle]))
                self.hide(queue, handle, hide_s)
        return found

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        if self.busy:
            raise Throttled("slow down")
        self.hidden_until_ms[receipt] = self.world.clock.at_ms + seconds * 1_000

    def delete(self, queue: str, receipt: str) -> None:
        if self.busy:
            raise Throttled("slow down")
        self.gone.add(receipt)
