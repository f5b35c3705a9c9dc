"""One seed's world: draws its shape and its faults, runs the safety phase, then heals and demands convergence.

`World(seed, shape=..., faults=..., parts=...)` makes one by hand: a scenario, a failure of the table in failures.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulator import plan, recovery
from tests.simulator.breakable import with_something_to_break
from tests.simulator.checks import Checks
from tests.simulator.convergence import pending
from tests.simulator.elements import pools_of
from tests.simulator.meddling import Meddler
from tests.simulator.parts import ONLY_BROKEN_SEEDS, PENDING_ISOLATION, Part, draw_parts
from tests.simulator.pools import make_queues
from tests.simulator.shape import CELL, POOL, Shape, draw_shape
from tests.simulator.sizes import WRITES_MIN, turned_down
from tests.simulator.threads import mapped_threads
from tests.simulator.tight import DAY_S, SHORT_DAYS, SMALL_STEPS, STEP_WRITES, draw_tight, tightened
from tests.simulator.vandals import RETENTION_S
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.ledger.tables import CALENDARS, JOBS, TIMERS
from tickwork.testing.broken import Broken
from tickwork.testing.faults import Faults, draw_alone, draw_apart, draw_faults
from tickwork.testing.kernel import Kernel, Livelock
from tickwork.testing.store import WatchedStore
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulator.workers import Session
    from tickwork.ports import Layout, Remembered
    from tickwork.testing.queue import SimQueue
    from tickwork.testing.world import Measured

EPOCH_MS = 1_796_000_400_000
_TICK_EVERY_MS = MINUTE_MS

type Entry = tuple[int, str, str, object, object]


class World:
    """Everything of one seed. `seen` counts outcomes; `timeline` and `metrics` are kept only where they are wanted."""

    def __init__(
        self,
        seed: int,
        *,
        timeline: list[Entry] | None = None,
        metrics: list[Measured] | None = None,
        shape: Shape | None = None,
        faults: Faults | None = None,
        parts: frozenset[str] | None = None,
    ) -> None:
        self.seed = seed
        self.tight = draw_tight(seed) if shape is None else frozenset()
        self.rng = Random(seed)
        self.apart = Random(f"apart {seed}")
        self.shape = shape or draw_shape(self.rng, EPOCH_MS)
        self.faults, self.broken_parts = self._draw_faults() if faults is None else (faults, parts or frozenset())
        if self.broken_parts and shape is None:
            self.shape = with_something_to_break(self.shape, self.broken_parts, self.apart)
        self.classes = frozenset(self.faults.rates) | self.broken_parts
        self.lag_max_ms = 5 * SECOND_MS
        self.kernel = Kernel(self.shape.start_ms)
        self.cell = CELL
        self.broken = Broken()
        self.parts: list[Part] = []
        self.mended: list[Part] = []
        self.off: set[str] = set()
        self.api_down_until_ms = 0
        self.tables = WatchedStore((TIMERS, JOBS, CALENDARS) if "stale_index" in self.classes else (JOBS,))
        if self.shape.page or self._has_herds:
            self.tables.writes_max = WRITES_MIN
        if SMALL_STEPS in self.tight:
            self.tables.writes_max = STEP_WRITES
        self.seen: Counter[str] = Counter()
        self.timeline, self.metrics = timeline, metrics
        self.violation: Violation | None = None
        self.cause: BaseException | None = None
        self.port_calls = self.processes = self.ids = 0
        self.poisoned: set[str] = set()
        self.gone: set[str] = set()
        self.beyond: set[str] = set()
        """What was put where the last audit had passed: with days of some seconds, a repair may come so late."""
        self.fresh: list[str] = []
        self.garbled: dict[str, dict[str, Any]] = {}
        skew_ms = self.faults.skew_max_ms - self.faults.jump_ms
        self.host_skews_ms = [self.rng.randint(-skew_ms, skew_ms) for _ in range(self.shape.hosts)]
        self.host_skews_seen_ms = [{skew_ms} for skew_ms in self.host_skews_ms]
        self.slices_seen: list[set[str]] = [set() for _ in self.host_skews_ms]
        self.registries: list[dict[tuple[str, str], Remembered]] = [{} for _ in self.host_skews_ms]
        self.checks = Checks(self)
        self.meddler = Meddler(self, comes_by=shape is None)
        self.pools = (POOL, *pools_of(self.shape.elements))
        self.sessions: dict[str, Session] = {}
        self.queues: dict[str, SimQueue] = make_queues(self)
        self.tick_every_ms = _TICK_EVERY_MS
        self._layouts = self._with_retention()

    def _draw_faults(self) -> tuple[Faults, frozenset[str]]:
        """The swarm of a seed, and the parts of it that stay broken: in some seeds there is nothing else."""
        faults = draw_apart(self.apart, draw_faults(self.rng))
        faults = draw_alone(self.seed, faults)
        parts = draw_parts(self.apart) if faults.rates else frozenset()
        if parts and self.apart.random() < ONLY_BROKEN_SEEDS:
            faults = Faults({})
        return faults, parts

    def _with_retention(self) -> tuple[Layout, Layout]:
        first, second = self.shape.layouts
        own: dict[str, Any] = {"pools": self.pools}
        if "short_retention" in self.classes:
            own["retention_s"] = RETENTION_S
        return replace(first, **own), replace(second, **own)

    @property
    def layout(self) -> Layout:
        """The layout that a process started now is deployed with."""
        return self._layouts[self.kernel.now_ms >= self.shape.relayout_at_ms]

    def run(self) -> World:
        """The whole history; look at `violation` afterwards."""
        return self._carry_out(self._run)

    def run_for(self, duration_ms: int) -> World:
        """So much of the history, and nothing is healed: for whoever measures a failure."""

        def carry_on() -> None:
            plan.plan(self)
            self.kernel.run_until(self.shape.start_ms + duration_ms)

        return self._carry_out(carry_on)

    def _carry_out(self, history: Callable[[], None]) -> World:
        with turned_down(self.shape.page, herds=self._has_herds), tightened(self.tight), mapped_threads(self):
            try:
                history()
            except Violation as violation:
                self.fail(violation)
            except Livelock as livelock:
                self.fail(Violation("no-livelock", f"{livelock}; {'; '.join(pending(self)[:5])}"))
            self.kernel.stopped = True  # whoever still waits will wait for ever
        return self

    def _run(self) -> None:
        plan.plan(self)
        self.kernel.run_until(self.shape.start_ms + self.shape.safety_ms)
        if self.violation is None:
            recovery.heal(self)
            recovery.converge(self)

    def fail(self, violation: Violation, cause: BaseException | None = None) -> None:
        """The first violation ends the history."""
        self.trace("checker", "VIOLATION", str(violation))
        if self.violation is None:
            self.violation, self.cause = violation, cause
        self.kernel.stopped = True

    @property
    def _has_herds(self) -> bool:
        return "job_herd" in self.shape.elements

    @property
    def has_real_workers(self) -> bool:
        return bool(self.shape.elements & {"real_worker", "leased", "lambda_worker"})

    @property
    def day_s(self) -> int:
        """A day of the audits."""
        return DAY_S if SHORT_DAYS in self.tight else 86_400

    @property
    def zone_moved(self) -> bool:
        """Whether jobs were planned anew with other zone data."""
        return bool(self.shape.zone_data_at_ms)

    def work_of(self, job_id: str) -> dict[str, Any]:
        """What a job does, as its definition says; empty where that cannot be read."""
        work = (self.tables.standing(JOBS, {"job_id": job_id}) or {}).get("work")
        return work if isinstance(work, dict) else {}

    def holds(self, promise: str) -> bool:
        """Whether a promise is judged: not while the production code is known to break it."""
        return promise not in PENDING_ISOLATION

    def expect(self, invariant: str, holds: bool, what: str) -> None:
        """A caller has seen something: it must hold."""
        if not holds:
            raise Violation(invariant, what)

    def trace(self, who: str, what: str, detail: object, result: object = None) -> None:
        if self.timeline is not None:
            self.timeline.append((self.kernel.now_ms, who, what, detail, result))

    def sometime(self, rng: Random | None = None) -> int:
        """An instant of the safety phase."""
        return self.shape.start_ms + (rng or self.rng).randrange(self.shape.safety_ms)
