"""Instants and local wall times as whole seconds, and their ISO-8601 texts.

Owns: the reading and writing of times. A *local second* is a wall-clock reading counted as if it were UTC; it
has no zone until somebody applies an offset.
Refuses to know: zones, the present.
Protects: one text means one instant. ASCII only, an offset or a zone is never guessed, nothing is rounded
to an earlier time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from tickwork.core.schedule.limits import DAY_S, FIRST_S, HOUR_S, LAST_S, MINUTE_S
from tickwork.core.schedule.refusal import ScheduleRefused

_EPOCH = datetime(1970, 1, 1)
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()

_TEXT = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?P<offset>Z|[+-][0-9]{2}:?[0-9]{2})?",
    re.ASCII,
)

_SHAPE = "write it as 2026-12-01T09:00:00Z, or with an offset such as 2026-12-01T09:00:00+01:00"


@dataclass(frozen=True, slots=True)
class TimeText:
    """What a text says: a local second, the nanoseconds beyond it, and the offset if one was given."""

    local_s: int
    nanoseconds: int
    offset_s: int | None

    def ceil_local_s(self) -> int:
        """The first whole local second not before the text's time: never early."""
        return self.local_s + (1 if self.nanoseconds else 0)


def read_time(text: object, field: str) -> TimeText:
    """Read an ISO-8601 date and time. Raises `ScheduleRefused` naming `field`."""
    if not isinstance(text, str):
        what = "a number" if isinstance(text, int | float) else type(text).__name__
        raise ScheduleRefused("bad_time", f"a time is a text, not {what}", field=field, remedy=_SHAPE)
    found = _TEXT.fullmatch(text.strip(" "))
    if found is None:
        raise ScheduleRefused("bad_time", f"{text!r} is no date and time", field=field, remedy=_SHAPE)
    try:
        day = date.fromisoformat(found["date"])
        hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
        datetime(day.year, day.month, day.day, hour, minute, second)
    except ValueError as error:
        detail = f"{text!r} is no time of the calendar: {error}"
        raise ScheduleRefused("bad_time", detail, field=field, remedy="give a date that exists") from None
    local_s = (day.toordinal() - EPOCH_ORDINAL) * DAY_S + hour * HOUR_S + minute * MINUTE_S + second
    nanoseconds = int((found["fraction"] or "0").ljust(9, "0"))
    return TimeText(local_s, nanoseconds, _read_offset(found["offset"], field))


def _read_offset(text: str | None, field: str) -> int | None:
    if text is None:
        return None
    if text == "Z":
        return 0
    hours, minutes = int(text[1:3]), int(text[-2:])
    if hours > 23 or minutes > 59:
        raise ScheduleRefused("bad_time", f"{text} is no offset from UTC", field=field, remedy=_SHAPE)
    size = hours * HOUR_S + minutes * MINUTE_S
    return -size if text[0] == "-" else size


def read_instant_s(text: object, field: str, *, round_up: bool = True) -> int:
    """Read a text that must carry an offset; whole seconds since the epoch, a fraction rounded up (or
    down)."""
    time = read_time(text, field)
    if time.offset_s is None:
        detail = f"{text!r} has no offset, so it names no instant"
        raise ScheduleRefused("no_offset", detail, field=field, remedy="end it with Z or with an offset like +02:00")
    local_s = time.ceil_local_s() if round_up else time.local_s
    return in_range(local_s - time.offset_s, field)


def in_range(instant_s: int, field: str) -> int:
    """`instant_s` when it lies in the years that can be computed; else `ScheduleRefused`."""
    if not FIRST_S <= instant_s <= LAST_S:
        raise ScheduleRefused(
            "out_of_range",
            "the time lies outside the years that can be computed",
            field=field,
            remedy=f"give a time between {utc_text(FIRST_S)} and {utc_text(LAST_S)}",
        )
    return instant_s


def utc_text(instant_s: int) -> str:
    """`2026-11-01T07:00:00Z`. The frozen form: `run_id` hashes it."""
    return local_text(instant_s) + "Z"


def utc_text_ms(instant_ms: int) -> str:
    """The UTC text of an occurrence given in milliseconds (always a whole second)."""
    return utc_text(instant_ms // 1000)


def local_text(local_s: int, offset_s: int | None = None) -> str:
    """`2026-11-01T02:00:00`, with `-05:00` when an offset is given."""
    wall = (_EPOCH + timedelta(seconds=local_s)).isoformat()
    return wall if offset_s is None else wall + offset_text(offset_s)


def offset_text(offset_s: int) -> str:
    """`-05:00`; offsets of old local mean times show their seconds: `-00:44:30`."""
    sign = "-" if offset_s < 0 else "+"
    minutes, seconds = divmod(abs(offset_s), MINUTE_S)
    text = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{seconds:02d}" if seconds else text


def civil(local_s: int) -> date:
    """The calendar date of a local second."""
    return date.fromordinal(local_s // DAY_S + EPOCH_ORDINAL)
