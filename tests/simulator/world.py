"""One seed's world: draws its shape and its faults, runs the safety phase, then heals and demands convergence."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulator import clients, servers
from tests.simulator.checks import Checks, due_ms_of
from tests.simulator.convergence import pending
from tests.simulator.poison import garble_schedule, plant_poison
from tests.simulator.shape import CELL, POOL, JobPlan, Shape, TimerPlan, draw_shape
from tickwork.core.dispatch.slices import TICK_HORIZON_S
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.ledger import queues
from tickwork.testing.faults import Faults, draw_faults
from tickwork.testing.kernel import Kernel, Livelock
from tickwork.testing.queue import SimQueue
from tickwork.testing.store import WatchedStore
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tickwork.ports import Layout

EPOCH_MS = 1_796_000_400_000
_TICK_EVERY_MS, _AUDIT_EVERY_MS = MINUTE_MS, 5 * MINUTE_MS
_AUDITED_DELETES = 0.4
"""The share of deletions beside which a reconciler happens to come by: it meets a job that is just going."""
_LOOK_EVERY_MS = 20 * SECOND_MS
_CONVERGE_MS = 30 * MINUTE_MS
_LOSING = frozenset({"message_lost", "send_refused", "faulty_worker"})
_FRESH_AHEAD_S = (75, 130)
_RECOVERING_LAG_MS = 65 * SECOND_MS
"""After the faults a loose ticker may take two minutes to come round, and the dead hold leases for a while. A tick that
the lease has noted and the queue has lost is made up for by the next minute's keep-alive, with a lag of its own."""
_LOST_TICKS_LAG_MS = TICK_HORIZON_S * SECOND_MS + _RECOVERING_LAG_MS
"""Where ticks were lost, those keep-alives may be lost as well: all that were issued before the faults ended."""
_LAST_RESORT_MS = 26 * 60 * MINUTE_MS
"""Faults are over and the near passes have been made: what is left must be found by the audit of a day later."""

type Entry = tuple[int, str, str, object, object]


class World:
    """Everything of one seed. `seen` counts outcomes; `timeline` is kept only in a replay."""

    def __init__(
        self,
        seed: int,
        *,
        timeline: list[Entry] | None = None,
        shape: Shape | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.shape = shape or draw_shape(self.rng, EPOCH_MS)
        self.faults = draw_faults(self.rng) if faults is None else faults
        self.classes = frozenset(self.faults.rates)
        self.lag_max_ms = 5 * SECOND_MS
        self.kernel = Kernel(self.shape.start_ms)
        self.cell = CELL
        self.tables = WatchedStore()
        self.seen: Counter[str] = Counter()
        self.timeline = timeline
        self.violation: Violation | None = None
        self.cause: BaseException | None = None
        self.port_calls = self.processes = self.ids = 0
        self.poisoned: set[str] = set()
        self.fresh: list[str] = []
        self.garbled: dict[str, dict[str, Any]] = {}
        skew_ms = self.faults.skew_max_ms
        self.host_skews_ms = [self.rng.randint(-skew_ms, skew_ms) for _ in range(self.shape.hosts)]
        self.slices_seen: list[set[str]] = [set() for _ in self.host_skews_ms]
        self.checks = Checks(self)
        self.queues: dict[str, SimQueue] = {
            queues.TICKS.name: SimQueue(self, queues.TICKS, partial(servers.scan, self), queues.TICKS_PER_BATCH),
            queues.ready_queue(POOL): SimQueue(self, queues.ready(POOL), partial(servers.work, self), 1),
        }
        self.tick_every_ms = _TICK_EVERY_MS

    @property
    def layout(self) -> Layout:
        """The layout that a process started now is deployed with."""
        return self.shape.layouts[self.kernel.now_ms >= self.shape.relayout_at_ms]

    def run(self) -> World:
        """The whole history; look at `violation` afterwards."""
        try:
            self._plan()
            self.kernel.run_until(self.shape.start_ms + self.shape.safety_ms)
            if self.violation is None:
                self._heal()
                self._converge()
        except Violation as violation:
            self.fail(violation)
        except Livelock as livelock:
            self.fail(Violation("no-livelock", f"{livelock}; {'; '.join(pending(self)[:5])}"))
        return self

    def fail(self, violation: Violation, cause: BaseException | None = None) -> None:
        """The first violation ends the history."""
        self.trace("checker", "VIOLATION", str(violation))
        if self.violation is None:
            self.violation, self.cause = violation, cause
        self.kernel.stopped = True

    def trace(self, who: str, what: str, detail: object, result: object = None) -> None:
        if self.timeline is not None:
            self.timeline.append((self.kernel.now_ms, who, what, detail, result))

    # --- the safety phase -------------------------------------------------------------------------------------

    def _plan(self) -> None:
        at, start_ms = self.kernel.at, self.shape.start_ms
        at(start_ms, self._tick)
        at(start_ms + self.rng.randrange(_AUDIT_EVERY_MS), self._audit)
        self._plan_clients()
        for name, queue in (("scanner_outage", "ticks"), ("worker_outage", f"ready-{POOL}")):
            if self.faults.strikes(self.rng, name):
                at(self._sometime(), partial(self._outage, self.queues[queue]))
        if self.faults.strikes(self.rng, "queue_outage"):
            at(self._sometime(), self._queue_outage)
        if self.faults.strikes(self.rng, "poison"):
            at(self._sometime(), lambda: plant_poison(self))
        if self.faults.strikes(self.rng, "garbled_schedule"):
            at(self._sometime(), lambda: garble_schedule(self))

    def _plan_clients(self) -> None:
        at = self.kernel.at
        for timer in self.shape.timers:
            at(timer.at_ms, partial(clients.create_timers, self, timer))
        for job in self.shape.jobs:
            job_id = f"{job.team}:{job.name}"
            for number, when_ms in enumerate(job.create_at_ms):
                other = "other" if number == 1 and self.rng.random() < 0.3 else "same"
                at(when_ms, partial(clients.create_job, self, job, other))
            self._plan_changes(job, job_id)
            for when_ms in job.delete_at_ms:
                at(when_ms, partial(clients.delete_job, self, job_id))
                if self.rng.random() < _AUDITED_DELETES:
                    at(when_ms + self.rng.randrange(3 * SECOND_MS), partial(servers.audit, self))
        for when_ms in self.shape.cancel_runs_at_ms:
            at(when_ms, partial(clients.cancel_run, self))
        for when_ms in self.shape.replays_at_ms:
            at(when_ms, partial(clients.replay_dead, self))

    def _plan_changes(self, job: JobPlan, job_id: str) -> None:
        at = self.kernel.at
        for change in job.changes:
            at(change.at_ms, partial(clients.change_job, self, job, change))
        for pause in job.pauses:
            at(pause.at_ms, partial(clients.pause_job, self, job_id, pause))
            if pause.resume_at_ms:
                at(pause.resume_at_ms, partial(clients.resume_job, self, job_id))

    def _sometime(self) -> int:
        return self.shape.start_ms + self.rng.randrange(self.shape.safety_ms)

    def _tick(self) -> None:
        """The trigger is loose: anywhere in its minute, sometimes twice, sometimes not at all."""
        loose = self.faults.strikes(self.rng, "ticker_loose")
        now_ms = self.kernel.now_ms
        self.kernel.at(now_ms + self.tick_every_ms, self._tick)
        for _ in range(self.rng.choice((0, 1, 2)) if loose else 1):
            self.kernel.at(now_ms + self.rng.randrange(MINUTE_MS if loose else SECOND_MS), lambda: servers.tick(self))

    def _audit(self) -> None:
        self.kernel.at(self.kernel.now_ms + max(_AUDIT_EVERY_MS, self.tick_every_ms), self._audit)
        servers.audit(self)

    def _outage(self, queue: SimQueue) -> None:
        queue.served_from_ms = self.kernel.now_ms + self.rng.randint(20, 240) * SECOND_MS
        self.seen["outage"] += 1

    def _queue_outage(self) -> None:
        self.queues[f"ready-{POOL}"].refuses_until_ms = self.kernel.now_ms + self.rng.randint(5, 300) * SECOND_MS
        self.seen["queue outage"] += 1

    # --- the liveness phase -----------------------------------------------------------------------------------

    def _heal(self) -> None:
        self.trace("world", "HEAL", "faults are over")
        self.faults.stop()
        for queue in self.queues.values():
            queue.served_from_ms = queue.refuses_until_ms = 0

    def _converge(self) -> None:
        began_ms = self.kernel.now_ms
        for ahead_s in _FRESH_AHEAD_S:
            self._fresh_timer(ahead_s)
        self._look_until(began_ms + _CONVERGE_MS)
        if self.violation is None and pending(self):
            self.seen["last resort"] += 1
            self.trace("world", "LAST RESORT", "; ".join(pending(self)[:5]))
            self._check_stuck()
            for job in self.shape.jobs:
                clients.delete_job(self, f"{job.team}:{job.name}")
            self.tick_every_ms = 20 * MINUTE_MS
            self._look_until(began_ms + _LAST_RESORT_MS)
        self._check_fresh()
        if self.violation is None and (left := pending(self)):
            raise Violation("no-lost-timer", f"after a day without faults: {'; '.join(left[:5])}")

    def _look_until(self, until_ms: int) -> None:
        while self.violation is None and self.kernel.now_ms < until_ms:
            self.kernel.run_until(self.kernel.now_ms + max(_LOOK_EVERY_MS, self.tick_every_ms // 3))
            if not pending(self):
                return

    def _check_stuck(self) -> None:
        """A run whose worker died comes back with its message, when that was not lost: no audit is needed for it."""
        if stuck := [reason for reason in pending(self) if " is running" in reason]:
            if not self.classes & _LOSING:
                raise Violation("bounded-lag", f"half an hour after the faults, no message was lost, but {stuck[0]}")
            self.seen["run without a message"] += 1

    def _check_fresh(self) -> None:
        """Timers of the time after the faults are on time again, but for leases that the dead still hold."""
        recovering_ms = _LOST_TICKS_LAG_MS if "tick_lost" in self.classes else _RECOVERING_LAG_MS
        lag_max_ms = recovering_ms + 2 * self.faults.skew_max_ms
        for ref in self.fresh:
            lag_ms = self.checks.ledger.started_at_ms.get(ref, self.kernel.now_ms) - due_ms_of(ref)
            if lag_ms > lag_max_ms and self.violation is None:
                raise Violation("bounded-lag", f"{ref} started {lag_ms} ms late after the faults were over")

    def _fresh_timer(self, ahead_s: int) -> None:
        """A timer of the time after the faults."""
        now_ms = self.kernel.now_ms
        work = replace(self.shape.timers[0].work, resources=())  # it must not wait for anybody
        plan = TimerPlan(now_ms, now_ms + ahead_s * SECOND_MS, 1, work, "pay", f"fresh-{ahead_s}", None)
        clients.create_timers(self, plan, self.fresh)
