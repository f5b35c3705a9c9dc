"""What a calendar excludes, asked instant by instant. Shares nothing with the engine."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, datetime, timedelta
from typing import Any

from tests.oracle.clocks import DAY, clock, date_of, day_number

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


class Closed:
    """A calendar as the documentation tells it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.clock = clock(spec.get("zone", "UTC"))
        self.spans = [(_seconds(text), _seconds(text) + DAY) for text in spec.get("dates", [])]
        for entry in spec.get("ranges", []):
            end = _seconds(entry["to"])
            self.spans.append((_seconds(entry["from"]), end if "T" in entry["to"] else end + DAY))
        self.weekly = spec.get("weekly", [])
        self.days: set[int] = set()
        rules = [{"rule": entry} if isinstance(entry, str) else entry for entry in spec.get("holidays", [])]
        named = sorted(
            (day, rule.get("observed", "same_day"))
            for year in range(2021, 2034) for rule in rules if (day := _named(rule, year)) is not None
        )  # fmt: skip
        moved = sorted({(day, how) for day, how in named if how != "same_day" and day.weekday() > 4})
        taken = {day for day, how in named if (day, how) not in moved}
        for day, how in moved:
            if how == "nearest_weekday" and day.weekday() == 5:
                day -= timedelta(days=1)
            while day in taken or day.weekday() > 4:
                day += timedelta(days=1)
            taken.add(day)
        self.days = {day_number(day) for day in taken}

    def edges(self) -> list[int]:
        """Instants about which something happens."""
        local = [edge for span in self.spans for edge in span] + [day * DAY for day in sorted(self.days)[10:40:7]]
        return [at - self.clock.offset(at) for at in local]

    def excludes(self, instant: int) -> bool:
        local = self.clock.local(instant)
        if local // DAY in self.days or any(start <= local < end for start, end in self.spans):
            return True
        return any(self._in_week(entry, local) for entry in self.weekly)

    @staticmethod
    def _in_week(entry: Any, local: int) -> bool:
        day = date_of(local // DAY).weekday()
        if isinstance(entry, str):
            return DAYS[day] == entry
        at, start, end = (day * DAY + local % DAY, _moment(entry["from"]), _moment(entry["to"]))
        return start <= at < end if start < end else at >= start or at < end


def _moment(text: str) -> int:
    day, time = text.split()
    hour, minute = time.split(":")
    return DAYS.index(day) * DAY + int(hour) * 3_600 + int(minute) * 60


def _seconds(text: str) -> int:
    at = datetime.fromisoformat(text)
    return day_number(at.date()) * DAY + at.hour * 3_600 + at.minute * 60


def _named(rule: dict[str, Any], year: int) -> date | None:
    if not rule.get("first_year", 1) <= year <= rule.get("last_year", 9999):
        return None
    text = rule["rule"]
    if text.startswith("easter"):
        return _easter(year) + timedelta(days=int(text[6:] or 0))
    if text[0].isdigit():
        month, day = map(int, text.split("-"))
        return date(year, month, day) if day <= monthrange(year, month)[1] else None
    name, rest = text.split()
    dow, nth = rest.split("#")
    month = MONTHS.index(name) + 1
    days = [date(year, month, n) for n in range(1, monthrange(year, month)[1] + 1)]
    days = [day for day in days if DAYS[day.weekday()] == dow]
    if nth == "last":
        return days[-1]
    return days[int(nth) - 1] if int(nth) <= len(days) else None


def _easter(year: int) -> date:
    """The first Sunday after the ecclesiastical full moon, by Gauss."""
    a, b, c = year % 19, year % 4, year % 7
    k = year // 100
    p, q = (13 + 8 * k) // 25, k // 4
    m, n = (15 - p + k - q) % 30, (4 + k - q) % 7
    d = (19 * a + m) % 30
    e = (2 * b + 4 * c + 6 * d + n) % 7
    if d == 29 and e == 6:
        return date(year, 4, 19)
    if d == 28 and e == 6 and a > 10:
        return date(year, 4, 18)
    return date(year, 3, 22) + timedelta(days=d + e)
