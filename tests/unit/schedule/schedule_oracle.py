"""A second opinion on daylight saving: every minute, one after the other.

Shares nothing with the engine but the zone files. It walks the real minutes around each change of offset,
looks at what the wall clock shows, and applies the rule of the spec as it is told in words:

- a job whose minute or hour begins with `*` runs at each real minute whose wall time matches;
- any other runs at the first pass of a wall minute only, and once at the first real minute after a gap of at
  most 180 minutes that swallowed a match.

Run it by itself for a longer soak: `python tests/unit/schedule/schedule_oracle.py --pairs 5000 --seed 7`.
"""

from __future__ import annotations

import argparse
import random
import sys
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import resources
from zoneinfo import ZoneInfo

ODD_ZONES = (
    "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "America/Santiago", "Asia/Beirut",
    "Africa/Cairo", "Pacific/Chatham", "America/New_York", "Europe/London", "America/St_Johns",
    "Asia/Gaza", "America/Asuncion", "Europe/Dublin", "Pacific/Norfolk", "America/Nuuk",
)  # fmt: skip
MINUTE = timedelta(minutes=1)
WINDOW = timedelta(hours=40)
JUMPS = 8


def load(key: str) -> ZoneInfo:
    with resources.files("tzdata").joinpath("zoneinfo", *key.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=key)


@dataclass(frozen=True)
class Tick:
    """One real minute: epoch minutes, what the wall shows, and the wall minutes skipped just before it."""

    minute: int
    wall: datetime
    skipped: tuple[datetime, ...]


def changes(key: str, first: datetime, last: datetime) -> list[datetime]:
    """The UTC minutes at which the offset changes, found by looking at each hour and then at each minute."""
    zone, found = load(key), []
    at, offset = first, first.astimezone(zone).utcoffset()
    while at < last:
        later = at + timedelta(hours=1)
        if later.astimezone(zone).utcoffset() != offset:
            while at.astimezone(zone).utcoffset() == offset:
                at += MINUTE
            offset = at.astimezone(zone).utcoffset()
            found.append(at)
        at = later
    return found


def ticks(key: str, change: datetime, window: timedelta = WINDOW) -> list[Tick]:
    """The real minutes around a change."""
    zone, found = load(key), []
    previous: datetime | None = None
    at = change - window
    while at < change + window:
        wall = at.astimezone(zone).replace(tzinfo=None)
        skipped: list[datetime] = []
        if previous is not None:
            lost = previous + MINUTE
            while lost < wall:
                skipped.append(lost)
                lost += MINUTE
        found.append(Tick(round(at.timestamp()) // 60, wall, tuple(skipped)))
        previous, at = wall, at + MINUTE
    return found


class Matcher:
    """Whether a wall minute matches five fields made of numbers, ranges, steps and lists."""

    def __init__(self, expression: str) -> None:
        texts = expression.split()
        ranges = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
        self.sets = [self._values(text, *bounds) for text, bounds in zip(texts, ranges, strict=True)]
        self.weekdays = {value % 7 for value in self.sets[4]}
        self.both_days = texts[2][0] == "*" or texts[4][0] == "*"
        self.is_interval = texts[0][0] == "*" or texts[1][0] == "*"

    @staticmethod
    def _values(text: str, low: int, high: int) -> set[int]:
        found: set[int] = set()
        for item in text.split(","):
            body, _, step = item.partition("/")
            first, last = (low, min(high, 6) if high == 7 else high) if body == "*" else (
                int(body.split("-")[0]), int(body.split("-")[-1]))  # fmt: skip
            found.update(range(first, last + 1, int(step or 1)))
        return found

    def __call__(self, wall: datetime) -> bool:
        minutes, hours, days, months, _ = self.sets
        if wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
            return False
        by_date, by_week = wall.day in days, wall.isoweekday() % 7 in self.weekdays
        return by_date and by_week if self.both_days else by_date or by_week


def expected(matches: Matcher, stretch: list[Tick], gap: str = "run_after", fold: str = "first") -> list[int]:
    """The epoch minutes at which the job runs in the stretch, by the rule told above."""
    if matches.is_interval:
        return [tick.minute for tick in stretch if matches(tick.wall)]
    passes: dict[datetime, list[int]] = {}
    for tick in stretch:
        if matches(tick.wall):
            passes.setdefault(tick.wall, []).append(tick.minute)
    found: set[int] = set()
    for minutes in passes.values():
        found.update({"first": minutes[:1], "second": minutes[-1:], "both": minutes}[fold])
    for tick in stretch:
        lost = [wall for wall in tick.skipped if matches(wall)]
        if not lost or len(tick.skipped) > 180 or gap == "skip":
            continue
        if gap == "run_after":
            found.add(tick.minute)
        else:
            found.update(tick.minute + round((wall - tick.skipped[0]) / MINUTE) for wall in lost)
    return sorted(found)


def random_expression(rng: random.Random) -> str:
    """Five fields that have something to do at night."""
    minute = rng.choice(["0", "30", "15,45", "*", "*/15", "*/20", "*/7", "5-50/9", "0-59", str(rng.randrange(60))])
    hour = rng.choice(
        ["*", "*/2", "*/3", "0-4", "1,2", "2,3", "0", "1", "2", "3", "23", "0,23", "22-23", "1-5/2",
         str(rng.randrange(24))]
    )  # fmt: skip
    dom = rng.choice(["*"] * 6 + ["*/2", "1-31", "24-31", "1-9", "1-31/10", str(rng.randint(1, 31))])
    month = rng.choice(["*"] * 6 + ["3-4", "9-11", "*/2"])
    dow = rng.choice(["*"] * 6 + ["0", "7", "6-7", "*/2", "1-5", "0,6"])
    return f"{minute} {hour} {dom} {month} {dow}"


def _agrees(schedule: object, right: list[int], at: int) -> bool:
    """Whether the engine, asked at `at`, gives the neighbours that the oracle found inside the stretch."""
    from tickwork.core.schedule import next_after, prev_before

    place = bisect_right(right, at)
    if place < len(right) and next_after(schedule, at) != right[place]:  # type: ignore[arg-type]
        return False
    before = bisect_left(right, at) - 1
    return before < 0 or prev_before(schedule, at) == right[before]  # type: ignore[arg-type]


def soak(pairs: int, seed: int, first_year: int = 2024, last_year: int = 2028) -> tuple[int, list[str]]:
    """(occurrences compared, differences) for `pairs` random (zone, expression, policies)."""
    from tickwork.core.schedule import next_after, parse_schedule, prev_before

    rng = random.Random(seed)
    first, last = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year + 1, 1, 1, tzinfo=UTC)
    stretches = {key: [ticks(key, change) for change in changes(key, first, last)] for key in ODD_ZONES}
    stretches["Pacific/Apia"] = [ticks("Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC))]
    compared, wrong = 0, []
    for number in range(pairs):
        zone = sorted(stretches)[number % len(stretches)]
        text = random_expression(rng)
        gap, fold = ("run_after", "first") if rng.random() < 0.6 else (
            rng.choice(["run_after", "skip", "shift"]), rng.choice(["first", "second", "both"]))  # fmt: skip
        spec = {"cron": text, "zone": zone, "dst": {"gap": gap, "fold": fold}}
        matches = Matcher(text)
        for stretch in stretches[zone]:
            # The edges of a stretch may cut a repeated hour of another change; compare its inner part.
            low, high = stretch[0].minute + 60 * 4, stretch[-1].minute - 60 * 4
            right = [m * 60_000 for m in expected(matches, stretch, gap, fold) if low < m <= high]
            schedule = parse_schedule(spec, now_ms=low * 60_000)
            forward, at = [], next_after(schedule, low * 60_000)
            while at is not None and at <= high * 60_000:
                forward.append(at)
                at = next_after(schedule, at)
            back, at = [], prev_before(schedule, high * 60_000 + 1)
            while at is not None and at > low * 60_000:
                back.append(at)
                at = prev_before(schedule, at)
            compared += 2 * len(right)
            # From anywhere, not only from one occurrence to the next.
            lands = [rng.randrange(low * 60_000, high * 60_000) for _ in range(JUMPS)] if right else []
            astray = [at for at in lands if not _agrees(schedule, right, at)]
            if forward != right or back[::-1] != right or astray:
                wrong.append(f"{zone} {text!r} gap={gap} fold={fold} around {stretch[len(stretch) // 2].wall}")
    return compared, wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare the schedule engine with the minute-by-minute oracle.")
    parser.add_argument("--pairs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    total, differences = soak(arguments.pairs, arguments.seed)
    print(f"{arguments.pairs} pairs, {total} occurrences compared, {len(differences)} differences")
    print("\n".join(differences[:20]))
    sys.exit(bool(differences))
