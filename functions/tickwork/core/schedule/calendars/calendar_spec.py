"""Reading a calendar as a person writes it, and writing it back.

Owns: the JSON form of `Calendar`. Refuses to know: storage, instants. Protects: unknown keys and reversed
ranges are refused, naming the field.

    {"name": "de", "version": 3, "zone": "Europe/Berlin",
     "dates": ["2026-12-24"],
     "ranges": [{"from": "2026-12-27", "to": "2026-12-30"},                 # both days included
                {"from": "2027-01-04T18:00", "to": "2027-01-05T06:00"}],    # a freeze; the end is not
     "weekly": ["sat", "sun", {"from": "fri 18:00", "to": "mon 06:00"}],
     "holidays": [{"rule": "12-25", "name": "Christmas Day", "observed": "same_day"}, "easter-2", "nov thu#4"],
     "hard": true}  # what is late, or to be tried again, waits too
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tickwork.core.schedule.calendars.calendar import WEEK_S, Calendar, Holidays
from tickwork.core.schedule.calendars.holiday import OBSERVED, Holiday, check_rule
from tickwork.core.schedule.instant import read_time
from tickwork.core.schedule.limits import DAY_S
from tickwork.core.schedule.refusal import ScheduleRefused, closest
from tickwork.core.schedule.zone import zone_named

_KEYS: Final = ("name", "version", "zone", "dates", "ranges", "weekly", "holidays", "hard")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MOMENT: Final = re.compile(rf"({'|'.join(_DAYS)}) +([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)

#: Entries in one calendar: 20 years of 50 days, and as many ranges.
_ENTRIES_MAX: Final = 1_000

_NAME_CHARS_MAX: Final = 100


def parse_calendar(spec: Mapping[str, Any]) -> Calendar:
    """Read a calendar. Raises `ScheduleRefused` with `field` as "calendar.<key>[n]"."""
    _known(spec, _KEYS, "calendar")
    name, version = spec.get("name"), spec.get("version", 1)
    if not isinstance(name, str) or not name:
        raise _bad("calendar.name", "a calendar has a name", 'write "name": "holidays-de"')
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise _bad("calendar.version", f"{version!r} is no version", "give a whole number from 1")
    zone = spec.get("zone", "UTC")
    if not isinstance(zone, str):
        raise _bad("calendar.zone", "a zone is a text", "use an IANA name such as Europe/Berlin")
    hard = spec.get("hard", False)
    if not isinstance(hard, bool):
        raise _bad("calendar.hard", "hard is true or false", "write true or false without quotes")
    spans = [*_dates(_entries(spec, "dates")), *_ranges(_entries(spec, "ranges"))]
    return Calendar(
        name=name,
        version=version,
        zone=zone_named(zone, "calendar.zone").key,
        spans=_merged(spans),
        windows=_merged([*_windows(_entries(spec, "weekly"))]),
        holidays=Holidays(_holidays(_entries(spec, "holidays"))),
        hard=hard,
    )


def _entries(spec: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    """(path, entry) of a list."""
    entries = spec.get(key, [])
    if not isinstance(entries, list | tuple) or len(entries) > _ENTRIES_MAX:
        raise _bad(f"calendar.{key}", "is no list, or too long", f"give a list of at most {_ENTRIES_MAX} entries")
    return [(f"calendar.{key}[{number}]", entry) for number, entry in enumerate(entries)]


def _dates(entries: Iterable[tuple[str, Any]]) -> Iterable[tuple[int, int]]:
    for path, text in entries:
        start, _ = _local(text, path)
        if start % DAY_S:
            raise _bad(path, f"{text!r} is more than a date", "write 2026-12-24, or a range with times")
        yield start, start + DAY_S


def _ranges(entries: Iterable[tuple[str, Any]]) -> Iterable[tuple[int, int]]:
    for path, entry in entries:
        if not isinstance(entry, Mapping):
            raise _bad(path, "a range is an object", 'write {"from": "2026-12-24", "to": "2027-01-01"}')
        _known(entry, ("from", "to"), path)
        start, _ = _local(entry.get("from"), f"{path}.from")
        end, is_date = _local(entry.get("to"), f"{path}.to")
        end += DAY_S if is_date else 0
        if end <= start:
            raise _bad(f"{path}.to", "the range ends before it starts", "swap from and to")
        yield start, end


def _local(text: object, path: str) -> tuple[int, bool]:
    """A local second, and whether the text was a date alone."""
    is_date = isinstance(text, str) and "T" not in text
    time = read_time(f"{text}T00:00" if is_date else text, path)
    if time.offset_s is not None:
        raise _bad(path, "times here are local to the calendar's zone", "leave the offset out")
    return time.ceil_local_s(), is_date


def _windows(entries: Iterable[tuple[str, Any]]) -> Iterable[tuple[int, int]]:
    for path, entry in entries:
        if isinstance(entry, str) and entry.casefold() in _DAYS:
            start = _DAYS.index(entry.casefold()) * DAY_S
            yield start, start + DAY_S
        elif isinstance(entry, Mapping):
            _known(entry, ("from", "to"), path)
            start, end = _moment(entry.get("from"), f"{path}.from"), _moment(entry.get("to"), f"{path}.to")
            yield start, end if end > start else end + WEEK_S
        else:
            raise _bad(path, f"{entry!r} is no window", 'write "sat", or {"from": "fri 18:00", "to": "mon 06:00"}')


def _moment(text: object, path: str) -> int:
    found = _MOMENT.fullmatch(text.casefold()) if isinstance(text, str) else None
    if found is None:
        raise _bad(path, f"{text!r} is no moment of the week", "write fri 18:00")
    return _DAYS.index(found[1]) * DAY_S + int(found[2]) * 3_600 + int(found[3]) * 60


def _holidays(entries: Iterable[tuple[str, Any]]) -> Iterable[Holiday]:
    for path, entry in entries:
        entry = {"rule": entry} if isinstance(entry, str) else entry
        if not isinstance(entry, Mapping) or not isinstance(entry.get("rule"), str):
            raise _bad(path, "a holiday has a rule", 'write {"rule": "12-25", "name": "Christmas Day"}')
        _known(entry, ("rule", "name", "observed", "first_year", "last_year"), path)
        observed = entry.get("observed", "same_day")
        if observed not in OBSERVED:
            raise _bad(f"{path}.observed", f"{observed!r} is not known", f"use one of {', '.join(OBSERVED)}")
        years = entry.get("first_year", 1), entry.get("last_year", 9999)
        if not all(type(year) is int and 1 <= year <= 9999 for year in years):
            raise _bad(path, "first_year and last_year are years", "write 2024")
        if not isinstance(entry.get("name", ""), str) or len(entry.get("name", "")) > _NAME_CHARS_MAX:
            raise _bad(f"{path}.name", f"a name is a text of at most {_NAME_CHARS_MAX} characters", "shorten it")
        rule = check_rule(entry["rule"].casefold(), f"{path}.rule")
        yield Holiday(rule, entry.get("name", ""), observed, *years)


def _merged(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _known(spec: Mapping[str, Any], known: tuple[str, ...], path: str) -> None:
    if not isinstance(spec, Mapping):
        raise _bad(path, "is no object", f"known keys: {', '.join(known)}")
    for key in spec:
        if key not in known:
            guess = closest(str(key), known)
            remedy = f"did you mean {guess}?" if guess else f"known here: {', '.join(known)}"
            raise _bad(f"{path}.{key}", f"{key!r} is not known here", remedy)


def _bad(field: str, detail: str, remedy: str) -> ScheduleRefused:
    return ScheduleRefused("bad_calendar", detail, field=field, remedy=remedy)
