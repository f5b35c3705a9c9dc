"""The design scale, simulated: 50 M timers a day, 50,000 a second in a burst, 142,000 due in one second at midnight.

`make bench-scale` (with `QUICK=1` an eighth of the slices, at their full load). The production flows run over the
in-memory store in virtual time, with the latencies and limits of benchmarks/scale/figures.py. What it
prints depends on the seed alone, not on the machine.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterable, Sequence
from random import Random

from benchmarks.percentiles import percentile
from benchmarks.scale.figures import TABLE_UNITS_DEFAULT
from benchmarks.scale.partitions import BAD_ENDS_INDEX, Hot
from benchmarks.scale.world import Deployment, Load, ScaleWorld
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import default_tolerance_s, parse_schedule, schedule_from_spec
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs.timers import NewTimer

MIDNIGHT_MS = 1_793_318_400_000  # 2026-10-30T00:00:00Z
WORK = Work("default", "send-reminder", payload='{"order_id":"5f0c2f2e-9a55-4d53-8f0a-2f9e6b1f2c11","kind":"reminder"}')
PER_CALL = 100
TEAMS = 100

EVEN_PER_S, BURST_PER_S, BURST_S = 580, 50_000, 10
HERD_TIMERS, MIXED_TIMERS, MIXED_JOBS = 142_000, 42_000, 100_000
EXACT, SPREAD, PAUSED = "exact", "spread", "paused"
KINDS = {"timers": "timers", EXACT: "exact cron", SPREAD: "default cron", PAUSED: "paused cron"}

type Calls = list[tuple[int, tuple[NewTimer, ...]]]


def even(share: float, seed: int) -> Load:
    """One timer a call, due up to 200 s ahead; measured when those of 200 s ago are due too."""
    rng = Random(seed)
    start_ms, measured_ms, end_ms = MIDNIGHT_MS, MIDNIGHT_MS + 205 * SECOND_MS, MIDNIGHT_MS + 270 * SECOND_MS
    calls: Calls = []
    for n in range(round(EVEN_PER_S * share * 260)):
        at_ms = start_ms + 2 * SECOND_MS + round(n * SECOND_MS / (EVEN_PER_S * share))
        calls.append((at_ms, (new_timer(n, at_ms + rng.randrange(5 * SECOND_MS, 200 * SECOND_MS)),)))
    return Load("50 M a day, even", start_ms, end_ms, tuple(calls), measured_from_ms=measured_ms)


def burst(share: float, seconds: int = BURST_S, name: str = f"{BURST_PER_S:,} a second") -> Load:
    """Created and due at the same rate, 15 s apart: for some of the time creations, starts and ends come together. By
    then the ticker has been round: creators bring ticks only where it has announced its own."""
    start_ms = MIDNIGHT_MS - 150 * SECOND_MS
    begin_ms = MIDNIGHT_MS + 5 * SECOND_MS
    calls: Calls = []
    per_call = max(1, round(PER_CALL * share))
    count = round(BURST_PER_S * seconds * share / per_call)
    for n in range(count):
        at_ms = begin_ms + n * seconds * SECOND_MS // count
        calls.append((at_ms, tuple(new_timer(n * per_call + i, at_ms + 15 * SECOND_MS) for i in range(per_call))))
    end_ms = begin_ms + (seconds + 15 + 30) * SECOND_MS
    return Load(f"{name}, created and due, for {seconds} s", start_ms, end_ms, tuple(calls))


def herd(share: float) -> Load:
    """All timers of one second, created two minutes before it."""
    start_ms = MIDNIGHT_MS - 125 * SECOND_MS
    calls = herd_calls(round(HERD_TIMERS * share), share, start_ms + 5 * SECOND_MS)
    name = f"midnight: {HERD_TIMERS:,} timers in one second"
    return Load(name, start_ms, MIDNIGHT_MS + MINUTE_MS, tuple(calls))


def mixed(share: float, kind: str) -> Load:
    """Timers and daily jobs of the same midnight, the jobs exact or with the default tolerance."""
    start_ms = MIDNIGHT_MS - 325 * SECOND_MS
    calls = herd_calls(round(MIXED_TIMERS * share), share, MIDNIGHT_MS - 2 * MINUTE_MS)
    jobs = round(MIXED_JOBS * share)
    spec = parse_schedule({"cron": "0 0 * * *", "zone": "UTC"}, now_ms=start_ms).spec
    tolerance_s = default_tolerance_s(schedule_from_spec(spec)) if kind == SPREAD else 0
    registrations = tuple(
        (start_ms + 5 * SECOND_MS + n * 200 * SECOND_MS // jobs, new_job(f"{kind}-{n:06d}", n, spec, tolerance_s))
        for n in range(jobs)
    )
    name = f"midnight: {MIXED_TIMERS:,} timers and {MIXED_JOBS:,} {KINDS[kind]} jobs"
    end_ms = MIDNIGHT_MS + (tolerance_s + 60) * SECOND_MS
    return Load(name, start_ms, end_ms, tuple(calls), registrations)


def skips(share: float) -> Load:
    """A team's jobs of one second, all paused: each is skipped, beside the timers of all teams."""
    start_ms = MIDNIGHT_MS - 325 * SECOND_MS
    calls = herd_calls(round(MIXED_TIMERS * share), share, MIDNIGHT_MS - 2 * MINUTE_MS)
    jobs = round(MIXED_JOBS * share)
    spec = parse_schedule({"cron": "0 0 * * *", "zone": "UTC"}, now_ms=start_ms).spec
    registrations = tuple(
        (start_ms + 5 * SECOND_MS + n * 200 * SECOND_MS // jobs, new_job(f"{PAUSED}-{n:06d}", 0, spec, 0))
        for n in range(jobs)
    )
    name = f"midnight: {MIXED_TIMERS:,} timers, and {MIXED_JOBS:,} jobs of one team skipped"
    return Load(name, start_ms, MIDNIGHT_MS + MINUTE_MS, tuple(calls), registrations, paused=PAUSED)


def herd_calls(count: int, share: float, begin_ms: int, over_s: int = 40) -> Calls:
    new = [new_timer(n, MIDNIGHT_MS) for n in range(count)]
    per_call = max(1, round(PER_CALL * share))
    calls = [tuple(new[n : n + per_call]) for n in range(0, count, per_call)]
    return [(begin_ms + n * over_s * SECOND_MS // len(calls), call) for n, call in enumerate(calls)]


def new_timer(n: int, due_ms: int) -> NewTimer:
    return NewTimer(f"team-{n % TEAMS:02d}", due_ms, WORK)


def new_job(name: str, n: int, spec: dict[str, object], tolerance_s: int) -> NewJob:
    return NewJob(f"team-{n % TEAMS:02d}", name, spec, WORK, tolerance_s, CatchUp(), "f" * 32)


LOADS: tuple[Callable[[float, int], Load], ...] = (
    even,
    lambda share, _: burst(share),
    lambda share, _: herd(share),
    lambda share, _: mixed(share, EXACT),
    lambda share, _: mixed(share, SPREAD),
    lambda share, _: skips(share),
)


# --- tables -------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="an eighth of the slices")
    parser.add_argument("--times", type=int, default=1, help="each load so many times over, in larger calls")
    parser.add_argument("--scanner-mb", type=int, default=1_024, help="memory of the scanner (1,769: a whole vCPU)")
    parser.add_argument("--environments", type=int, default=3_000, help="the account's Lambda concurrency")
    parser.add_argument("--only", default="", help="loads whose name contains this")
    chosen = parser.parse_args()
    deployment = Deployment(
        simulated=8 if chosen.quick else 64, scanner_mb=chosen.scanner_mb, environments=chosen.environments
    )
    began = time.process_time()
    share = deployment.share * chosen.times
    print(
        f"{deployment.simulated} of {deployment.slices} slices, {deployment.shards} shards in all, "
        f"{deployment.scanners} scanners of {deployment.scanner_mb:,} MB reserved of {deployment.environments:,} "
        f"environments, each load {chosen.times} times, seed {chosen.seed}\n"
    )
    loads = [load for make in LOADS if chosen.only in (load := make(share, chosen.seed)).name]
    print_tables([(load, deployment) for load in loads], chosen.seed)
    print("All in one shard:\n")
    one_shard = Deployment(shards=1, slices=1, simulated=1, scanners=3)
    print_tables([(burst(1 / 25, 5, "2,000 a second"), one_shard)], chosen.seed)
    print(f"CPU: {time.process_time() - began:.0f} s of this machine")


def print_tables(loads: Iterable[tuple[Load, Deployment]], seed: int) -> None:
    """Every load takes memory by the gigabyte: what is wanted of it is written down before the next one runs."""
    rows: dict[str, list[Sequence[str]]] = {name: [] for name in TABLES}
    for load, deployment in loads:
        world = run(load, deployment, seed)
        for name, (_, rows_of) in TABLES.items():
            rows[name] += rows_of(world)
        del world
        gc.collect()
    for name, (head, _) in TABLES.items():
        print(f"| {' | '.join(('load', *head))} |\n|{'---|' * (len(head) + 1)}")
        for row in rows[name]:
            print(f"| {' | '.join(row)} |")
        print(flush=True)


def run(load: Load, deployment: Deployment, seed: int) -> ScaleWorld:
    gc.disable()  # a world lives until its end
    try:
        world = ScaleWorld(load, deployment, seed=seed).run()
    finally:
        gc.enable()
    return world


def lags(world: ScaleWorld) -> Iterable[Sequence[str]]:
    for kind, queued in world.dispatched.items():
        begun = world.begun[kind]
        yield world.load.name, KINDS[kind], f"{len(begun):,}", p50_p99_worst(queued), p50_p99_worst(begun)


def p50_p99_worst(lags_ms: Sequence[int]) -> str:
    return " / ".join(f"{percentile(lags_ms, percent) / SECOND_MS:.2f}" for percent in (50, 99, 100))


def concurrency(world: ScaleWorld) -> Iterable[Sequence[str]]:
    scanner, seen = world.scanner, world.seen
    yield (
        world.load.name,
        f"{scanner.busy_ms / SECOND_MS / world.ran_s:.1f} / {scanner.peak}",
        f"{scanner.longest_ms / SECOND_MS:.1f}",
        f"{scanner.timed_out}",
        f"{world.ticker.longest_ms / SECOND_MS:.0f}, {world.ticker.timed_out}",
        f"{world.ticks_sent:,}",
        " / ".join(f"{seen[f'scheduler.windows_total {how}']:,}" for how in ("served", "already", "held")),
        f"{world.api.peak}",
        f"{world.workers.busy_peak:,}",
        f"{world.ready_in_flight_peak:,}",
        f"{world.partitions.throttled:,}",
    )


def tables(world: ScaleWorld) -> Iterable[Sequence[str]]:
    table, writes = world.partitions.table_peak("write")
    _, reads = world.partitions.table_peak("read")
    over = f" (over {TABLE_UNITS_DEFAULT:,})" if writes > TABLE_UNITS_DEFAULT * world.deployment.share else ""
    yield world.load.name, table, f"{writes:,.0f}{over}", f"{reads:,.0f}"


def partitions(world: ScaleWorld) -> Iterable[Sequence[str]]:
    for hot in [*world.partitions.hottest(5), *world.partitions.hottest(2, BAD_ENDS_INDEX)]:
        yield world.load.name, spelled(hot), f"{hot.units:,.0f}", f"{hot.share:.0%}", f"{hot.throttled:,}"


def spelled(hot: Hot) -> str:
    return f"{hot.kind} {hot.place[0]} `{hot.place[1]}`"


TABLES: dict[str, tuple[Sequence[str], Callable[[ScaleWorld], Iterable[Sequence[str]]]]] = {
    "lags": (("kind", "runs", "due to queued, p50 / p99 / worst s", "due to started s"), lags),
    "concurrency": (
        (
            "scanners, mean / peak",
            "longest s",
            "timed out",
            "ticker's longest s, timed out",
            "ticks",
            "windows that served / found it done / held",
            "API calls at once",
            "workers' batches at once",
            "messages in flight",
            "throttled calls",
        ),
        concurrency,
    ),
    "tables": (("busiest table", "write units /s", "read units /s"), tables),
    "partitions": (("fullest partition keys", "units in a second", "of the limit", "throttled"), partitions),
}
