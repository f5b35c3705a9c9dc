"""Naive matches: the local wall times that an expression names, with no zone in sight.

Owns: "the next local second at or after this one that matches".
Refuses to know: zones, offsets, daylight saving.
Protects: bounded work: two bisections for the time of day, bit arithmetic for the day.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from tickwork.core.schedule.cron.days import DayRule
from tickwork.core.schedule.limits import DAY_S


@dataclass(frozen=True, slots=True)
class WallTimes:
    """`minutes` are minutes of the day, `seconds` seconds of the minute, both sorted and never empty."""

    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    days: DayRule

    def next_match(self, local_s: int) -> int | None:
        """The first matching local second not before `local_s`."""
        day, of_day = divmod(local_s, DAY_S)
        found = self.days.next_day(day)
        if found is None:
            return None
        if found > day:
            return found * DAY_S + self.minutes[0] * 60 + self.seconds[0]
        time = time_from(self.minutes, self.seconds, of_day)
        if time is not None:
            return day * DAY_S + time
        found = self.days.next_day(day + 1)
        if found is None:
            return None
        return found * DAY_S + self.minutes[0] * 60 + self.seconds[0]

    def prev_match(self, local_s: int) -> int | None:
        """The last matching local second not after `local_s`."""
        day, of_day = divmod(local_s, DAY_S)
        found = self.days.prev_day(day)
        if found is None:
            return None
        if found == day:
            time = time_until(self.minutes, self.seconds, of_day)
            if time is not None:
                return day * DAY_S + time
            found = self.days.prev_day(day - 1)
            if found is None:
                return None
        return found * DAY_S + self.minutes[-1] * 60 + self.seconds[-1]


def time_from(minutes: tuple[int, ...], seconds: tuple[int, ...], of_day: int) -> int | None:
    """The first second of the day at or after `of_day` among these minutes of the day and seconds of the minute."""
    minute, second = divmod(of_day, 60)
    at = bisect_left(minutes, minute)
    if at == len(minutes):
        return None
    if minutes[at] == minute:
        if second <= seconds[-1]:
            return minute * 60 + seconds[bisect_left(seconds, second)]
        at += 1
        if at == len(minutes):
            return None
    return minutes[at] * 60 + seconds[0]


def time_until(minutes: tuple[int, ...], seconds: tuple[int, ...], of_day: int) -> int | None:
    """The last second of the day at or before `of_day` among these minutes of the day and seconds of the minute."""
    minute, second = divmod(of_day, 60)
    at = bisect_right(minutes, minute) - 1
    if at < 0:
        return None
    if minutes[at] == minute:
        if second >= seconds[0]:
            return minute * 60 + seconds[bisect_right(seconds, second) - 1]
        at -= 1
        if at < 0:
            return None
    return minutes[at] * 60 + seconds[-1]
