"""The clocks of the oracle: when each place shows which wall time, looked up hour by hour in the zone files.

Shares nothing with the engine but the files. Times are seconds since the epoch; a wall time is counted as if it were
UTC.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

FIRST = datetime(2022, 1, 1, tzinfo=UTC)
LAST = datetime(2032, 1, 1, tzinfo=UTC)
DAY = 86_400
EPOCH = date(1970, 1, 1)


def day_number(day: date) -> int:
    return (day - EPOCH).days


def date_of(number: int) -> date:
    return EPOCH + timedelta(days=number)


@dataclass(frozen=True)
class Policy:
    gap: str = "run_after"
    fold: str = "first"


FIXED = Policy()
REAL = Policy("skip", "both")


class Clock:
    def __init__(self, key: str) -> None:
        with resources.files("tzdata").joinpath("zoneinfo", *key.split("/")).open("rb") as file:
            zone = ZoneInfo.from_file(file, key=key)
        self.starts: list[int] = []
        self.offsets: list[int] = []
        at, before = FIRST, None
        while at < LAST:
            offset = _offset(at, zone)
            if offset != before:
                exact = at
                while before is not None and _offset(exact - timedelta(minutes=1), zone) == offset:
                    exact -= timedelta(minutes=1)
                self.starts.append(round(exact.timestamp()))
                self.offsets.append(offset)
                before = offset
            at += timedelta(hours=1)

    def offset(self, instant: int) -> int:
        return self.offsets[max(bisect_right(self.starts, instant) - 1, 0)]

    def local(self, instant: int) -> int:
        return instant + self.offset(instant)

    def changes(self) -> list[int]:
        return self.starts[1:]

    def passes(self, local: int) -> list[int]:
        """The instants at which the wall shows `local`, in order."""
        if self.offset(local - 2 * DAY) == (offset := self.offset(local + 2 * DAY)):
            return [local - offset]  # no two changes are as close
        return [local - offset for offset in sorted(set(self._near(local)), reverse=True)
                if self.local(local - offset) == local]  # fmt: skip

    def _near(self, local: int) -> list[int]:
        return [self.offset(local + shift) for shift in (-2 * DAY, -DAY, 0, DAY, 2 * DAY)]

    def instants(self, local: int, policy: Policy) -> list[int]:
        """When a job that names this wall time runs, by the rule in words."""
        passes = self.passes(local)
        if passes:
            return {"first": passes[:1], "second": passes[-1:], "both": passes}[policy.fold]
        number = next(n for n in range(1, len(self.starts))
                      if self.starts[n] + self.offsets[n - 1] <= local < self.starts[n] + self.offsets[n])  # fmt: skip
        jump = self.offsets[number] - self.offsets[number - 1]
        if policy.gap == "skip" or jump > 180 * 60:
            return []
        return [self.starts[number] if policy.gap == "run_after" else local - self.offsets[number - 1]]


def _offset(at: datetime, zone: ZoneInfo) -> int:
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None
    return round(offset.total_seconds())


@lru_cache(maxsize=64)
def clock(key: str) -> Clock:
    return Clock(key)
