"""The parts of an RRULE as they are written (RFC 5545).

Owns: which parts there are, and what their lists may hold. Refuses to know: dates.
Protects: what a new rule says is what RFC 5545 reads there; a stored rule is read as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tickwork.core.schedule.limits import EXPRESSION_LENGTH_MAX
from tickwork.core.schedule.refusal import ScheduleRefused

WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAY: Final = re.compile(rf"([+-]?[0-9]+)?({'|'.join(WEEKDAYS)})", re.ASCII)

#: RFC 5545's lists, and how far their numbers go.
_LIST_PARTS: Final = {
    "BYDAY": r"(?:[+-]?[0-9]{1,2})?(?:MO|TU|WE|TH|FR|SA|SU)",
    **dict.fromkeys(("BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYSETPOS"), r"[+-]?[0-9]{1,3}"),
}
_LISTS: Final = {key: re.compile(f"{item}(?: *, *{item})*", re.ASCII) for key, item in _LIST_PARTS.items()}
_EXAMPLES: Final = {"BYDAY": "BYDAY=MO,-1FR", "BYMONTH": "BYMONTH=1,12 (a day may count from the end, BYMONTHDAY=1,-1)"}
_LARGEST: Final = {"BYMONTH": 12, "BYWEEKNO": 53, "BYYEARDAY": 366, "BYMONTHDAY": 31, "BYSETPOS": 366}

_FREQS: Final = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_FAST: Final = ("HOURLY", "MINUTELY", "SECONDLY")
_KEYS: Final = frozenset({
    "FREQ", "INTERVAL", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY", "BYHOUR", "BYMINUTE",
    "BYSECOND", "BYSETPOS", "WKST",
})  # fmt: skip


def read_parts(text: str) -> dict[str, str]:
    """`FREQ=DAILY;COUNT=3` as a dictionary in upper case; each part is one we know, and given once."""
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise bad_rrule(f"the rule has {len(text)} characters", f"keep it to {EXPRESSION_LENGTH_MAX}")
    parts: dict[str, str] = {}
    for item in text.upper().strip("; ").split(";"):
        key, sign, value = item.partition("=")
        if not sign or not value or key in parts or not (key in _KEYS or key in ("COUNT", "UNTIL")):
            raise bad_rrule(f"{item!r} is not understood", f"use {', '.join(sorted(_KEYS))}, COUNT or UNTIL, each once")
        parts[key] = value
    freq = parts.get("FREQ")
    if freq in _FAST:
        raise bad_rrule(f"FREQ={freq} is an interval", 'use a rate, such as {"rate": "2 hours"}, or cron')
    if freq not in _FREQS:
        raise bad_rrule(f"FREQ={freq} is not known", f"use one of {', '.join(_FREQS)}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise bad_rrule("COUNT and UNTIL exclude each other", "take one out")
    return parts


def check_lists(parts: Mapping[str, str]) -> None:
    """Refuse the lists of a new rule that RFC 5545 does not know. A stored rule is not asked: it keeps its meaning."""
    for key, pattern in _LISTS.items():
        if key in parts and not (pattern.fullmatch(parts[key]) and _in_range(key, parts[key])):
            raise bad_rrule(f"{key}={parts[key]} is not understood", f"write {_EXAMPLES.get(key, key + '=1,-1')}")
    if parts["FREQ"] in ("DAILY", "WEEKLY") and any(char.isdigit() for char in parts.get("BYDAY", "")):
        raise bad_rrule(
            f"BYDAY={parts['BYDAY']} counts weekdays, and FREQ={parts['FREQ']} has nothing to count them in",
            "leave out the numbers, or write FREQ=MONTHLY",
        )


def _in_range(key: str, text: str) -> bool:
    if key == "BYDAY":
        return all(number is None or int(number) for number, _ in weekdays_of(text))
    lowest = 1 if key == "BYMONTH" else -_LARGEST[key]
    return all(number and lowest <= number <= _LARGEST[key] for number in map(int, text.split(",")))


def weekdays_of(text: str) -> list[tuple[str | None, str]]:
    """(number or None, weekday) of each item."""
    found = [_WEEKDAY.fullmatch(item.strip(" ")) for item in text.split(",")]
    if not all(found):
        raise ValueError(f"{text} are no weekdays")
    return [(match[1], match[2]) for match in found if match is not None]


def bad_rrule(detail: str, remedy: str, field: str = "rrule") -> ScheduleRefused:
    """The refusal of a rule, or of an ISO-8601 repeat."""
    return ScheduleRefused("bad_rrule", detail, field=field, remedy=remedy)
