"""The lines of a calendar file: DTSTART, RRULE, RDATE and EXDATE as RFC 5545 writes them.

Owns: unfolding, parameters in any order, quoted values, and times in the basic form.
Refuses to know: what a rule means. Protects: a parameter that would change the meaning is read or refused, never
taken for something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tickwork.core.schedule.instant import in_range
from tickwork.core.schedule.limits import DAY_S, FIRST_S, LAST_S
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.rrule_parts import bad_rrule
from tickwork.core.schedule.zone import Zone, zone_named

#: A rule, and a year and more of dates beside it.
TEXT_LENGTH_MAX: Final = 8_192

EPOCH: Final = datetime(1970, 1, 1)

_PROPERTIES: Final = "DTSTART|RRULE|RDATE|EXDATE"
#: A line that begins with a space goes on with the one before; but people also indent whole lines.
_FOLD: Final = re.compile(rf"\n[ \t](?![ \t]*(?:{_PROPERTIES})[;:])", re.IGNORECASE)
_LINE: Final = re.compile(r'([A-Za-z-]+)((?:;[A-Za-z-]+=(?:"[^"]*"|[^";:]*))*):(.*)', re.ASCII)
_PARAMETER: Final = re.compile(r';([A-Za-z-]+)=(?:"([^"]*)"|([^";:]*))', re.ASCII)
_TIME: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z)?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of such a file: a wall time, with the instant where it was given in UTC; or a whole day."""

    local_s: int
    instant_s: int | None = None
    is_date: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """What the text says. `zone` is TZID's, or the one that was given beside the text."""

    rule: str
    zone: Zone
    has_tzid: bool
    start: Moment | None
    extra: tuple[Moment, ...]
    left_out: tuple[Moment, ...]


def read_lines(text: str, zone: Zone) -> Lines:
    """Read "FREQ=...", or the lines of a file. Raises `ScheduleRefused` for lines that have no place here."""
    if len(text) > TEXT_LENGTH_MAX:
        raise bad_rrule(f"the text has {len(text)} characters", f"keep it to {TEXT_LENGTH_MAX}")
    found: dict[str, list[tuple[Mapping[str, str], str]]] = {"RRULE": [], "DTSTART": [], "RDATE": [], "EXDATE": []}
    for name, parameters, value in _split(text):
        if name not in found:
            raise bad_rrule(f"{name} lines are not supported", "leave days out with a calendar, add days with any_of")
        found[name].append((parameters, value))
    for name, what in (("RRULE", "join two schedules with any_of"), ("DTSTART", "keep one")):
        if len(found[name]) > 1:
            raise bad_rrule(f"there are two {name}s", what)
    if not found["RRULE"]:
        raise bad_rrule("there is no FREQ", 'write "FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0"')
    zone, start, has_tzid = _read_start(found["DTSTART"], zone)
    extra, left_out = (
        tuple(moment for line in found[name] for moment in _read_dates(name, *line, zone))
        for name in ("RDATE", "EXDATE")
    )
    return Lines(found["RRULE"][0][1], zone, has_tzid, start, extra, left_out)


def _split(text: str) -> Iterator[tuple[str, Mapping[str, str], str]]:
    """(name, parameters, value) of each line; a bare rule is an RRULE."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for line in _FOLD.sub("", text).split("\n"):
        line = line.strip(" \t")
        found = _LINE.fullmatch(line)
        if found is not None:
            parameters = {key.upper(): quoted or plain for key, quoted, plain in _PARAMETER.findall(found[2])}
            yield found[1].upper(), parameters, found[3].strip(" ")
        elif "FREQ=" in line.upper():
            yield "RRULE", {}, line
        elif line.upper().startswith("DTSTART="):  # the way of some rule texts
            yield "DTSTART", {}, line.partition("=")[2]
        elif line:
            raise bad_rrule(f"{line[:40]!r} is no line of a rule", "write DTSTART:20260101T090000 and RRULE:FREQ=DAILY")


def _read_start(lines: list[tuple[Mapping[str, str], str]], zone: Zone) -> tuple[Zone, Moment | None, bool]:
    if not lines:
        return zone, None, False
    parameters, value = lines[0]
    has_tzid = "TZID" in parameters
    if has_tzid:
        zone = zone_named(parameters["TZID"], "rrule")
    return zone, _read_moment("DTSTART", parameters, value, zone), has_tzid


def _read_dates(name: str, parameters: Mapping[str, str], value: str, zone: Zone) -> Iterator[Moment]:
    if parameters.get("TZID", zone.key) != zone.key:
        raise bad_rrule(
            f"{name} is in {parameters['TZID']}, and the rule in {zone.key}",
            "write it in the zone of DTSTART; or leave days out with a calendar, add days with any_of",
        )
    for text in value.split(","):
        yield _read_moment(name, parameters, text.strip(" "), zone)


def _read_moment(name: str, parameters: Mapping[str, str], text: str, zone: Zone) -> Moment:
    kind = parameters.get("VALUE", "").upper()
    for key in parameters:
        if key not in ("TZID", "VALUE") and not key.startswith("X-"):
            raise bad_rrule(f"{name} has no parameter {key}", f"write {name};TZID=Europe/Berlin:20260101T090000")
    if kind not in ("", "DATE", "DATE-TIME"):
        raise bad_rrule(f"VALUE={kind} is not supported", "write DATE or DATE-TIME")
    moment = read_moment(text, zone)
    in_range(moment.local_s, "rrule")
    if kind and moment.is_date != (kind == "DATE"):
        raise bad_rrule(f"{text!r} is no {kind}", "write 20260101 for a DATE, 20260101T090000 for a DATE-TIME")
    return moment


def read_moment(text: str, zone: Zone) -> Moment:
    """`20260101T090000` as a wall time of `zone`; with `Z` an instant, taken into the zone; `20260101` as a day."""
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        year, month, day, hour, minute, second = (int(group or 0) for group in found.groups()[:6])
        moment = datetime(year, month, day, hour, minute, second)
    except ValueError:
        raise bad_rrule(f"{text!r} is no time", "write 20260101T090000, or 20260101T090000Z") from None
    whole = moment - EPOCH
    seconds = whole.days * DAY_S + whole.seconds
    if found[7]:
        return Moment(seconds + zone.offset_at(min(max(seconds, FIRST_S), LAST_S)), seconds)
    return Moment(seconds, is_date=found[4] is None)


def said_twice(detail: str, field: str) -> ScheduleRefused:
    """The refusal of a spec that says one thing in two places, and two different things."""
    return ScheduleRefused("said_twice", detail, field=field, remedy=f"take out {field}, or say the same in both")
