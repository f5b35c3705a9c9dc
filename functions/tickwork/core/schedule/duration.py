"""Lengths of time as people write them: "10 seconds", "5m", "1h30m", "2 days", "PT15M".

Owns: reading and writing durations in whole seconds. Refuses to know: calendars (a day is 24 hours here;
months and years have no length). Protects: no unit is guessed, no fraction of a second is accepted.
"""

from __future__ import annotations

import re
from typing import Final

from tickwork.core.schedule.limits import PERIOD_S_MAX
from tickwork.core.schedule.refusal import ScheduleRefused

_UNITS: Final = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_BY_NAME: Final = {
    **{name: size for unit, size in _UNITS for name in (unit, unit + "s", unit[0])},
    "sec": 1, "secs": 1, "min": 60, "mins": 60, "hr": 3_600, "hrs": 3_600,
}  # fmt: skip
_PART: Final = re.compile(r" *([0-9]{1,9}) *([a-zA-Z]+)", re.ASCII)
_CALENDAR: Final = re.compile(r"P(?:[0-9]+[YWD])*[0-9]+[YM]", re.ASCII)
_ISO: Final = re.compile(
    r"P(?:([0-9]{1,6})W)?(?:([0-9]{1,6})D)?(?:T(?:([0-9]{1,6})H)?(?:([0-9]{1,7})M)?(?:([0-9]{1,9})S)?)?",
    re.ASCII,
)


def read_duration_s(value: object, field: str) -> int:
    """A positive whole number of seconds. A bare number counts seconds only where the key says so (`*_s`)."""
    if isinstance(value, int) and not isinstance(value, bool) and field.endswith("_s"):
        return _checked(value, field)
    if not isinstance(value, str):
        raise _bad(field, f"{value!r} has no unit")
    iso = _ISO.fullmatch(value)
    if iso is not None and any(iso.groups()):
        counts = (int(group or 0) for group in iso.groups())
        return _checked(sum(n * size for n, (_, size) in zip(counts, _UNITS, strict=True)), field)
    if _CALENDAR.match(value):
        raise _bad(field, f"{value!r} counts months or years")
    total, position = 0, 0
    while found := _PART.match(value, position):
        if found[2] == "M":
            raise _bad(field, "'M' is a month to some; a minute is written m")
        size = _BY_NAME.get(found[2].casefold())
        if size is None:
            raise _bad(field, f"{found[2]!r} is no unit with a fixed length")
        total, position = total + int(found[1]) * size, found.end()
    if position == 0 or position != len(value):
        raise _bad(field, f"{value!r} is no duration")
    return _checked(total, field)


def _checked(seconds: int, field: str) -> int:
    if not 1 <= seconds <= PERIOD_S_MAX:
        raise ScheduleRefused(
            "duration_out_of_range", f"{seconds} s is out of range", field=field,
            remedy=f"give at least 1 second and at most {PERIOD_S_MAX // 86_400} days",
        )  # fmt: skip
    return seconds


def _bad(field: str, detail: str) -> ScheduleRefused:
    remedy = 'write a number and a unit, such as "10 seconds", "5m", "1h" or "2 days"'
    if "month" in detail or "year" in detail:
        remedy = "months and years differ in length: use a cron expression, such as 0 0 1 * * for each month"
    return ScheduleRefused("bad_duration", detail, field=field, remedy=remedy)


def duration_text(seconds: int) -> str:
    """The normal form: the largest unit that divides it, such as "90 minutes" or "1 day"."""
    name, size = next((name, size) for name, size in _UNITS if seconds % size == 0)
    count = seconds // size
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
