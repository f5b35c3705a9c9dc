"""`python -m benchmarks.reconciler`: one run of the reconciler at the design scale (--jobs, --runs-a-day for less).

The production flow over the in-memory store, which holds all definitions and every run that one pass reads: of five
minutes, three times. Each call takes as long as the simulator's published latencies say, in virtual time; the
processor's time is measured. Both together must stay within the reconciler's budget.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support.fakes import FakeClock, fake_ports

from tickwork.core.audit.passes import AUDITS
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.ids import shard_of
from tickwork.core.jobs import occurrences
from tickwork.core.jobs.definitions import Job, Next
from tickwork.core.ledger.keys import LedgerKey, slice_key
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, LEASES, TIMERS, Table
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Anyway, Item, Put
from tickwork.flows.audit.reconciling import BUDGET_MS, reconcile
from tickwork.ports import Layout
from tickwork.testing.memory import MemoryStore

SHARDS = SLICES = 64
EVERY_S = 300
LATENCY_MS = {"get": 5, "get_many": 12, "query": 10, "scan": 12, "commit": 8}
"""Of calls that read about as much as a page holds, at the median: single-digit milliseconds and the transfer."""


class TimedStore:
    """A store whose calls take their time on a clock that otherwise stands still."""

    def __init__(self, inner: MemoryStore, clock: FakeClock) -> None:
        self.calls: Counter[str] = Counter()
        for verb, latency_ms in LATENCY_MS.items():
            setattr(self, verb, self._timed(verb, getattr(inner, verb), clock, latency_ms))

    def _timed(self, verb: str, call: Callable[..., Any], clock: FakeClock, latency_ms: int) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            self.calls[verb] += 1
            clock.at_ms += latency_ms
            return call(*arguments, **named)

        return timed


def plant(store: MemoryStore, table: Table, item: Item) -> None:
    store.commit([Put(table, item, Anyway("a benchmark's world"))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--runs-a-day", type=int, default=50_000_000)
    chosen = parser.parse_args()
    clock = FakeClock()
    store = MemoryStore()
    timed: Any = TimedStore(store, clock)
    ports = replace(fake_ports(timed, Layout(shards=SHARDS, slices=SLICES)), clock=clock)
    now_s = clock.at_ms // 1000
    for number in range(chosen.jobs):
        plant_job(store, number, clock.at_ms)
    per_s = chosen.runs_a_day / 86_400
    for delay_s in AUDITS.values():
        for index in range(int(per_s * EVERY_S)):
            plant_run(store, index, now_s - delay_s - EVERY_S + int(index / per_s))
    for number in range(SLICES):
        plant(store, LEASES, lease(number, now_s).to_item())
    began_ms, began = clock.at_ms, time.process_time()
    repairs = reconcile(ports)
    cpu_s, waited_s = time.process_time() - began, (clock.at_ms - began_ms) / 1000
    calls = ", ".join(f"{verb} {count:,}" for verb, count in timed.calls.items())
    print(f"{repairs.jobs_checked:,} definitions, {repairs.audited:,} ledger items, {repairs.unfinished} unfinished")
    print(f"calls: {calls}")
    print(f"waiting {waited_s:.0f} s + processor {cpu_s:.0f} s = {waited_s + cpu_s:.0f} s of {BUDGET_MS // 1000} s")
    print(json.dumps({"jobs": repairs.jobs_checked, "items": repairs.audited, "total_s": round(waited_s + cpu_s)}))


def plant_job(store: MemoryStore, number: int, now_ms: int) -> None:
    at_ms = (now_ms // 86_400_000 + 1) * 86_400_000
    schedule = {"cron": f"{number % 60} {number // 60 % 24} * * *", "zone": "UTC"}
    job = Job(f"team-{number % 200}", f"job-{number}", schedule, Work("default", "job"), created_at_ms=now_ms)
    upcoming = Next(at_ms, at_ms, shard_of(job.job_id, SHARDS))
    item = job.to_item() | {
        "next_scheduled_at_ms": upcoming.scheduled_at_ms,
        "next_fire_at_ms": upcoming.fire_at_ms,
        "next_shard": upcoming.shard,
        "planned_with": occurrences.planned_with(job),
    }
    plant(store, JOBS, item)
    plant(store, TIMERS, Run(job.occurrence_key("main", upcoming), created_at_ms=now_ms).to_item())


def plant_run(store: MemoryStore, index: int, second: int) -> None:
    key = LedgerKey("main", index % SHARDS, second * 1000, f"team-{index % 200}", f"t~{index:020x}", second * 1000)
    item = key.as_item() | {"status": "succeeded", "work": {"pool": "default", "handler": "job"}, "attempt": 1}
    plant(store, TIMERS, item)


def lease(number: int, now_s: int) -> SliceLease:
    cursors = {cursor: now_s - delay_s - EVERY_S for cursor, delay_s in AUDITS.items()}
    return SliceLease(slice_key("main", number), closing=now_s, done=now_s, ticking=now_s, ticked=now_s, **cursors)


if __name__ == "__main__":
    main()
