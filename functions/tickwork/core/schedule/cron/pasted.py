"""A text that is no plain cron expression: what it is, and what to write instead.

Owns: recognising what people paste: lines of a crontab, intervals, a zone inside the text, and the forms of Quartz
and EventBridge (which `dialects` translates).
Refuses to know: dates, zones' rules.
Protects: nothing foreign is run by accident, and what a refusal proposes is accepted when it is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from tickwork.core.schedule.cron.characters import refuse_cron
from tickwork.core.schedule.cron.dialects import EVENTBRIDGE_CALL, YEARS, translate
from tickwork.core.schedule.cron.field import parse_field
from tickwork.core.schedule.cron.field_kind import FIVE, SIX
from tickwork.core.schedule.cron.names import DAY_NAMES, MONTH_NAMES
from tickwork.core.schedule.duration import read_duration_s
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.zone import unknown_zone, zone_names

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.ASCII)
#: How a field may begin; anything else after the fields is a command, a comment or some other note.
_FIELD_START: Final = re.compile(
    rf"[0-9*?]|(?:{'|'.join((*DAY_NAMES, *MONTH_NAMES, 'L', 'LW', 'H'))})(?![A-Za-z0-9_.])", re.ASCII | re.IGNORECASE
)


def recognise(parts: Sequence[str], *, seconds: bool = False) -> ScheduleRefused | None:
    """The refusal for an expression of the wrong number of fields that some other scheduler would take."""
    text = " ".join(parts)
    if EVENTBRIDGE_CALL.fullmatch(text):
        return _refusal("eventbridge", "EventBridge writes this", text)
    if parts[0].startswith(("CRON_TZ=", "TZ=")):
        return _zone_inside(parts[0].partition("=")[2].strip("\"'"), " ".join(parts[1:]))
    if parts[-1] in zone_names() and len(parts) > 1:
        return _zone_inside(parts[-1], " ".join(parts[:-1]))
    if parts[0].casefold() in ("@every", "every"):
        return _interval(parts[0], " ".join(parts[1:]))
    if parts[0].startswith("@"):
        return None
    return _crontab_line(parts, seconds=seconds) or _other_fields(parts, seconds=seconds)


def _interval(word: str, length: str) -> ScheduleRefused:
    try:
        read_duration_s(length, "rate")
        remedy = f"use a rate: {json.dumps({'rate': length})}"
    except ScheduleRefused:
        remedy = 'use a rate, such as {"rate": "5 minutes"}, or a cron expression for a time of day'
    return refuse_cron("interval_not_cron", f"{word} is an interval, not a cron expression", remedy)


def leading_dash(parts: Sequence[str]) -> ScheduleRefused:
    """The refusal of a `-` before the first field, by which a crontab asks for no line in the system's log."""
    plain = " ".join((parts[0][1:], *parts[1:]))
    return refuse_cron(
        "leading_dash", "the - before the first field is for the log of the cron daemon", f"write {plain}", plain
    )


def _crontab_line(parts: Sequence[str], *, seconds: bool) -> ScheduleRefused | None:
    """The refusal of a line of a crontab that is no expression, or more than one."""
    if parts[0].startswith("#"):
        return refuse_cron("comment", "a line that begins with # is a comment", "write the five fields alone")
    if _VARIABLE.fullmatch(parts[0]):
        return refuse_cron("variable", f"{parts[0][:40]!r} sets a variable", "write the five fields alone")
    joined = re.sub(r" *, *", ",", " ".join(parts))
    if len(joined.split()) < len(parts):
        plain = joined if _reads(joined.split(), seconds=seconds) else None
        return refuse_cron(
            "blank_in_list", "a list has no spaces: they separate the fields", f"write {plain or 'it as 1,2,3'}", plain
        )
    size = len(SIX if seconds else FIVE)
    if len(parts) > size and not _FIELD_START.match(parts[size]):
        fields = (parts[0].removeprefix("-"), *parts[1:size])  # a crontab's way to ask for no line in the log
        plain = " ".join(fields) if _reads(fields, seconds=seconds) else None
        return too_much(parts[size], plain)
    return None


def too_much(part: str, plain: str | None) -> ScheduleRefused:
    """The refusal of a `part` that follows the expression `plain`."""
    return refuse_cron(
        "too_many_fields", f"{part[:40]!r} is no part of the expression",
        f"leave out what follows {plain or 'the fields'}: a command belongs to the job, a time zone to zone", plain,
    )  # fmt: skip


def _other_fields(parts: Sequence[str], *, seconds: bool) -> ScheduleRefused | None:
    """The refusal of six or seven fields that are right elsewhere."""
    text = " ".join(parts)
    dialect = _foreign_dialect(parts, seconds=seconds)
    if dialect is not None:
        return _refusal(dialect, f"{len(parts)} fields are {_TITLES[dialect]}", text)
    if len(parts) == 6 and not seconds:
        plain = " ".join(parts[1:]) if parts[0] in ("0", "00") and _reads(parts[1:]) else None
        return refuse_cron(
            "too_many_fields", "five fields expected, got 6",
            'if the first one is seconds, ask for it with "seconds": true'
            + (f", or leave the first field out: {plain}" if plain else ""),
            plain,
        )  # fmt: skip
    return None


def _reads(parts: Sequence[str], *, seconds: bool = False) -> bool:
    """Whether these are the fields of a plain expression."""
    kinds = SIX if seconds else FIVE
    if len(parts) != len(kinds):
        return False
    try:
        for kind, part in zip(kinds, parts, strict=True):
            parse_field(kind, part, job_id="any")
    except ScheduleRefused:
        return False
    return True


_TITLES: Final = {"quartz": "Quartz's form", "eventbridge": "EventBridge's form"}


def _foreign_dialect(parts: Sequence[str], *, seconds: bool) -> str | None:
    has_year = bool(YEARS.fullmatch(parts[-1]))
    if len(parts) == 7:
        return "quartz"
    if len(parts) != 6 or seconds:
        return None
    if "?" in (parts[2], parts[4]) or has_year:
        return "eventbridge"
    return "quartz" if "?" in (parts[3], parts[5]) else None


def _refusal(dialect: str, what: str, text: str) -> ScheduleRefused:
    reason = "too_many_fields" if dialect == "quartz" else "foreign_dialect"
    try:
        translated = translate(text, dialect)
        _check_fields(translated)
    except ScheduleRefused as error:
        remedy = (
            error.remedy if error.reason == "reversed_range" else f'{error.remedy}; and give "dialect": "{dialect}"'
        )
        return refuse_cron(reason, f"{what}, not plain cron, and it is not valid there: {error.detail}", remedy)
    plain = str(translated["cron"]) if set(translated) == {"cron"} else None
    shown = f'"{plain}"' if plain else json.dumps(translated)
    return refuse_cron(reason, f"{what}, not plain cron", f'write {shown}, or give "dialect": "{dialect}"', plain)


def _check_fields(translated: dict[str, object]) -> None:
    """Raise what is wrong with the fields of a translation, so that no such text is proposed."""
    parts = str(translated.get("cron", "")).split()
    for number, (kind, part) in enumerate(zip(SIX if "seconds" in translated else FIVE, parts, strict=False)):
        try:
            parse_field(kind, part, letters="dialect" in translated)
        except ScheduleRefused as error:
            if error.proposal is not None:  # in plain cron, whose weekdays are numbered in another way
                plain = " ".join([*parts[:number], error.proposal, *parts[number + 1 :]])
                error.remedy = f"if it is to wrap around, write {json.dumps({**translated, 'cron': plain})}"
            raise


def _zone_inside(zone: str, rest: str) -> ScheduleRefused:
    if zone and zone not in zone_names():
        error = unknown_zone(zone, "cron")
        return refuse_cron("unknown_zone", error.detail, f"{error.remedy}; give the zone beside the expression")
    plain = rest if _reads(rest.split()) else None
    shown = json.dumps({"cron": plain or "0 2 * * *", "zone": zone or "UTC"})
    remedy = f"give the zone beside the expression{'' if plain else ', as in'}: {shown}"
    return refuse_cron("zone_inside", "the expression carries a time zone", remedy, plain)
