"""A process at scale: an invocation of a Lambda, or a worker. It neither crashes nor pauses; it only takes its time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from greenlet import greenlet

from benchmarks.scale import figures
from benchmarks.scale.ports import ScaleReceiver, ScaleSender, ScaleStore
from tickwork.aws.sqs import SENDS_AT_ONCE
from tickwork.flows.dispatch.tick_batches import Window
from tickwork.ports import Ports
from tickwork.testing.ports import SimIds

if TYPE_CHECKING:
    from benchmarks.scale.world import ScaleWorld


class TimedOut(BaseException):
    """The function's time is over, and with it the process."""


class ScaleProcess:
    """Runs a body at once, in a greenlet of its own, on a share of a vCPU. What the body raises ends the run."""

    __slots__ = ("_computed_ms", "_ends_ms", "_vcpu", "ports", "world")

    def __init__(
        self,
        world: ScaleWorld,
        body: Callable[[ScaleProcess], None],
        *,
        vcpu: float = 1.0,
        timeout_ms: int | None = None,
    ) -> None:
        self.world = world
        self._vcpu = vcpu
        self._ends_ms = math.inf if timeout_ms is None else world.kernel.now_ms + timeout_ms
        self._computed_ms = 0.0
        self.ports = Ports(
            clock=ScaleClock(self),
            store=ScaleStore(self),
            sender=ScaleSender(self, SENDS_AT_ONCE),
            signals=ScaleSignals(world.seen),
            ids=SimIds(world),
            layout=world.layout,
            receiver=ScaleReceiver(self),
            slices_seen=world.slices_seen,
        )
        greenlet(body).switch(self)

    def spend(self, wait_ms: float, cpu_ms: float = 0.0) -> None:
        """Park for as long as a call computes and then waits."""
        self.park_until(self.compute(cpu_ms) + wait_ms)

    def park_until(self, when_ms: float) -> None:
        kernel = self.world.kernel
        kernel.park(max(0, math.ceil(when_ms) - kernel.now_ms))
        if kernel.now_ms >= self._ends_ms:
            raise TimedOut

    def compute(self, cpu_ms: float) -> float:
        """When so much computing is done: the calls of one process, side by side or not, share its CPU."""
        began_ms = max(self._computed_ms, self.world.kernel.now_ms)
        self._computed_ms = began_ms + cpu_ms / self._vcpu
        return self._computed_ms

    def side_by_side(self, windows: Sequence[Window]) -> list[int | None]:
        """What threads do in the function."""
        answers: list[int | None] = [None] * len(windows)

        def answer(index: int) -> None:
            with suppress(TimedOut):
                answers[index] = windows[index]()

        self.world.kernel.side_by_side([partial(answer, index) for index in range(len(windows))])
        self.park_until(0)
        return answers

    def call[T](self, verb: str, detail: object, effect: Callable[[], T]) -> T:  # noqa: ARG002
        """A call to SQS."""
        self.spend(figures.SQS_CALL.draw(self.world.rng), figures.CALL_CPU_MS)
        return effect()


class ScaleClock:
    """True time, for everybody."""

    def __init__(self, process: ScaleProcess) -> None:
        self._process, self._kernel = process, process.world.kernel

    def now_ms(self) -> int:
        return self._kernel.now_ms

    def monotonic_ms(self) -> int:
        return self._kernel.now_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self._process.park_until(self._kernel.now_ms + duration_ms)


class ScaleSignals:
    """Counts what the service says of itself."""

    def __init__(self, seen: Counter[str]) -> None:
        self._seen = seen

    def count(self, metric: str, n: int = 1, **labels: str) -> None:
        self._seen[f"{metric} {labels['outcome']}" if "outcome" in labels else metric] += n

    def observe(self, metric: str, value: float, **labels: str) -> None:
        pass

    def log(self, action: str, **facts: object) -> None:  # noqa: ARG002
        self._seen[action] += 1
