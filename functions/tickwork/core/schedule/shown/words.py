"""A cron expression in words.

Owns: the English for each field. Refuses to know: zones, occurrences. Protects: a phrase is built from the
parsed fields.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tickwork.core.schedule.cron.expression import Expression
from tickwork.core.schedule.cron.field import Field

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_TIMES_LISTED_MAX = 6


def expression_words(expression: Expression) -> str:
    """Such as "at 02:00 on Monday to Friday in January"."""
    *_, dom, month, dow = expression.fields
    words = f"{_time_words(expression)} {_day_words(dom, dow)}"
    return words if month.is_every else f"{words} in {_list(month, lambda v: _MONTHS[v - 1])}"


def _time_words(expression: Expression) -> str:
    minute, hour = expression.fields[-5], expression.fields[-4]
    seconds = expression.fields[0].values() if expression.has_seconds else (0,)
    if len(hour.values()) * len(minute.values()) * len(seconds) <= _TIMES_LISTED_MAX:
        times = [(h, m, s) for h in hour.values() for m in minute.values() for s in seconds]
        return "at " + _joined([f"{h:02d}:{m:02d}" + (f":{s:02d}" if s else "") for h, m, s in times])
    words = _unit_words(minute, "minute")
    if seconds != (0,):
        words = f"{_unit_words(expression.fields[0], 'second')} of {words}"
    if not hour.is_every:
        return f"{words} past hour {_list(hour, str)}"
    return words if words.startswith("every") else f"{words} of every hour"


def _unit_words(field: Field, unit: str) -> str:
    if field.is_every:
        return f"every {unit}"
    values = field.values()
    steps = {b - a for a, b in pairwise(values)}
    step = next(iter(steps), 0)
    if len(steps) == 1 and step > 1 and 60 % step == 0 and len(values) == 60 // step:
        start = f" from {unit} {values[0]}" if values[0] else ""
        return f"every {step} {unit}s{start}"
    return f"at {unit} {_list(field, str)}"


def _day_words(dom: Field, dow: Field) -> str:
    every_date, every_dow = dom.is_every, dow.is_every
    if every_date and every_dow:
        return "every day"
    dates = _date_words(dom)
    weekdays = "on " + _list(dow, lambda v: _DAYS[v])
    if every_date and dom.is_star:
        return weekdays
    if every_dow and dow.is_star:
        return dates
    if every_date or every_dow:
        return "every day"  # joined by OR with a field that matches everything
    return f"{dates}, but only {weekdays}" if dom.is_star or dow.is_star else f"{dates} and also {weekdays}"


def _date_words(dom: Field) -> str:
    """Such as "on day 1, 15 and the last day of the month"."""
    letters = [_letter_words(item, str) for item in dom.letters]
    if dom.bits == 0:
        return f"on {_joined(letters)} of the month"
    return f"on day {_list(dom, str)} of the month"


def _list(field: Field, name: Callable[[int], str]) -> str:
    values = field.values()
    parts: list[str] = []
    while values:
        run = 1
        while run < len(values) and values[run] == values[0] + run:
            run += 1
        if run >= 3:
            parts.append(f"{name(values[0])} to {name(values[run - 1])}")
        else:
            parts.extend(name(value) for value in values[:run])
        values = values[run:]
    return _joined(parts + [_letter_words(item, name) for item in field.letters])


def _letter_words(item: str, name: Callable[[int], str]) -> str:
    if "#" in item:
        day, _, nth = item.partition("#")
        return f"the {('first', 'second', 'third', 'fourth', 'fifth')[int(nth) - 1]} {name(int(day))}"
    if item == "LW":
        return "the last weekday"
    if item.startswith("L-") and item.endswith("W"):
        return f"the weekday nearest to day {item[2:-1]} before the last"
    if item.endswith("W"):
        return f"the weekday nearest to day {item[:-1]}"
    if item[0].isdigit():
        return f"the last {name(int(item[0]))}"
    return "the last day" if item == "L" else f"day {item[2:]} before the last"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
