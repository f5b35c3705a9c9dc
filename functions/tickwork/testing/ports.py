"""The ports of one simulated process. Clock, ids and signals are here; the store and the queues in their own modules.

Reading a clock does not park: time passes at the calls around it, which is where a real process loses it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tickwork.core.ids import stable_hash
from tickwork.ports import Ports
from tickwork.testing.queue import SimReceiver, SimSender
from tickwork.testing.store import SimStore

if TYPE_CHECKING:
    from tickwork.testing.process import Process


class SimClock:
    """A process's clocks. Sleeping parks."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        return self._process.now_ms()

    def monotonic_ms(self) -> int:
        return self._process.monotonic_ms()

    def sleep_ms(self, duration_ms: int) -> None:
        self._process.world.kernel.park(duration_ms)


class Numbering(Protocol):
    """A world that counts the ids it has given out."""

    seed: int
    ids: int


class SimIds:
    """Ids that differ, and are the same in each replay."""

    def __init__(self, world: Numbering) -> None:
        self._world = world

    def unique(self) -> str:
        self._world.ids += 1
        return f"{stable_hash(f'{self._world.seed}|{self._world.ids}'):020x}"


class SimSignals:
    """Counts what the service says of itself, as coverage, and keeps its metrics with their instants where somebody
    wants them (an evaluator of alarms). Judges nothing by it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._seen = process.world.seen

    def count(self, metric: str, n: int = 1, **labels: str) -> None:
        self._seen[f"{metric}{_label(labels)}"] += n
        self._keep(metric, n, labels)

    def observe(self, metric: str, value: float, **labels: str) -> None:
        self._keep(metric, value, labels)

    def _keep(self, metric: str, value: float, labels: dict[str, str]) -> None:
        world = self._process.world
        if world.metrics is not None:
            world.metrics.append((world.kernel.now_ms, metric, value, labels))

    def log(self, action: str, **facts: object) -> None:
        world = self._process.world
        outcome = facts.get("outcome")
        self._seen[action] += 1
        world.trace(self._process.name, action, facts)
        if action == "window_failed" or outcome in ("fenced", "unsure"):
            self._process.gave_up = True


def _label(labels: dict[str, str]) -> str:
    return "".join(f" {labels[name]}" for name in ("error", "reason", "outcome") if name in labels)


def sim_ports(process: Process) -> Ports:
    """Everything a flow may reach, as this process sees it."""
    return Ports(
        clock=SimClock(process),
        store=SimStore(process, process.world.tables),
        sender=SimSender(process),
        receiver=SimReceiver(process),
        signals=SimSignals(process),
        ids=SimIds(process.world),
        layout=process.world.layout,
        slices_seen=process.world.slices_seen[process.host],
        # Where there are cells, what one process has read of placements the next of its host goes by for a while.
        registry=process.world.registries[process.host] if process.world.layout.others else {},
    )
