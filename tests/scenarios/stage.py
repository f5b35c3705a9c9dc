"""A stage for named scenarios: production flows over the in-memory store, in virtual time, with scripted faults.

There are no threads. A process that pauses is one whose port call does not return until others have had their turn:
the others run inside that call, and the clock with them. A process that dies is one whose port call raises `Killed`.
"""

from __future__ import annotations

import copy
import dataclasses
import heapq
import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.fakes import NOW_MS, CountingIds, KeptSignals
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.ledger.keys import LedgerKey, parse_ref, slice_key
from tickwork.core.ledger.queues import SCANNER_RESERVE_MS, SCANNER_TIMEOUT_S, TICKS
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, LEASES, TIMERS, Index, Table
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Committed, Item, Refused, Write
from tickwork.core.runs.attempts import Declined, StartRequest
from tickwork.core.schedule import parse_schedule
from tickwork.flows.dispatch.tick_batches import TickBatch
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.dispatch.windows import WindowReport, run_window
from tickwork.flows.jobs import registering
from tickwork.flows.runs import timers, worker_calls
from tickwork.ports import (
    TICKS_QUEUE,
    InMessage,
    Layout,
    NoReceiver,
    OutMessage,
    Page,
    Ports,
    SendReport,
    ready_queue,
)
from tickwork.testing.memory import MemoryStore

__all__ = ["NOW_MS", "Call", "Killed", "Process", "Stage", "Workers"]

WINDOW_BUDGET_MS = SCANNER_TIMEOUT_S * SECOND_MS - SCANNER_RESERVE_MS
TURNS_MAX = 200_000
"""Of any loop here: a scenario that needs more does not end."""


class Killed(BaseException):
    """kill -9 at a port call."""


@dataclass(frozen=True, slots=True)
class Call:
    """A port call: the n-th of its process (from 1), what is called on which table or queue, with what."""

    n: int
    verb: str
    what: str
    detail: Any = None

    def sets(self, *names: str) -> bool:
        """Whether it is a commit that changes one of these attributes."""
        if self.verb != "commit":
            return False
        return any(name in getattr(write, "set", ()) for write in self.detail for name in names)


@dataclass(slots=True)
class _Cue:
    wanted: Callable[[Call], bool]
    action: Callable[[], object]
    after: bool
    left: int


class Process:
    """One process with clocks of its own. `before` and `after` script what happens around its port calls."""

    def __init__(self, stage: Stage, layout: Layout | None = None) -> None:
        self.stage = stage
        self.calls: list[Call] = []
        self.frozen_ms = 0
        self.skew_ms = 0
        self.latency_ms = 0
        self.results: dict[int, Any] = {}
        """An answer to give in place of the effect, by number of the call: a partial failure, say."""
        self._cues: list[_Cue] = []
        self.ports = Ports(_Clock(self), _Store(self), _Sender(self), stage.signals, stage.ids, layout or stage.layout)

    def before(self, wanted: Callable[[Call], bool], action: Callable[[], object], times: int = 1) -> Process:
        self._cues.append(_Cue(wanted, action, False, times))
        return self

    def after(self, wanted: Callable[[Call], bool], action: Callable[[], object], times: int = 1) -> Process:
        self._cues.append(_Cue(wanted, action, True, times))
        return self

    def call[T](self, verb: str, what: str, detail: Any, effect: Callable[[], T]) -> T:
        call = Call(len(self.calls) + 1, verb, what, detail)
        self.calls.append(call)
        self.stage.at_ms += self.latency_ms
        self._play(call, after=False)
        result = self.results.pop(call.n) if call.n in self.results else effect()
        self._play(call, after=True)
        return result

    def _play(self, call: Call, *, after: bool) -> None:
        for cue in list(self._cues):
            if cue.after == after and cue.left > 0 and cue.wanted(call):
                cue.left -= 1
                cue.action()

    def pause(self, duration_ms: int, meanwhile: Callable[[], object] = lambda: None, *, frozen: bool = False) -> None:
        """Stand still inside a port call while others go on. `frozen`: its monotonic clock stands still too."""
        until_ms = self.stage.at_ms + duration_ms
        meanwhile()
        self.stage.at_ms = max(self.stage.at_ms, until_ms)
        if frozen:
            self.frozen_ms += duration_ms

    def window(
        self, slice_no: int = 0, second: int | None = None, budget_ms: int = WINDOW_BUDGET_MS, cell: str = ""
    ) -> WindowReport:
        ports = self.ports.in_cell(cell or self.ports.layout.home)
        return run_window(ports, slice_no, second or self.stage.second, budget_ms=budget_ms)


class _Clock:
    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        return self._process.stage.at_ms + self._process.skew_ms

    def monotonic_ms(self) -> int:
        return self._process.stage.at_ms - self._process.frozen_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self._process.stage.at_ms += duration_ms


class _Store:
    def __init__(self, process: Process) -> None:
        self._call, self._tables = process.call, process.stage.store

    def get(self, table: Table, key: Item) -> Item | None:
        return self._call("get", table.name, key, lambda: self._tables.get(table, key))

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        return self._call("get_many", table.name, keys, lambda: self._tables.get_many(table, keys))

    def query(
        self,
        table: Table,
        partition: str,
        first: str,
        last: str,
        *,
        limit: int,
        after: str | None = None,
        descending: bool = False,
    ) -> Page:
        return self._call(
            "query",
            table.name,
            partition,
            lambda: self._tables.query(table, partition, first, last, limit=limit, after=after, descending=descending),
        )

    def query_index(
        self,
        table: Table,
        index: Index,
        partition: str,
        *,
        limit: int,
        after: Item | None,
        descending: bool,
        between: tuple[int, int] | None = None,
    ) -> tuple[list[Item], Item | None]:
        return self._call(
            "query_index",
            table.name,
            partition,
            lambda: self._tables.query_index(
                table, index, partition, limit=limit, after=after, descending=descending, between=between
            ),
        )

    def scan(self, table: Table, *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        return self._call("scan", table.name, None, lambda: self._tables.scan(table, limit=limit, after=after))

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        return self._call("commit", writes[0].table.name, writes, lambda: self._tables.commit(writes))


class _Sender:
    def __init__(self, process: Process) -> None:
        self._process = process

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        stage = self._process.stage
        return self._process.call("send", queue, messages, lambda: stage.put(queue, messages))


@dataclass(slots=True)
class _Tick:
    body: str
    deleted: bool = False
    number: int = 0


@dataclass(slots=True)
class Workers:
    """What reached the workers of a pool."""

    started: list[str] = field(default_factory=list)
    """Run ids, one for each attempt that started."""
    declined: Counter[str] = field(default_factory=Counter)
    lags_ms: list[int] = field(default_factory=list)

    @property
    def dead_at_start(self) -> int:
        return sum(self.declined.values())


class Stage:
    """The world of a scenario: true time, the tables, the queues."""

    def __init__(self, layout: Layout | None = None, now_ms: int = NOW_MS) -> None:
        self.layout = layout or Layout(shards=1, slices=1, pools=("default",))
        self.at_ms = now_ms
        self.store = MemoryStore()
        self.signals, self.ids = KeptSignals(), CountingIds()
        self.inbox: list[tuple[int, str]] = []
        """(visible at, body) of every message to a ready queue that no worker has received."""
        self.sent = 0
        self.missing_pools: set[str] = set()
        self._ticks: list[tuple[int, int, _Tick]] = []
        self._numbers = itertools.count()

    @property
    def second(self) -> int:
        return self.at_ms // SECOND_MS

    def process(self, layout: Layout | None = None) -> Process:
        return Process(self, layout)

    def copy(self) -> Stage:
        """Another stage as this one is now; what has been sent or signalled is not copied."""
        stage = Stage(self.layout, self.at_ms)
        stage.store, stage.ids = copy.deepcopy(self.store), self.ids
        return stage

    def serve(self, seconds: int = 1, workers: Workers | None = None) -> Workers:
        """Go on for some seconds, with a window for every slice in each, and workers that take what is sent."""
        workers = workers or Workers()
        for _ in range(seconds):
            self.at_ms += SECOND_MS
            for cell in self.layout.shapes:
                for slice_no in range(cell.slices):
                    self.process().window(slice_no, cell=cell.name)
            self.work(workers)
        return workers

    def serve_until_quiet(self) -> None:
        """Go on until no slice has a backlog."""
        for _ in range(TURNS_MAX):
            self.serve()
            if not self.has_backlog():
                return

    def has_backlog(self) -> bool:
        return any(self.lease(slice_no).late_until for slice_no in range(self.layout.slices))

    # --- clients ----------------------------------------------------------------------------------------------

    def timers(
        self, count: int, due_ms: int, team: str = "shop", by: Process | None = None, **work: Any
    ) -> list[LedgerKey]:
        work = {"pool": "default", "handler": "job"} | work
        new = [timers.NewTimer(team, due_ms, Work(**work)) for _ in range(count)]
        return [one.run.key for one in timers.create_timers((by or self.process()).ports, new)]

    def job(
        self,
        name: str,
        schedule: dict[str, Any],
        catch_up: CatchUp | None = None,
        team: str = "shop",
        by: Process | None = None,
        tolerance_s: int = 0,
        **work: Any,
    ) -> str:
        parsed = parse_schedule(schedule, now_ms=self.at_ms, job_id=f"{team}:{name}")
        work = {"pool": "default", "handler": "job"} | work
        new = registering.NewJob(team, name, parsed.spec, Work(**work), tolerance_s, catch_up or CatchUp(), "f")
        job, _ = registering.create_job((by or self.process()).ports, new)
        return job.job_id

    # --- the queues -------------------------------------------------------------------------------------------

    def put(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        if queue in {ready_queue(pool) for pool in self.missing_pools}:
            return SendReport(refused=tuple((i, "the queue does not exist") for i in range(len(messages))))
        for message in messages:
            visible_ms = self.at_ms + message.delay_s * SECOND_MS
            if queue == TICKS_QUEUE:
                number = next(self._numbers)
                heapq.heappush(self._ticks, (visible_ms, number, _Tick(message.body, number=number)))
            else:
                self.sent += 1
                self.inbox.append((visible_ms, message.body))
        return SendReport()

    def tick(self) -> int:
        """One run of the ticker."""
        return issue_ticks(self.process().ports)

    def make_all_ticks_visible(self) -> None:
        """Every tick comes at once, however early it is."""
        self._ticks = [(self.at_ms, number, tick) for _, number, tick in self._ticks]

    def next_tick_ms(self) -> int | None:
        while self._ticks and self._ticks[0][2].deleted:
            heapq.heappop(self._ticks)
        return self._ticks[0][0] if self._ticks else None

    def scan(self, scanner: Process | None = None) -> None:
        """A scanner receives every tick that is visible (as one batch of at most ten) and serves it."""
        due: list[_Tick] = []
        while len(due) < 10 and (next_ms := self.next_tick_ms()) is not None and next_ms <= self.at_ms:
            due.append(heapq.heappop(self._ticks)[2])
        held = {str(tick.number): tick for tick in due}
        for tick in due:  # hidden, not gone: it comes back if this scanner dies
            heapq.heappush(self._ticks, (self.at_ms + TICKS.visibility_s * SECOND_MS, tick.number, tick))
        process = scanner or self.process()
        ports = dataclasses.replace(process.ports, receiver=_Held(self, held))
        messages = {name: InMessage(name, tick.body) for name, tick in held.items()}
        again = TickBatch(ports).serve(messages, budget_ms=WINDOW_BUDGET_MS)
        for name, tick in held.items():
            tick.deleted = tick.deleted or name not in again

    def run_until(self, until_ms: int, *, each: Callable[[], object] = lambda: None) -> None:
        """The ticker each minute, scanners whenever a tick is visible."""
        for _ in range(TURNS_MAX):
            minute_ms = (self.at_ms // 60_000 + 1) * 60_000
            next_ms = self.next_tick_ms()
            coming_ms = min(minute_ms, max(self.at_ms, next_ms) if next_ms is not None else minute_ms)
            if coming_ms > until_ms:
                self.at_ms = max(self.at_ms, until_ms)
                return
            self.at_ms = coming_ms
            if coming_ms == minute_ms:
                self.tick()
            if (next_ms := self.next_tick_ms()) is not None and next_ms <= self.at_ms:
                self.scan()
            each()
        raise AssertionError("the scenario does not come to an end")

    # --- workers ----------------------------------------------------------------------------------------------

    def work(self, workers: Workers | None = None) -> Workers:
        """Workers take every message that is visible: start the run and complete it."""
        workers = workers or Workers()
        ready, self.inbox = (
            [body for at_ms, body in self.inbox if at_ms <= self.at_ms],
            [entry for entry in self.inbox if entry[0] > self.at_ms],
        )
        ports = self.process().ports
        for text in ready:
            body = json.loads(text)
            started = worker_calls.start(ports, self.start_request(body))
            if isinstance(started, Declined):
                workers.declined[started.reason] += 1
                continue
            workers.started.append(started.run.run_id)
            workers.lags_ms.append(self.at_ms - started.run.key.fire_at_ms)
            ended = worker_calls.complete(ports, started.run.key, started.run.token)
            assert not isinstance(ended, Declined), ended
        return workers

    def start_request(self, body: dict[str, Any], claim: str | None = None, worker: str = "w") -> StartRequest:
        retry = parse_ref(body["retry_ref"]) if "retry_ref" in body else None
        return StartRequest(
            parse_ref(body["ref"]),
            claim or f"claim-{self.ids.unique()}",
            worker,
            body["lease_s"],
            body["attempt"],
            retry,
            body["dispatched_at_ms"],
            body["dispatched_by"],
        )

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.inbox]

    # --- looking ----------------------------------------------------------------------------------------------

    def lease(self, slice_no: int = 0) -> SliceLease:
        item = self.store.get(LEASES, {"slice": slice_key(self.layout.cell, slice_no)})
        assert item is not None
        return SliceLease.from_item(item)

    def get_job(self, job_id: str) -> Job:
        item = self.store.get(JOBS, {"job_id": job_id})
        assert item is not None
        return Job.from_item(item)

    def run(self, key: LedgerKey) -> Run:
        item = self.store.get(TIMERS, key.as_item())
        assert item is not None, key
        return Run.from_item(item)

    def runs(self) -> list[Run]:
        """Every occurrence in the ledger (not the retries' own items)."""
        return [Run.from_item(item) for item in self.store.items(TIMERS) if "run_ref" not in item]

    def statuses(self) -> Counter[str]:
        return Counter(run.status for run in self.runs())

    def assert_chains_unbroken(self) -> None:
        """Each active job has exactly one pending occurrence, the one that its `next` names."""
        pending: dict[str, list[LedgerKey]] = {}
        for run in self.runs():
            if run.is_recurring and run.status == "pending":
                pending.setdefault(run.key.job_id, []).append(run.key)
        for item in self.store.items(JOBS):
            job = Job.from_item(item)
            if job.status == "active":
                due = [key for key in pending.get(job.job_id, []) if key.scheduled_at_ms > job.fired_through_ms]
                assert due == [job.next_key(self.layout.cell)], (job.job_id, due)


class _Held(NoReceiver):
    """The ticks that a scanner holds: what it hides comes again later."""

    def __init__(self, stage: Stage, held: dict[str, _Tick]) -> None:
        self._stage, self._held = stage, held

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        assert queue == TICKS_QUEUE
        tick = self._held[receipt]
        tick.deleted = True  # the hidden copy
        again = _Tick(tick.body, number=next(self._stage._numbers))
        self._held[receipt] = again
        heapq.heappush(self._stage._ticks, (self._stage.at_ms + seconds * SECOND_MS, again.number, again))
