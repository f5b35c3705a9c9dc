"""The positions of a cron expression, and single values and ranges in them.

Owns: each position's range and names, and what to say about a value that does not belong there.
Refuses to know: lists, steps, letters, dates. Protects: digits are ASCII; a range never runs backwards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tickwork.core.schedule.cron.names import DAY_NAMES, MONTH_NAMES, meant_name
from tickwork.core.schedule.refusal import ScheduleRefused


@dataclass(frozen=True, slots=True)
class FieldKind:
    """A position in the expression: its name (`key` in error paths), its range and its names."""

    key: str
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    def allowed(self) -> str:
        """What a person may write here, in words."""
        text = f"{self.low}-{self.high}"
        if self.names:
            text += f", {self.names[0]}-{self.names[-1]}"
        return text + (" (0 and 7 are Sunday)" if self is DOW else "")


SECOND: Final = FieldKind("second", "second", 0, 59)
MINUTE: Final = FieldKind("minute", "minute", 0, 59)
HOUR: Final = FieldKind("hour", "hour", 0, 23)
DOM: Final = FieldKind("day_of_month", "day-of-month", 1, 31)
MONTH: Final = FieldKind("month", "month", 1, 12, MONTH_NAMES)
DOW: Final = FieldKind("day_of_week", "day-of-week", 0, 7, DAY_NAMES)

FIVE: Final = (MINUTE, HOUR, DOM, MONTH, DOW)
SIX: Final = (SECOND, *FIVE)


def parse_range(kind: FieldKind, item: str, body: str, step: int) -> tuple[int, int, str]:
    """(first, last, normal text) of a range `body` inside `item`; `step` only serves the suggestion."""
    parts = body.split("-")
    if len(parts) != 2 or not all(parts):
        raise bad(kind, "bad_range", f"{item!r} is no range", f"write two values from {kind.allowed()}, as in 1-5")
    low, high = (parse_value(kind, part, item) for part in parts)
    if kind is DOW and high == 0 and low > 0 and not parts[1][0].isdigit():
        high = 7  # mon-sun, sat-sun: by name, Sunday may end a week
    if low > high:
        proposal = _unwrapped(kind, low, high, step, by_name=not parts[0][0].isdigit())
        raise bad(
            kind, "reversed_range", f"the range {body!r} runs backwards",
            f"if it is to wrap around, write {proposal}", proposal,
        )  # fmt: skip
    return low, high, f"{low}-{high}"


def _unwrapped(kind: FieldKind, low: int, high: int, step: int, *, by_name: bool) -> str:
    """The list that a wrapping range probably meant."""
    if step == 1 and kind is not DOW:
        parts = [(low, kind.high), (kind.low, high)]
        show = (lambda v: kind.names[v - kind.low]) if by_name and kind.names else str
        return ",".join(show(a) if a == b else f"{show(a)}-{show(b)}" for a, b in parts)
    values = _around(kind, low, high)[::step]
    return ",".join(kind.names[v - kind.low] if by_name and kind.names else str(v) for v in values)


def wrapped_values(kind: FieldKind, body: str) -> list[int]:
    """The values of a range that runs over the end, in its order."""
    low, high = (parse_value(kind, part, body) for part in body.split("-"))
    return _around(kind, low, high)


def _around(kind: FieldKind, low: int, high: int) -> list[int]:
    size = kind.high - kind.low + (0 if kind is DOW else 1)
    return [kind.low + (low - kind.low + i) % size for i in range((high - low) % size + 1)]


def parse_value(kind: FieldKind, text: str, item: str) -> int:
    """The value of a number or a name inside `item`."""
    if is_number(text):
        value = int(text)
        if kind.low <= value <= kind.high:
            return value
        remedy = f"allowed: {kind.allowed()}"
        if kind is HOUR and value == 24:
            remedy += "; midnight is 0"
        if kind is MINUTE and value == 60:
            remedy += "; the full hour is 0"
        raise bad(kind, "out_of_range", f"{text} is out of range in {item!r}", remedy)
    folded = text.casefold()
    if folded in kind.names:
        return kind.names.index(folded) + kind.low
    raise _unknown_value(kind, text, item)


def _unknown_value(kind: FieldKind, text: str, item: str) -> ScheduleRefused:
    folded = text.casefold()
    guess = meant_name(folded, kind.names)
    if guess is not None:
        reason = "bad_day_name" if kind is DOW else "bad_month_name"
        proposal = re.sub(rf"(?<![A-Za-z]){re.escape(text)}(?![A-Za-z])", guess, item)
        return bad(kind, reason, f"{text!r} is no {kind.name} name", f"write {guess}", proposal)
    elsewhere = next((names for names in (DAY_NAMES, MONTH_NAMES) if meant_name(folded, names)), None)
    if elsewhere is not None and elsewhere is not kind.names:
        where = "day-of-week field, the last one" if elsewhere is DAY_NAMES else "month field, the last but one"
        return bad(kind, "misplaced_name", f"{text!r} cannot stand in {item!r}", f"names belong to the {where}")
    if kind.names and text.isalpha() and len(text) > 1:
        reason = "bad_day_name" if kind is DOW else "bad_month_name"
        return bad(kind, reason, f"{text!r} is no {kind.name} name", f"write one of {', '.join(kind.names)}")
    if "~" in text:
        span = "-".join(
            (low or str(kind.low)) if n == 0 else (low or str(kind.high)) for n, low in enumerate(text.split("~"))
        )
        return bad(
            kind, "bad_value", f"{item!r} asks for a random value",
            f"write H({span}): a value that stays the same for a job",
        )  # fmt: skip
    if folded[:1] in ("l", "w") or "#" in text:
        return bad(kind, "bad_value", f"{item!r} is a day and no {kind.name}", f"allowed: {kind.allowed()}")
    return bad(
        kind,
        "bad_value",
        f"{text!r} is no {kind.name}",
        f"allowed: {kind.allowed()}, ranges, lists, * and */n",
    )


def is_number(text: str) -> bool:
    """Whether `text` is a short run of ASCII digits."""
    # str.isdigit() and int() accept the digits of every script.
    return text.isascii() and text.isdigit() and len(text) <= 4


def bad(kind: FieldKind, reason: str, detail: str, remedy: str, proposal: str | None = None) -> ScheduleRefused:
    """The refusal of something in a field. `proposal` is the text to put in the place of the item."""
    return ScheduleRefused(
        reason, f"{kind.name} field: {detail}", field=f"cron.{kind.key}", remedy=remedy, proposal=proposal
    )
