"""A load, run: clients create, the ticker ticks, scanners fire, workers start and complete, all in virtual time.

`Load` says what is created when and due when; `ScaleWorld` runs it and measures. A share of the slices may be run
alone, at their full load: they share nothing but the limits of the account, which shrink with the share.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from benchmarks.scale.figures import ENVIRONMENTS_DEFAULT, Limits
from benchmarks.scale.partitions import Partitions
from benchmarks.scale.process import ScaleProcess
from benchmarks.scale.queues import EventSource, Function, Message, ScaleQueue, Workers, read_body
from tickwork.core.errors import WorldError
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.ledger import queues
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.queues import SCANNER_RESERVE_MS, SCANNER_TIMEOUT_S
from tickwork.flows.dispatch.tick_batches import TickBatch
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.jobs import changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import timers
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import TICKS_QUEUE, InMessage, Layout
from tickwork.testing.kernel import Kernel
from tickwork.testing.memory import MemoryStore

POOL = "default"
TIMERS_KIND = "timers"
_BUDGET_MS = SCANNER_TIMEOUT_S * SECOND_MS - SCANNER_RESERVE_MS
_TICKER_TIMEOUT_S, _API_TIMEOUT_S = 55, 28
"""As in infra/functions.py, like the memory below."""
_TEAM = "load"
_EVENTS_MAX = 100_000_000


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is deployed: shards, slices, and how many scanners may run. `simulated`: of the slices, how many are."""

    shards: int = 1_024
    slices: int = 64
    simulated: int = 64
    scanners: int = 192
    scanner_mb: int = 1_024
    environments: int = 3 * ENVIRONMENTS_DEFAULT
    """Of all functions of the account at once. It is not shared out when a share of the slices is simulated: clients
    make as many calls then, if smaller ones, and only a run of all slices says how many the API needs."""
    ticks_per_batch: int = queues.TICKS_PER_BATCH
    workers: int = 4_000
    """Each holds ten messages."""

    @property
    def share(self) -> float:
        return self.simulated / self.slices

    def layout(self) -> Layout:
        return Layout(shards=round(self.shards * self.share), slices=self.simulated, pools=(POOL,))


@dataclass(frozen=True, slots=True)
class Load:
    """Calls by the instant they are made at: one-shots in bulk, and jobs. Kinds of jobs are told by their names."""

    name: str
    start_ms: int
    end_ms: int
    creates: tuple[tuple[int, tuple[NewTimer, ...]], ...] = ()
    registrations: tuple[tuple[int, NewJob], ...] = ()
    job_ms: int = 50
    """What a run takes."""
    paused: str = ""
    """Jobs of this kind are paused as soon as they are registered: what is due of them is skipped."""
    measured_from_ms: int = 0
    """Runs due before this are warming up, and are not measured."""


class ScaleWorld:
    """One load on one deployment. Lags are in milliseconds: from due to in the queue, and from due to started."""

    def __init__(self, load: Load, deployment: Deployment | None = None, *, seed: int = 1) -> None:
        self.load, self.deployment = load, deployment or Deployment()
        self.seed, self.ids = seed, 0
        self.rng = Random(seed)
        self.kernel = Kernel(load.start_ms, _EVENTS_MAX)
        self.layout = self.deployment.layout()
        share = self.deployment.share
        self.limits = Limits().shared(share)
        self.tables = MemoryStore()
        self.partitions = Partitions(self.limits, share)
        self.seen: Counter[str] = Counter()
        self.slices_seen: set[str] = set()
        self.dispatched: dict[str, list[int]] = defaultdict(list)
        self.begun: dict[str, list[int]] = defaultdict(list)
        ticks = ScaleQueue(self, queues.TICKS)
        ready = ScaleQueue(self, queues.ready(POOL), self._came_in)
        self.queues = {TICKS_QUEUE: ticks, queues.ready_queue(POOL): ready}
        self.scanner = Function(self, SCANNER_TIMEOUT_S, self.deployment.scanner_mb)
        self.ticker = Function(self, _TICKER_TIMEOUT_S, 512)
        self.api = Function(self, _API_TIMEOUT_S, 1_024)
        scanners = max(1, round(self.deployment.scanners * share))
        self.api_max = self.deployment.environments - scanners
        EventSource(
            self,
            ticks,
            self.scanner,
            self._scan,
            batch_max=self.deployment.ticks_per_batch,
            concurrency_max=scanners,
        )
        self.workers = Workers(self, ready, round(self.deployment.workers * share), load.job_ms)

    def run(self) -> ScaleWorld:
        at, load = self.kernel.at, self.load
        at(load.start_ms, self._tick)
        for when_ms, new in load.creates:
            at(when_ms, partial(self._call, partial(self._create, new)))
        for when_ms, job in load.registrations:
            at(when_ms, partial(self._call, partial(self._register, job)))
        self.kernel.run_until(load.end_ms)
        return self

    @property
    def ran_s(self) -> float:
        return (self.load.end_ms - self.load.start_ms) / SECOND_MS

    @property
    def ticks_sent(self) -> int:
        return self.queues[TICKS_QUEUE].sent

    @property
    def ready_in_flight_peak(self) -> int:
        return self.queues[queues.ready_queue(POOL)].in_flight_peak

    # --- who calls whom ---------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """EventBridge Scheduler fires anywhere in its minute; the first time at once, so that a load can begin."""
        now_ms = self.kernel.now_ms
        self.kernel.at(now_ms + MINUTE_MS, self._tick)
        offset_ms = 0 if now_ms == self.load.start_ms else self.rng.randrange(MINUTE_MS)
        self.kernel.at(now_ms + offset_ms, lambda: self.ticker.invoke(0, self._issue))

    def _issue(self, process: ScaleProcess) -> None:
        try:
            issue_ticks(process.ports)
        except WorldError:
            self.seen["ticker failed"] += 1

    def _call(self, flow: partial[None]) -> None:
        """A client's call of the API, again a little later when the account has no environment left for it."""
        if self.api.running >= self.api_max:
            self.seen["api throttled"] += 1
            self.kernel.at(self.kernel.now_ms + self.rng.randrange(SECOND_MS), partial(self._call, flow))
            return
        self.api.invoke(0, flow)

    def _create(self, new: Sequence[NewTimer], process: ScaleProcess) -> None:
        try:
            timers.create_timers(process.ports, new)
        except WorldError:
            self.seen["call failed"] += 1
            return
        self.seen["created"] += len(new)

    def _register(self, new: NewJob, process: ScaleProcess) -> None:
        try:
            registering.create_job(process.ports, new)
        except WorldError:
            self.seen["call failed"] += 1
            return
        if self.load.paused and kind_of(new.name) == self.load.paused:
            changing.pause_job(process.ports, f"{new.team}:{new.name}", "ann", "the bank is closed", 0)
        self.seen["registered"] += 1

    def _scan(self, process: ScaleProcess, messages: list[Message]) -> None:
        queue = self.queues[TICKS_QUEUE]
        held = {str(message.id): InMessage(str(message.id), message.body) for message in messages}
        again = set(TickBatch(process.ports, process.side_by_side, at_once=True).serve(held, budget_ms=_BUDGET_MS))
        queue.delete([message for message in messages if str(message.id) not in again])

    # --- what is measured -------------------------------------------------------------------------------------

    def _came_in(self, message: Message) -> None:
        read_body(message)
        self._note(self.dispatched, message)

    def started(self, message: Message) -> None:
        self._note(self.begun, message)

    def _note(self, lags: dict[str, list[int]], message: Message) -> None:
        key = parse_ref(message.content["ref"])
        if key.fire_at_ms >= self.load.measured_from_ms:
            lags[kind_of(key.name)].append(self.kernel.now_ms - key.fire_at_ms)


def kind_of(name: str) -> str:
    """The kind of a run by its job's name: one-shots, or the word that the name begins with."""
    return TIMERS_KIND if "~" in name else name.partition("-")[0]
