"""Fire lag and load on the deployed local stack: CDK's stacks on MiniStack, API, Lambdas and worker processes.

`make bench-lag`: a steady rate, a burst due in one second, and rates stepped up until one is not held; `make
bench-lag-rate`: only the last. All of it from records: the ledger, the scanner's log lines, the workers' notes. Ends
with 1 when a timer was lost.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lag import cpu
from benchmarks.lag.stack import Created, Order, Stack, deployed, orders_at_once, steady_orders
from benchmarks.lag.stages import FIRE_LAG, START_LAG, Measured, measured, rows, why_not_held
from benchmarks.percentiles import percentile

WORK = Path(__file__).resolve().parents[2] / "build" / "lag"
DRAIN_WITHIN_S = 120
WARM_UP = (10, 5)
"""Rate and seconds of a load that is not counted: every function has been started cold by then."""
LEAD_S = 250
"""From creation to the due second: the ticker brings the ticks. Below 240 a creator may have to."""
BURST_LEAD_S = 20
BURST_DRAINS_S = 60
"""What is left for creating all of the ladder, and for the burst to drain, before the ladder begins."""
RATES = (40, 80, 120, 140, 160, 180)
RATE_FOR_S = 20
RATE_GAP_S = 8
"""Between two rates: what is left of one is worked off, and read."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20, help="timers due in each second")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--lead", type=int, default=LEAD_S, help="seconds ahead; under 240 creators bring the ticks")
    parser.add_argument("--burst", type=int, default=2_000, help="timers due in one second; 0: none")
    parser.add_argument("--find-rate", action="store_true", help="only the rates")
    parser.add_argument("--rates", type=int, nargs="+", default=RATES, help="stepped through until one is not held")
    parser.add_argument("--workers", type=int, default=4, help="worker processes")
    parser.add_argument("--port", type=int, help="of the endpoint; a free one")
    parser.add_argument("--seed", type=int, default=1, help="of the instants at which timers are created")
    chosen = parser.parse_args()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    with deployed(WORK, chosen.port, chosen.workers) as stack:
        stack.wake_ticker()
        bench = Bench(stack, random.Random(chosen.seed))
        bench.steady(*WARM_UP, lead_s=10)
        print(f"{machine()}\n", flush=True)
        lost = 0
        if chosen.find_rate:
            ladder = create_ladder(bench, chosen.rates, int(time.time()) + LEAD_S)
        else:
            until_climb_s = chosen.lead + chosen.seconds + BURST_LEAD_S + BURST_DRAINS_S
            ladder = create_ladder(bench, chosen.rates, int(time.time()) + until_climb_s)
            lost = steady_and_burst(bench, chosen.rate, chosen.seconds, chosen.lead, chosen.burst)
        lost += climb(bench, ladder)
    sys.exit(1 if lost else 0)


class Bench:
    """Runs loads, and keeps what CPU each took."""

    def __init__(self, stack: Stack, drawn: random.Random) -> None:
        self.stack, self._drawn = stack, drawn
        self.cpu: list[tuple[str, float, cpu.Seconds]] = []
        """Of the last load: part of it, its seconds of wall time, the seconds of CPU."""

    def steady(self, rate: int, seconds: int, lead_s: int) -> Measured:
        """A rate of creations, and so much later the same rate of firings."""
        first = int(time.time()) + lead_s + 1
        return self._load(steady_orders(rate, seconds, first, lead_s, self._drawn), "creating")

    def burst(self, count: int, lead_s: int) -> Measured:
        return self._load(orders_at_once({int(time.time()) + lead_s: count}), "creating")

    def _load(self, orders: Sequence[Order], creating: str) -> Measured:
        since_ms = time.time_ns() // 1_000_000
        self.cpu = []
        created = self.spending(creating, lambda: self.stack.create(orders))
        self.spending("to the last end", lambda: self.drain(created, DRAIN_WITHIN_S))
        return self.measured(created, since_ms)

    def drain(self, created: Created, within_s: float) -> None:
        due_s = max((key.fire_second for key in created.keys), default=0)
        time.sleep(max(0.0, due_s - time.time()))
        self.stack.await_called(created.keys, within_s)

    def measured(self, created: Created, since_ms: int) -> Measured:
        return measured(
            (key.fire_at_ms for key in created.keys),
            self.stack.ended_runs(created.keys),
            self.stack.windows(since_ms),
            self.stack.notes("received"),
            refused=created.refused,
            margin_ms=created.margin_ms,
        )

    def spending[T](self, what: str, act: Callable[[], T]) -> T:
        before, began_s = self.stack.cpu(), time.monotonic()
        done = act()
        self.cpu.append((what, time.monotonic() - began_s, cpu.less(self.stack.cpu(), before)))
        return done


def steady_and_burst(bench: Bench, rate: int, seconds: int, lead_s: int, burst: int) -> int:
    """How many were lost."""
    loads = [(f"{rate}/s for {seconds} s", bench.steady(rate, seconds, lead_s), bench.cpu)]
    if burst:
        loads.append((f"{burst} in one second", bench.burst(burst, BURST_LEAD_S), bench.cpu))
    print("| load | stage | runs | p50 s | p99 s | worst s |\n|---|---|---|---|---|---|")
    print("\n".join(row for name, load, _ in loads for row in rows(name, load)))
    print(f"\n| load | part | wall s | {' | '.join(f'{part}, CPU s' for part in cpu.PARTS)} | CPU ms a timer |")
    print(f"|---|---|---|{'---|' * (len(cpu.PARTS) + 1)}")
    for name, load, parts in loads:
        for what, wall_s, spent in parts:
            figures = " | ".join(f"{spent[part]:.1f}" for part in cpu.PARTS)
            a_timer = 1_000 * sum(spent.values()) / max(1, load.created)
            print(f"| {name} | {what} | {wall_s:.0f} | {figures} | {a_timer:.0f} |")
    print()
    for name, load, _ in loads:
        print(f"- {name}: {summary(load)}")
    print(f"- {loads[0][0]}: {why_not_held(loads[0][1]) or 'held'}", flush=True)
    return sum(load.lost for _, load, _ in loads)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rates that follow each other, each with the second at which it begins, and the timers of all."""

    begins: Mapping[int, int]
    created: Created


def create_ladder(bench: Bench, rates: Sequence[int], first: int) -> Ladder:
    """All its timers are created before the first is due, far enough ahead for the ticker to bring the ticks: what is
    seen at a rate is then firing and running alone."""
    begins = {rate: first + i * (RATE_FOR_S + RATE_GAP_S) for i, rate in enumerate(rates)}
    return Ladder(
        begins,
        bench.stack.create(orders_at_once({begins[rate] + i: rate for rate in rates for i in range(RATE_FOR_S)})),
    )


def climb(bench: Bench, ladder: Ladder) -> int:
    """Rate after rate until one is not held. How many were lost of those that were awaited."""
    parts = ", ".join(cpu.PARTS)
    print(f"\n{RATE_FOR_S} s of each rate, timers created before: {len(ladder.created.keys)}\n")
    print(f"| rate /s | fire lag p50 / p99 s | due to started p50 / p99 s | drained s | lost | cores: {parts} | held |")
    print("|---|---|---|---|---|---|---|", flush=True)
    highest = lost = 0
    for rate, begin in ladder.begins.items():
        load = _load_of_rate(bench, ladder.created, begin)
        lost += load.lost
        why = why_not_held(load)
        print(
            f"| {rate} | {_p50_p99(load, FIRE_LAG)} | {_p50_p99(load, START_LAG)} | {load.drained_ms / 1_000:.1f} "
            f"| {load.lost} | {_busy(bench)} | {why or 'yes'} |",
            flush=True,
        )
        if why:
            break
        highest = rate
    print(f"\nhighest steady rate held: {highest}/s", flush=True)
    return lost


def _load_of_rate(bench: Bench, created: Created, begin: int) -> Measured:
    """The timers of one rate, when they have ended; their share of the CPU is that until the last is due."""
    seconds = range(begin, begin + RATE_FOR_S)
    own = Created([key for key in created.keys if key.fire_second in seconds], created.refused, created.margin_ms)
    time.sleep(max(0.0, begin - time.time()))
    bench.cpu = []
    bench.spending("firing", lambda: time.sleep(max(0.0, seconds[-1] + 1 - time.time())))
    bench.drain(own, DRAIN_WITHIN_S)
    return bench.measured(own, begin * 1_000)


def machine() -> str:
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the first load"


def summary(load: Measured) -> str:
    return (
        f"{load.created} accepted, {len(load.ended)} ended, {load.lost} lost, {load.refused} refused at creation, "
        f"{load.again} attempted again; the last one ended {load.drained_ms / 1_000:.1f} s after the last was due"
    )


def _p50_p99(load: Measured, stage: str) -> str:
    values = load.of(stage)
    return " / ".join(f"{percentile(values, percent) / 1_000:.2f}" for percent in (50, 99)) if values else "-"


def _busy(bench: Bench) -> str:
    """Cores, by part, while timers were due."""
    _, wall_s, spent = bench.cpu[0]
    return ", ".join(f"{spent[part] / wall_s:.2f}" for part in cpu.PARTS)


if __name__ == "__main__":
    main()
