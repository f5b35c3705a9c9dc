"""Measures the schedule engine against croniter and cronsim, in one run, as ratios.

    python -m benchmarks.bench_schedule [--write benchmarks/schedule.md]

Ratios matter; the microseconds are those of the machine at hand. Each figure is the best of several rounds.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from benchmarks.nasty import nasty_specs
from tickwork.core.schedule import (
    TZDATA_VERSION,
    ScheduleRefused,
    default_tolerance_s,
    describe,
    first_due,
    next_after,
    parse_schedule,
    schedule_from_spec,
    scheduled_between,
    warnings_of,
)
from tickwork.core.schedule.cron.expression import parse_expression
from tickwork.core.schedule.parse import _from_json
from tickwork.core.schedule.rrule import parse_rrule
from tickwork.core.schedule.zone import zone_named

EXPRESSIONS = (
    "* * * * *", "*/5 * * * *", "0 * * * *", "0 2 * * *", "30 8 * * 1-5", "0 0 1 * *", "15,45 9-17 * * *",
    "0 0 */2 * 1", "0 12 1,15 * 5", "0 0 29 2 *",
)  # fmt: skip
ZONE = "America/New_York"
START = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)
START_MS = round(START.timestamp()) * 1000
ROUNDS = 7
JOBS, OCCURRENCES = 10_000, 1_000_000


@dataclass(frozen=True)
class Row:
    """Microseconds for one expression."""

    expression: str
    parse: tuple[float, float, float]
    next: tuple[float, float, float]


def best_us(call: Callable[[], object], times: int) -> float:
    """Microseconds per call, the best of `ROUNDS` rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(times):
            call()
        best = min(best, (time.process_time() - began) / times)
    return best * 1e6


def measure(expression: str) -> Row:
    local = START.astimezone(ZoneInfo(ZONE))
    parse = (
        best_us(lambda: parse_expression(expression).wall_times(), 300),
        best_us(lambda: CronSim(expression, local), 300),
        best_us(lambda: croniter(expression, local), 100),
    )
    return Row(expression, parse, (ours(expression), cronsims(expression, local), croniters(expression, local)))


def ours(expression: str) -> float:
    """Next of a parsed schedule, each call continuing from the last answer, as the scanner does."""
    schedule = parse_schedule({"cron": expression, "zone": ZONE}, now_ms=START_MS)
    steps = 8 if expression == "0 0 29 2 *" else 300

    def walk() -> None:
        at: int | None = START_MS
        for _ in range(steps):
            assert at is not None
            at = next_after(schedule, at)

    return best_us(walk, 3) / steps


def cronsims(expression: str, local: datetime) -> float:
    steps = 8 if expression == "0 0 29 2 *" else 300

    def walk() -> None:
        job = CronSim(expression, local)
        for _ in range(steps):
            next(job)

    return max(best_us(walk, 3) - best_us(lambda: CronSim(expression, local), 50), 0.01) / steps


def croniters(expression: str, local: datetime) -> float:
    steps = 8 if expression == "0 0 29 2 *" else 100

    def walk() -> None:
        job = croniter(expression, local)
        for _ in range(steps):
            job.get_next(datetime)

    return max(best_us(walk, 1) - best_us(lambda: croniter(expression, local), 20), 0.01) / steps


def leap_day_cold_ms() -> float:
    """`0 0 29 2 *` from reading the stored form to its next occurrence, with no zone segments at hand."""
    spec = parse_schedule({"cron": "0 0 29 2 *", "zone": ZONE}, now_ms=START_MS).spec
    worst_of_best = float("inf")
    for _ in range(ROUNDS):
        zone_named.cache_clear()
        _from_json.cache_clear()
        zone_named(ZONE)  # the zone file is read once per process
        began = time.process_time()
        assert next_after(schedule_from_spec(spec), START_MS) is not None
        worst_of_best = min(worst_of_best, time.process_time() - began)
    return worst_of_best * 1e3


def million() -> tuple[int, float]:
    """(occurrences, seconds) for 10,000 jobs of mixed kinds, each read from its stored form."""
    zones = ("America/New_York", "Europe/Berlin", "Asia/Kolkata", "UTC", "Australia/Lord_Howe")
    shapes = ("{m} {h} * * *", "{m} * * * *", "*/{s} * * * *", "{m} {h} * * 1-5", "{m} {h} 1 * *")
    specs = []
    for number in range(JOBS):
        text = shapes[number % 5].format(m=number % 60, h=number // 60 % 24, s=(5, 10, 15)[number % 3])
        specs.append(parse_schedule({"cron": text, "zone": zones[number // 5 % 5]}, now_ms=START_MS).spec)
    _from_json.cache_clear()
    each = OCCURRENCES // JOBS
    began = time.process_time()
    found = 0
    for spec in specs:
        walk = scheduled_between(schedule_from_spec(spec), START_MS, 1 << 50)
        found += sum(1 for _ in zip(range(each), walk, strict=False))
    return found, time.process_time() - began


def registration_ms(spec: dict[str, Any]) -> float:
    """What a registration does with a spec, stores aside and with nothing remembered, the best of `ROUNDS` rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        for cache in (_from_json, parse_rrule, zone_named):
            cache.cache_clear()
        began = time.process_time()  # the work, whatever else the machine does
        with suppress(ScheduleRefused):
            schedule = parse_schedule(spec, now_ms=START_MS, job_id="team:job")
            warnings_of(schedule), describe(schedule), default_tolerance_s(schedule)
            if not schedule.calendar_names:
                first_due(schedule, START_MS)
        best = min(best, time.process_time() - began)
    return best * 1e3


def dearest(count: int = 5) -> str:
    """The dearest of a corpus of nasty specs, in Markdown."""
    taken = sorted(((registration_ms(spec), name) for name, spec in nasty_specs().items()), reverse=True)
    return "".join(f"| {name} | {ms:.1f} |\n" for ms, name in taken[:count])


HEAD = """\
# The schedule engine, measured

`python -m benchmarks.bench_schedule --write benchmarks/schedule.md`, {python} on one core, croniter {croniter},
cronsim {cronsim}, tzdata {tzdata}.

Microseconds of processor time per call, best of {rounds} rounds, in one run; zone {zone}. A ratio under 1 is faster than the other
library. *next* continues from the last answer, on a schedule that is already parsed; *parse* is the expression
alone, without any cache.

| expression | parse: ours | cronsim | croniter | ratio to cronsim | next: ours | cronsim | croniter | **ratio to cronsim** | to croniter |
|---|---|---|---|---|---|---|---|---|---|
"""  # noqa: E501 - a row of a Markdown table is one line
TAIL = """
- Hot path, worst ratio to cronsim: **{worst:.2f}** (required: at most 1.5).
- `0 0 29 2 *`, from the stored form to its next occurrence with nothing cached but the zone file:
  **{leap_ms:.2f} ms** (required: 2 ms).
- {count:,} occurrences of {jobs:,} jobs, each read from its stored form: {seconds:.1f} s,
  **{rate:,.0f} per second and core**.

The dearest registrations of a corpus of nasty specs (`benchmarks/nasty.py`, {nasty} of them), accepted or refused, with
nothing remembered, in milliseconds of processor time (required: at most 50):

| spec | ms |
|---|---|
{dearest}"""


def report() -> str:
    """The whole report, in Markdown."""
    rows = [measure(expression) for expression in EXPRESSIONS]
    count, seconds = million()
    head = HEAD.format(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        croniter=version("croniter"),
        cronsim=version("cronsim"), tzdata=TZDATA_VERSION, rounds=ROUNDS, zone=ZONE,
    )  # fmt: skip
    tail = TAIL.format(
        worst=max(row.next[0] / row.next[1] for row in rows), leap_ms=leap_day_cold_ms(), count=count,
        jobs=JOBS, seconds=seconds, rate=count / seconds, nasty=len(nasty_specs()), dearest=dearest(),
    )  # fmt: skip
    return head + "".join(map(line, rows)) + tail


def line(row: Row) -> str:
    """One row of the table."""
    parse, following = row.parse, row.next
    return (
        f"| `{row.expression}` | {parse[0]:.1f} | {parse[1]:.1f} | {parse[2]:.1f} "
        f"| {parse[0] / parse[1]:.2f} | {following[0]:.2f} | {following[1]:.2f} | {following[2]:.2f} "
        f"| **{following[0] / following[1]:.2f}** | {following[0] / following[2]:.2f} |\n"
    )


def main() -> None:
    """Print the report, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    text = report()
    print(text)
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
