"""What simulated processes, queues and stores need of the world around them: a test that runs them provides this."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from tickwork.core.ledger.tables import Table
from tickwork.core.ledger.writes import Item
from tickwork.ports import Layout, Remembered
from tickwork.testing.broken import Broken
from tickwork.testing.faults import Faults
from tickwork.testing.kernel import Kernel
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tickwork.testing.process import Process
    from tickwork.testing.queue import SimQueue
    from tickwork.testing.store import Change, WatchedStore


class Observer(Protocol):
    """Hears of every write that took effect and of every message as it leaves. What it raises ends the history."""

    def committed(self, process: Process, changes: tuple[Change, ...]) -> None: ...

    def sent(self, process: Process, body: str, visible_at_ms: int) -> None: ...

    def refused(self, body: str) -> None: ...

    def ticked(self, body: str) -> None: ...

    def read(self, process: Process, partition: str, first: str, last: str) -> None: ...

    def looked_at(self, process: Process, table: Table, items: list[Item]) -> None: ...

    def turned_away(self, process: Process, bodies: list[str]) -> None: ...

    def hidden(self, process: Process, queue: str, seconds: int) -> None: ...

    def scanned(self, process: Process, table: Table, more: Item | None) -> None: ...

    def given_up(self, process: Process, queue: str, body: str) -> None: ...


type Measured = tuple[int, str, float, dict[str, str]]
"""When (true time), which metric, how much, with which labels."""


class SimWorld(Protocol):
    """Everything of one seed. `seen` counts outcomes; `timeline` and `metrics` are None where nobody wants to read
    them. `broken`: the parts that answer nothing for a while. `host_skews_seen_ms`: how wrong each host's clock has
    been so far."""

    seed: int
    rng: Random
    kernel: Kernel
    faults: Faults
    broken: Broken
    tables: WatchedStore
    seen: Counter[str]
    timeline: list[Any] | None
    metrics: list[Measured] | None
    host_skews_ms: list[int]
    host_skews_seen_ms: list[set[int]]
    slices_seen: list[set[str]]
    registries: list[dict[tuple[str, str], Remembered]]
    port_calls: int
    processes: int
    ids: int

    @property
    def layout(self) -> Layout: ...

    @property
    def queues(self) -> dict[str, SimQueue]: ...

    @property
    def checks(self) -> Observer: ...

    def fail(self, violation: Violation, cause: BaseException | None = None) -> None: ...

    def trace(self, who: str, what: str, detail: object, result: object = None) -> None: ...
