"""What a month costs with nothing due, by shards and slices; and what it costs to look for what is due.

`make bench-idle`. A virtual day of the real ticker, windows and reconciler on counting ports. What AWS asks of the
queues by itself (an event source polls with five pollers, twenty seconds each) and the Lambda invocations are added.
"""

from __future__ import annotations

import argparse
from collections import Counter

from benchmarks.meter.bill import LAMBDA, READS, SQS, WRITES, usd
from benchmarks.world import World, make_world
from tickwork.core.ledger.work import Work
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.runs import timers
from tickwork.ports import Layout
from tickwork.price.prices import PER_UNIT

DAYS = 30
POLLERS, POLL_S = 5, 20
WORKER_POLL_S = 20
SCANNER_GB_S, TICKER_GB_S, RECONCILER_GB_S = 0.08 * 1.0, 0.15 * 0.5, 0.3 * 0.5
"""Seconds an idle invocation takes (assumed: some ten calls of 8 ms each) by its memory (infra/functions.py)."""
LINE_BYTES = 270
"""What a run of the ticker or the reconciler says of itself, with CloudWatch's overhead. A window that has nothing to
do says nothing."""
ENVIRONMENTS = (("dev", 4, 2), ("staging", 64, 8), ("prod", 64, 16), ("large", 1_024, 64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    chosen = parser.parse_args()
    print("### Idle: dollars a month with nothing due\n")
    print("| settings | shards | slices | writes | reads | SQS | Lambda, schedules | log lines | together |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, shards, slices in ENVIRONMENTS:
        hours = chosen.hours if shards < 1_000 else min(chosen.hours, 2)
        world = make_world(Layout(shards=shards, slices=slices))
        idle(world, hours * 60)
        print(row(name, shards, slices, month(world, hours / 24)))
    alarm, board = PER_UNIT["cloudwatch_alarm_month"], PER_UNIT["cloudwatch_dashboard_month"]
    print(f"\nNot in it: {alarm:.2f} for each alarm a month, {board:.2f} for each dashboard beyond the third,")
    print(
        f"{PER_UNIT['cloudwatch_metric_month']:.2f} for each custom metric; a worker's long poll: "
        f"{usd({SQS: DAYS * 86_400 / WORKER_POLL_S}):.2f}."
    )
    lookahead()


def idle(world: World, minutes: int) -> None:
    with world.bill.step("(first)"):
        issue_ticks(world.ports)
    for minute in range(minutes):
        with world.bill.step("ticker"):
            world.bill.add("ticker", lambda_requests=1, lambda_gb_s=TICKER_GB_S, scheduler_invocations=1)
            issue_ticks(world.ports)
        if minute % 5 == 0:
            with world.bill.step("reconciler"):
                world.bill.add("reconciler", lambda_requests=1, lambda_gb_s=RECONCILER_GB_S, scheduler_invocations=1)
                reconcile(world.ports)
        world.clock.sleep_ms(59_000)  # the keep-alive tick is at the last second of the minute
        with world.bill.step("scanner"):
            ran = world.windows("scanner")
            world.bill.add("scanner", lambda_gb_s=ran * SCANNER_GB_S)
        world.clock.sleep_ms(1_000)


def month(world: World, days: float) -> Counter[str]:
    total: Counter[str] = Counter()
    for step, counts in world.bill.by_step.items():
        if not step.startswith("("):
            total.update(counts)
    total[SQS] += round(days * 86_400 / POLL_S * POLLERS)
    total["logs_gb"] += total["scheduler_invocations"] * LINE_BYTES / 1e9  # type: ignore[assignment]
    return Counter({name: n * DAYS / days for name, n in total.items()})


def row(name: str, shards: int, slices: int, counts: Counter[str]) -> str:
    groups = ((WRITES,), (READS,), (SQS,), (LAMBDA, "lambda_gb_s", "scheduler_invocations"), ("logs_gb",))
    figures = " | ".join(f"{usd({n: counts[n] for n in group}):.2f}" for group in groups)
    return f"| {name} | {shards} | {slices} | {figures} | {usd(counts):.2f} |"


def lookahead() -> None:
    """What the ticker reads to know which seconds are due, when some are."""
    print("\n### Looking ahead: read units a minute of a slice of 8 shards, by how much is due\n")
    print("| timers due a second | read units a minute | ticks a minute | $ a month for the slice |\n|---|---|---|---|")
    for per_second in (0, 0.1, 1, 10, 100):
        world = make_world(Layout(shards=8, slices=1))
        issue_ticks(world.ports)
        now_ms = world.clock.now_ms()
        count = int(60 * per_second)
        new = [
            timers.NewTimer(
                "payments", now_ms + 300_000 + int(i / per_second * 1_000), Work("default", "x", payload="{}")
            )
            for i in range(count)
        ]
        for begin in range(0, count, 100):
            timers.create_timers(world.ports, new[begin : begin + 100])
        world.bill.by_step.clear()
        for _ in range(2):  # the second of these looks at the minute that holds them
            world.clock.sleep_ms(60_000)
            with world.bill.step("ticker"):
                before = world.bill.by_step["ticker"][READS]
                ticks = issue_ticks(world.ports)
                reads = world.bill.by_step["ticker"][READS] - before
        print(f"| {per_second} | {reads:.0f} | {ticks - 1} | {usd({READS: reads * 43_200}):.2f} |")


if __name__ == "__main__":
    main()
