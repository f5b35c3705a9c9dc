"""The engine asked the same as the oracle: ahead, back, from anywhere, and when a job is fired."""

from __future__ import annotations

import json
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.oracle.draw import draw_case, draw_edges, edges_of
from tests.oracle.model import Case, Expected
from tickwork.core.jobs import occurrences
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import ScheduleRefused, next_after, parse_calendar, prev_before, read_schedule

Draw = Callable[[random.Random], Case]

JUMPS = 8
WALKED_MAX = 1_500
"""Occurrences walked from either end of a stretch; what lies between them is asked for here and there."""

YEARS_S = 1_704_067_200, 1_893_456_000
"""From 2024 to 2030: what is refused as never due is not due in them."""

FIRED = 6
TOLERANCES_S = (60, 300, 3_600)


@dataclass
class Report:
    schedules: int = 0
    refused: int = 0
    stretches: int = 0
    compared: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.schedules} schedules ({self.refused} refused), {self.stretches} stretches, {self.compared} "
            f"occurrences compared, {len(self.differences)} differences"
        )


def soak(
    count: int,
    seed: int,
    *,
    first: int = 0,
    draw: Draw = draw_case,
    whole_years: bool = True,
    first_only: bool = False,
) -> Report:
    """Compare `count` random schedules, from number `first` of the seed on."""
    report = Report()
    for number in range(first, first + count):
        _compare(random.Random(f"{seed}.{number}"), report, draw, whole_years=whole_years)
        if first_only and report.differences:
            break
    return report


def _compare(rng: random.Random, report: Report, draw: Draw, *, whole_years: bool) -> None:
    case = draw(rng)
    report.schedules += 1
    try:
        calendars = {spec["name"]: parse_calendar(spec) for spec in case.calendars}
        schedule = read_schedule(case.spec, now_ms=case.now_ms)
    except ScheduleRefused as error:
        report.refused += 1
        if error.reason not in ("never_fires", "end_before_start", "moved_too_often", "bad_rrule", "nested"):
            report.differences.append(f"{_shown(case)}: refused, {error.reason}: {error.detail}")
        if error.reason == "never_fires" and "any_of" not in case.spec and Expected(case, *YEARS_S).instants:
            report.differences.append(f"{_shown(case)}: refused, {error.detail}; but it is due")
        return
    job = Job("team", f"job-{rng.randrange(1000)}", schedule.spec, Work.__new__(Work), calendars=calendars)
    edges = edges_of(case, [at for closed in Expected(case, 0, 0).closed for at in closed.edges()])
    windows = draw_edges(rng, case, edges)
    for low, high in windows if whole_years else windows[:-1]:
        expected = Expected(case, low, high)
        report.stretches += 1
        report.compared += len(expected.instants)
        for difference in _differences(rng, expected, schedule, job, low, high):
            report.differences.append(f"{_shown(case)} in {low}..{high}: {difference}")
            break


def _differences(rng: random.Random, expected: Expected, schedule: object, job: Job, low: int, high: int) -> list[str]:
    right, calendars, found = expected.instants, job.calendars, []

    def following(at: int) -> int | None:
        answer = next_after(schedule, at * 1000, calendars)  # type: ignore[arg-type]
        return None if answer is None or answer > high * 1000 else answer // 1000

    def previous(at: int) -> int | None:
        answer = prev_before(schedule, at * 1000, calendars)  # type: ignore[arg-type]
        return None if answer is None or answer <= low * 1000 else answer // 1000

    ahead = _walk(following, low)
    if ahead != right[:WALKED_MAX]:
        found.append(f"ahead {_first_difference(ahead, right[:WALKED_MAX])}")
    back = _walk(previous, high + 1)[::-1]
    if back != right[-WALKED_MAX:]:
        found.append(f"back {_first_difference(back, right[-WALKED_MAX:])}")
    for at in (rng.randrange(low + 1, high) for _ in range(JUMPS)):
        place, before = bisect_right(right, at), bisect_left(right, at) - 1
        if following(at) != (right[place] if place < len(right) else None):
            found.append(f"after {at}: {following(at)}")
        if previous(at) != (right[before] if before >= 0 else None):
            found.append(f"before {at}: {previous(at)}")
    for at in {*right[-1:], *rng.sample(right, min(FIRED, len(right)))}:
        tolerance_s = rng.choice(TOLERANCES_S)
        right_ms = expected.fires_at(at, job.job_id, tolerance_s) * 1000
        upcoming = occurrences.following(_with(job, tolerance_s), at * 1000 - 1, 4)
        if upcoming is None or upcoming.fire_at_ms != right_ms:
            found.append(f"{at} with {tolerance_s} s: fired at {upcoming}, not {right_ms}")
    return found


def _with(job: Job, tolerance_s: int) -> Job:
    return Job(job.team, job.name, job.schedule, job.work, tolerance_s=tolerance_s, calendars=job.calendars)


def _walk(step: object, at: int) -> list[int]:
    found: list[int] = []
    following = step(at)  # type: ignore[operator]
    while following is not None and len(found) < WALKED_MAX:
        found.append(following)
        following = step(following)  # type: ignore[operator]
    return found


def _first_difference(got: list[int], right: list[int]) -> str:
    extra, missing = sorted(set(got) - set(right)), sorted(set(right) - set(got))
    return f"has {extra[:3]} and lacks {missing[:3]}"


def _shown(case: Case) -> str:
    return json.dumps({"spec": case.spec, "calendars": case.calendars, "now_ms": case.now_ms})
