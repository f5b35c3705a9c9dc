"""Fire lag and load on the deployed local stack: CDK's stacks on MiniStack, API, Lambdas and worker processes.

`make bench-lag`: a steady rate, then a burst due in one second. `make bench-lag-rate`: the highest steady rate. All of
it from records: the ledger, the scanner's log lines, the workers' notes. Ends with 1 when a timer was lost.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.lag import cpu
from benchmarks.lag.stack import Created, Order, Stack, burst_orders, deployed, steady_orders
from benchmarks.lag.stages import FIRE_LAG, START_LAG, Measured, measured, percentile, rows, why_not_held

WORK = Path(__file__).resolve().parents[2] / "build" / "lag"
DRAIN_WITHIN_S = 120
WARM_UP = (10, 5)
"""Rate and seconds of a load that is not counted: every function has been started cold by then."""
RATES = (20, 40, 60, 80, 100, 120, 140, 160)
RATE_FOR_S = 30
BURST_LEAD_S = 40
"""The burst's timers are created meanwhile, at some 150 a second."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20, help="timers due in each second")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--lead", type=int, default=20, help="seconds ahead; under 240 creators bring the ticks")
    parser.add_argument("--burst", type=int, default=2_000, help="timers due in one second; 0: none")
    parser.add_argument("--find-rate", action="store_true", help=f"instead: {RATE_FOR_S} s of each of {RATES}")
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    parser.add_argument("--port", type=int, help="of the endpoint; a free one")
    parser.add_argument("--seed", type=int, default=1, help="of the instants at which timers are created")
    chosen = parser.parse_args()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    with deployed(WORK, chosen.port, chosen.workers) as stack:
        stack.wake_ticker()
        bench = Bench(stack, random.Random(chosen.seed))
        bench.steady(*WARM_UP, lead_s=10)
        if chosen.find_rate:
            lost = find_rate(bench, chosen.lead)
        else:
            lost = steady_and_burst(bench, chosen.rate, chosen.seconds, chosen.lead, chosen.burst)
    sys.exit(1 if lost else 0)


class Bench:
    """Runs loads, one after the other, and keeps what CPU each took."""

    def __init__(self, stack: Stack, drawn: random.Random) -> None:
        self._stack, self._drawn = stack, drawn
        self.cpu: list[tuple[str, float, cpu.Seconds]] = []
        """Of the last load: part of it, its seconds of wall time, the seconds of CPU."""

    def steady(self, rate: int, seconds: int, lead_s: int) -> Measured:
        first = int(time.time()) + lead_s + 1
        return self._load(steady_orders(rate, seconds, first, lead_s, self._drawn), "creating and firing")

    def burst(self, count: int, lead_s: int) -> Measured:
        return self._load(burst_orders(count, int(time.time()) + lead_s), "creating")

    def _load(self, orders: Sequence[Order], creating: str) -> Measured:
        since_ms = time.time_ns() // 1_000_000
        self.cpu = []
        created: Created = self._spending(creating, lambda: self._stack.create(orders))
        self._spending("to the last end", lambda: self._drain(created))
        runs = self._stack.ended_runs(created.keys)
        return measured(
            (key.fire_at_ms for key in created.keys),
            runs,
            self._stack.windows(since_ms),
            self._stack.notes("received"),
            refused=created.refused,
            margin_ms=created.margin_ms,
        )

    def _drain(self, created: Created) -> None:
        due_s = max((key.fire_second for key in created.keys), default=0)
        time.sleep(max(0.0, due_s - time.time()))
        self._stack.await_called(created.keys, DRAIN_WITHIN_S)

    def _spending[T](self, what: str, act: Callable[[], T]) -> T:
        before, began_s = self._stack.cpu(), time.monotonic()
        done = act()
        self.cpu.append((what, time.monotonic() - began_s, cpu.less(self._stack.cpu(), before)))
        return done


def steady_and_burst(bench: Bench, rate: int, seconds: int, lead_s: int, burst: int) -> int:
    """How many were lost."""
    print(f"{machine()}; timers created {lead_s} s ahead\n")
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


def find_rate(bench: Bench, lead_s: int) -> int:
    """Step the rate up until it is not held. How many were lost up to the highest that was."""
    print(f"{machine()}; {RATE_FOR_S} s of each rate, timers created {lead_s} s ahead\n")
    print(
        "| rate /s | fire lag p50 / p99 s | due to started p50 / p99 s | drained s | lost | cores busy: "
        f"{', '.join(cpu.PARTS)} | held |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    highest = lost = 0
    for rate in RATES:
        load = bench.steady(rate, RATE_FOR_S, lead_s)
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
    print(f"\nhighest steady rate held: {highest}/s")
    return lost


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
    """Cores, by part, while timers were created and fired."""
    _, wall_s, spent = bench.cpu[0]
    return ", ".join(f"{spent[part] / wall_s:.2f}" for part in cpu.PARTS)


if __name__ == "__main__":
    main()
