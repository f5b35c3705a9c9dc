"""The herd forecast: how many occurrences are due in each minute of some days, before and after jitter, and whose (O6).

Owns the counting, which costs by schedules and not by jobs: jobs that share a schedule are due together, and differ by
their jitter alone. Refuses to know where the definitions come from, and what is paused or cancelled meanwhile. Protects
that it counts what dispatch does: the instants are the engine's, and the jitter is `fire_at_ms`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tickwork.core.instants import DAY_MS, MINUTE_MS, SECOND_MS
from tickwork.core.schedule import (
    Calendar,
    Schedule,
    fire_at_ms,
    has_end,
    next_after,
    rate_of,
    scheduled_between,
    start_limit_ms,
)

DAYS_MAX = 92
"""A quarter: 132,480 minutes."""
PEAKS_MAX = 20
DAY_MINUTES = DAY_MS // MINUTE_MS
_SPARE_MS = DAY_MS
"""The longest tolerance: what is nominally due before the first minute may fire in it."""


@dataclass(frozen=True, slots=True)
class Due:
    """A job, as far as it matters here. `calendars`: those that its schedule names."""

    job_id: str
    schedule: Schedule
    tolerance_s: int
    calendars: Mapping[str, Calendar] = field(default_factory=dict)

    @property
    def team(self) -> str:
        return self.job_id.partition(":")[0]


@dataclass(slots=True)
class Group:
    """Jobs that are due together and have the same tolerance: their nominal instants (with one more behind the last,
    if there is one), in milliseconds."""

    schedule: Schedule
    tolerance_s: int
    calendars: Mapping[str, Calendar]
    instants: Sequence[int]
    jobs: list[str] = field(default_factory=list)

    @property
    def is_exact(self) -> bool:
        return not self.tolerance_s


@dataclass(frozen=True, slots=True)
class Forecast:
    """Counts by minute from `begin_ms` on: `before` by nominal times, `after` by fire times."""

    begin_ms: int
    before: list[int]
    after: list[int]
    groups: list[Group]

    def minute_ms(self, index: int) -> int:
        return self.begin_ms + index * MINUTE_MS


def forecast(jobs: Iterable[Due], begin_ms: int, days: int) -> Forecast:
    """Of the whole minutes from `begin_ms` on."""
    begin_ms -= begin_ms % MINUTE_MS
    end_ms = begin_ms + days * DAY_MS
    minutes = (end_ms - begin_ms) // MINUTE_MS
    found = Forecast(begin_ms, [0] * minutes, [0] * minutes, _grouped(jobs, begin_ms, end_ms))
    for group in found.groups:
        for at_ms in group.instants:
            if begin_ms <= at_ms < end_ms:
                found.before[(at_ms - begin_ms) // MINUTE_MS] += len(group.jobs)
        for fires_ms, count in _firing(group):
            if begin_ms <= fires_ms < end_ms:
                found.after[(fires_ms - begin_ms) // MINUTE_MS] += count
    return found


def _grouped(jobs: Iterable[Due], begin_ms: int, end_ms: int) -> list[Group]:
    """Rates are the same from a period on, whenever they were anchored."""
    groups: dict[tuple[object, ...], Group] = {}
    for job in jobs:
        rate = rate_of(job.schedule)
        if rate is not None and rate[1] * SECOND_MS <= begin_ms - _SPARE_MS:
            key: tuple[object, ...] = (rate[0], rate[1] % rate[0], job.tolerance_s)
        elif job.schedule.exclusion is not None:
            key = (job.schedule.spec_json, job.tolerance_s, job.team)
        else:
            key = (job.schedule.spec_json, job.tolerance_s)
        group = groups.get(key)
        if group is None:
            instants = _instants(job, begin_ms, end_ms)
            group = groups[key] = Group(job.schedule, job.tolerance_s, job.calendars, instants)
        group.jobs.append(job.job_id)
    return list(groups.values())


def _instants(job: Due, begin_ms: int, end_ms: int) -> Sequence[int]:
    after_ms = begin_ms - min(_SPARE_MS, job.tolerance_s * SECOND_MS) - 1
    rate = rate_of(job.schedule)
    if rate is not None:
        period_ms, anchor_ms = rate[0] * SECOND_MS, rate[1] * SECOND_MS
        first_ms = max(anchor_ms, after_ms + period_ms - (after_ms - anchor_ms) % period_ms)
        return range(first_ms, end_ms + period_ms, period_ms)
    found = list(scheduled_between(job.schedule, max(0, after_ms), end_ms, job.calendars))
    behind = next_after(job.schedule, found[-1] if found else max(0, after_ms), job.calendars)
    return found if behind is None else [*found, behind]


def _firing(group: Group) -> Iterator[tuple[int, int]]:
    """When jobs of a group fire, and how many of them do then: to the second, or to the minute where all of that is in
    one."""
    if group.is_exact:
        yield from ((at_ms, len(group.jobs)) for at_ms in group.instants)
        return
    offsets = offsets_of(group.jobs, group.tolerance_s)
    by_minute = Counter[int]()
    for offset_ms, count in offsets.items():
        by_minute[offset_ms - offset_ms % MINUTE_MS] += count
    for at_ms, room_s in _rooms(group):
        if room_s < group.tolerance_s:
            for job_id in group.jobs:
                yield fire_at_ms(job_id, at_ms, room_s, None), 1
        else:
            for offset_ms, count in (offsets if at_ms % MINUTE_MS else by_minute).items():
                yield at_ms + offset_ms, count


def offsets_of(jobs: Iterable[str], tolerance_s: int) -> Counter[int]:
    """How many of some jobs fire so many milliseconds after their nominal time, where there is room."""
    return Counter(fire_at_ms(job_id, 0, tolerance_s, None) for job_id in jobs)


def _rooms(group: Group) -> Iterator[tuple[int, int]]:
    """Each instant, and the seconds that jitter may take from there."""
    if group.schedule.exclusion is None and not has_end(group.schedule):
        for at_ms, next_ms in pairwise(group.instants):
            yield at_ms, min(group.tolerance_s, (next_ms - at_ms) // SECOND_MS)
        if group.instants:
            yield group.instants[-1], group.tolerance_s
        return
    for at_ms in group.instants:
        limit_ms = start_limit_ms(group.schedule, at_ms, group.tolerance_s, group.calendars)
        yield at_ms, (limit_ms - at_ms) // SECOND_MS


# --- peaks ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Advice:
    """What could be done about a peak, for how many jobs, and how high it would be then."""

    do: str
    jobs: int
    height: int


@dataclass(frozen=True, slots=True)
class Peak:
    """A minute with many. `days`: on how many days nearly as many are due at that time of day; `exact`: those without a
    tolerance; `teams`: who, the most first."""

    at_ms: int
    days: int
    before: int
    after: int
    exact: int
    teams: tuple[tuple[str, int], ...]
    advice: tuple[Advice, ...] = ()


def peaks(found: Forecast, count: int, tolerance_s: int, teams_max: int = 5) -> list[Peak]:
    """The highest minutes after jitter, of the same height the first, and of the same time of day one; each with what
    would make it lower."""
    chosen: dict[int, int] = {}
    for index in sorted(range(len(found.after)), key=lambda index: (-found.after[index], index)):
        if found.after[index] and len(chosen) < count:
            chosen.setdefault(index % DAY_MINUTES, index)
    return [_peak(found, index, tolerance_s, teams_max) for index in chosen.values()]


def _peak(found: Forecast, index: int, tolerance_s: int, teams_max: int) -> Peak:
    at_ms, height = found.minute_ms(index), found.after[index]
    teams: Counter[str] = Counter()
    exact: list[str] = []
    spread: list[str] = []
    crons: dict[str, list[str]] = defaultdict(list)
    for group in found.groups:
        for job_id in _in_minute(group, at_ms):
            team = job_id.partition(":")[0]
            teams[team] += 1
            (exact if group.is_exact else spread).append(job_id)
            if rate_of(group.schedule) is None:
                crons[team].append(job_id)
    advice = [
        _stay("give those without a tolerance one", exact, height, tolerance_s),
        _stay(f"give the others a tolerance of {6 * tolerance_s} s", spread, height, 6 * tolerance_s, tolerance_s),
        *(_away(team, crons[team], height) for team, _ in teams.most_common(1)),
    ]
    useful = tuple(one for one in advice if one is not None and one.height < height)
    days = sum(10 * one >= 9 * height for one in found.after[index % DAY_MINUTES :: DAY_MINUTES])
    return Peak(at_ms, days, found.before[index], height, len(exact), tuple(teams.most_common(teams_max)), useful)


def _in_minute(group: Group, minute_ms: int) -> Iterator[str]:
    """The jobs of a group that fire in a minute."""
    low = bisect_left(group.instants, minute_ms - group.tolerance_s * SECOND_MS)
    high = bisect_left(group.instants, minute_ms + MINUTE_MS)
    if low >= high:
        return
    if group.is_exact:
        for _ in range(low, high):
            yield from group.jobs
        return
    near = Group(group.schedule, group.tolerance_s, group.calendars, group.instants[low : high + 1])
    for at_ms, room_s in _rooms(near):
        if at_ms >= minute_ms + MINUTE_MS:
            return
        for job_id in group.jobs:
            if minute_ms <= fire_at_ms(job_id, at_ms, room_s, None) < minute_ms + MINUTE_MS:
                yield job_id


def _stay(do: str, jobs: list[str], height: int, tolerance_s: int, today_s: int = 0) -> Advice | None:
    """With a tolerance those of them stay in their minute whose jitter is under one. Of those that have a tolerance
    today (`today_s`) as many stay as the longer one is longer, on the whole."""
    if not jobs:
        return None
    staying = sum(count for offset_ms, count in offsets_of(jobs, tolerance_s).items() if offset_ms < MINUTE_MS)
    staying = len(jobs) * today_s // tolerance_s if today_s else staying
    return Advice(do, len(jobs), height - len(jobs) + staying)


def _away(team: str, jobs: list[str], height: int) -> Advice | None:
    """`H` in place of the minute puts each of them on one of sixty by its name."""
    if not jobs:
        return None
    staying = -(-len(jobs) // 60)
    return Advice(f"have the jobs of {team} say H for their minute", len(jobs), height - len(jobs) + staying)
