"""The design scale on paper: 50 million timers a day, 50,000 a second in a burst, 142,000 due in a second at midnight.

`make bench-scale`. A model, not a measurement: each slice's windows one after the other, every call of a window drawn
from a latency, with the step sizes of our own flows (how many items a page, a transaction, a batch hold) and the CPU
that `make bench-scan` measures. Limits of partitions are checked on the fullest of the shards, hashed as ours are.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tickwork.aws.sqs import BATCH_MESSAGES_MAX
from tickwork.core.ids import shard_of
from tickwork.core.writes import TRANSACTION_WRITES_MAX
from tickwork.flows.windows import PAGE_ITEMS_MAX
from tickwork.store.dynamodb import BATCH_GET_MAX

SHARD_WRITES_MAX, SHARD_READS_MAX = 1_000, 3_000
"""Units a second of one partition key (DynamoDB developer guide, "best practices for partition keys")."""
ITEM_BYTES, JOB_BYTES = 433, 598
"""`make bench-cost`, sizes of items."""
VCPU = 1_024 / 1_769
"""What the scanner's memory (infra/functions.py) buys of a vCPU."""
ONE_SHOT_CPU_S, JOB_CPU_S = 1 / 15_000 / VCPU, 1 / 3_800 / VCPU
"""`make bench-scan`, our code and boto3 together."""
JOBS_PER_TRANSACTION = (TRANSACTION_WRITES_MAX - 1) // 2
TICK_DELAY_S = (0.05, 0.4)
"""From a tick's second to the scanner's first line: median and 99th percentile of SQS's delay and a warm invocation."""


@dataclass(frozen=True)
class Latency:
    """Log-normal, by its median and its 99th percentile, in seconds."""

    median_s: float
    p99_s: float

    def draw(self, rng: random.Random) -> float:
        sigma = math.log(self.p99_s / self.median_s) / 2.326
        return self.median_s * math.exp(rng.gauss(0, sigma))


# AWS says "single-digit milliseconds" of DynamoDB, "tens of milliseconds" of SQS, no more: these are on the slow side.
GET, QUERY, WRITE = Latency(0.004, 0.015), Latency(0.006, 0.025), Latency(0.006, 0.025)
TRANSACTION, BATCH_GET, SEND = Latency(0.035, 0.150), Latency(0.012, 0.050), Latency(0.010, 0.060)


@dataclass(frozen=True)
class Scale:
    shards: int = 1_024
    slices: int = 64
    send_threads: int = 1


def window_s(rng: random.Random, scale: Scale, one_shots: int, jobs: int) -> Iterator[tuple[float, int, int]]:
    """A window: (seconds since it began, one-shots, jobs) sent by then, batch by batch."""
    shards = scale.shards // scale.slices
    now = GET.draw(rng) + WRITE.draw(rng)
    items = one_shots + jobs
    pages = max(shards, -(-items // PAGE_ITEMS_MAX))
    read_s = sum(QUERY.draw(rng) for _ in range(pages))
    if items == 0:
        yield now + read_s, 0, 0
        return
    rounds = -(-items // PAGE_ITEMS_MAX)
    for index in range(rounds):
        now += read_s / rounds
        some = [n * (index + 1) // rounds - n * index // rounds for n in (one_shots, jobs)]
        for _ in range(-(-some[1] // BATCH_GET_MAX)):
            now += BATCH_GET.draw(rng)
        for _ in range(-(-some[1] // JOBS_PER_TRANSACTION)):
            now += TRANSACTION.draw(rng)
        now += some[0] * ONE_SHOT_CPU_S + some[1] * JOB_CPU_S
        sends = -(-sum(some) // BATCH_MESSAGES_MAX)
        now += sum(SEND.draw(rng) for _ in range(sends)) / min(scale.send_threads, sends)
        yield now, some[0], some[1]


@dataclass
class Lags:
    one_shots: list[float]
    jobs: list[float]
    busiest_s: float = 0.0
    """Of one window, the longest."""
    busy_s: float = 0.0
    """Of all slices together."""


def run(scale: Scale, due: dict[int, tuple[int, int]], seconds: int, seed: int) -> Lags:
    """Windows of every slice for some seconds; `due` by second: (one-shots, jobs) of all slices together."""
    rng = random.Random(seed)
    lags = Lags([], [])
    for _ in range(scale.slices):
        free_at, served = 0.0, -1
        for second in range(seconds):
            begin = max(second + Latency(*TICK_DELAY_S).draw(rng), free_at)
            until = int(begin)
            if until <= served:
                continue
            seconds_due = range(served + 1, until + 1)
            counts = [sum(_share(rng, due.get(s, (0, 0))[kind], scale.slices) for s in seconds_due) for kind in (0, 1)]
            end = begin
            for at_s, one_shots, jobs in window_s(rng, scale, *counts):
                end = begin + at_s
                lag_s = end - (served + 1)  # the oldest of them: on the safe side
                lags.one_shots += [lag_s] * one_shots
                lags.jobs += [lag_s] * jobs
            end += WRITE.draw(rng)
            lags.busiest_s = max(lags.busiest_s, end - begin)
            lags.busy_s += end - begin
            free_at, served = end, until
    return lags


def _share(rng: random.Random, n: int, slices: int) -> int:
    """How many of n fall into one slice: binomial, by its normal approximation."""
    mean = n / slices
    return max(0, round(rng.gauss(mean, math.sqrt(mean * (1 - 1 / slices))))) if n else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    base = Scale()
    steady, burst = 600, 50_000
    cases = (
        ("50 M a day, even", dict.fromkeys(range(120), (steady, 0))),
        ("50,000 a second for a minute", dict.fromkeys(range(30, 90), (burst, 0))),
        ("midnight: 142,000 in one second, all of them timers", {30: (142_000, 0)}),
        ("midnight: 42,000 timers and 100,000 exact cron jobs in one second", {30: (42_000, 100_000)}),
        (
            "midnight: 42,000 timers in one second, 100,000 default cron jobs over 300 s",
            {s: (42_000 if s == 30 else 0, 333) for s in range(30, 330)},
        ),
    )
    print(
        "| load | slices | sends at once | timers p50 / p99 / worst s | cron p99 s | longest window s "
        "| scanners busy, mean |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, due in cases:
        for scale in (base, replace(base, send_threads=8), replace(base, slices=256, send_threads=8)):
            seconds = max(due) + 60
            lags = run(scale, due, seconds, chosen.seed)
            show(name, scale, lags, seconds)
    print()
    partitions(base, chosen.seed)


def show(name: str, scale: Scale, lags: Lags, seconds: int) -> None:
    timers = sorted(lags.one_shots)
    jobs = sorted(lags.jobs)
    of_timers = " / ".join(f"{at(timers, q):.2f}" for q in (0.5, 0.99, 1)) if timers else "-"
    of_jobs = f"{at(jobs, 0.99):.2f}" if jobs else "-"
    print(
        f"| {name} | {scale.slices} | {scale.send_threads} | {of_timers} | {of_jobs} | {lags.busiest_s:.2f} "
        f"| {lags.busy_s / seconds:.1f} of {scale.slices} |"
    )


def at(ordered: list[float], quantile: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * quantile))]


def partitions(scale: Scale, seed: int) -> None:
    """The fullest partition of each table, against what one key takes."""
    loads = [0] * scale.shards
    for i in range(142_000):
        loads[shard_of(f"payments:{seed}-{i}", scale.shards)] += 1
    fullest, mean = max(loads), 142_000 / scale.shards
    spread = fullest / mean
    read_units = fullest * ITEM_BYTES / 4_096
    burst = 50_000 / scale.shards * (1 + 4 / math.sqrt(50_000 / scale.shards))
    rows = (
        ("a minute of a shard, 142,000 due in a second: the scanner's read", read_units, SHARD_READS_MAX),
        ("the same, all started within a second", fullest, SHARD_WRITES_MAX),
        ("the same, next items of 100,000 jobs written in a second", 2 * fullest * 100 / 142, SHARD_WRITES_MAX),
        ("a minute of a shard, 50,000 a second created, started and completed", 3 * burst, SHARD_WRITES_MAX),
        (
            f"a slice's lease, 50,000 near timers a second created one by one, {scale.slices} slices",
            50_000 / scale.slices,
            SHARD_READS_MAX,
        ),
        ("the same with 8 slices", 50_000 / 8, SHARD_READS_MAX),
        ("the jobs of one team in its index, registered at 2,000 a second", 2_000, SHARD_WRITES_MAX),
        ("the fair share of a shard with 64 shards: whole lives a second", 50_000 / 64 * 3, SHARD_WRITES_MAX),
    )
    print(f"Fullest of {scale.shards} shards: {fullest} of 142,000, {spread:.2f} of the mean.\n")
    print("| partition key | units a second | limit | |\n|---|---|---|---|")
    for name, units, limit in rows:
        print(f"| {name} | {units:,.0f} | {limit:,} | {'HOT' if units > limit else f'{units / limit:.0%}'} |")


if __name__ == "__main__":
    main()
