"""Expressions written for other schedulers: recognised, and translated.

Owns: what Quartz (six or seven fields, weekdays from 1 = Sunday), EventBridge (`cron(...)`, `rate(...)`,
`at(...)`) and crontabs with a zone in the line look like, and how to say the same here.
Refuses to know: dates, zones' rules.
Protects: nothing foreign is run by accident. Without `"dialect"` such a text is refused with its translation;
with it, the translation is what gets stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from tickwork.core.schedule.field_kind import DOM, DOW, HOUR, MINUTE, MONTH, SECOND, FieldKind
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.zone import zone_names

DIALECTS: Final = ("cron", "extended", "quartz", "eventbridge")

_CALL: Final = re.compile(r"(cron|rate|at)\((.*)\)", re.ASCII | re.IGNORECASE | re.DOTALL)
_YEARS: Final = re.compile(r"([12][0-9]{3})(?:-([12][0-9]{3}))?", re.ASCII)
_QUARTZ: Final = (SECOND, MINUTE, HOUR, DOM, MONTH, DOW)
_EVENTBRIDGE: Final = (MINUTE, HOUR, DOM, MONTH, DOW)


def recognise(parts: Sequence[str], *, seconds: bool = False) -> ScheduleRefused | None:
    """The refusal for an expression of the wrong number of fields that some other scheduler would take."""
    text = " ".join(parts)
    if _CALL.fullmatch(text):
        return _refusal("eventbridge", "EventBridge writes this", text)
    if parts[0].startswith(("CRON_TZ=", "TZ=")):
        return _zone_inside(parts[0].partition("=")[2].strip("\"'"), " ".join(parts[1:]))
    if parts[-1] in zone_names() and len(parts) > 1:
        return _zone_inside(parts[-1], " ".join(parts[:-1]))
    if parts[0].casefold() == "@every":
        return _refuse(
            "interval_not_cron", "@every is an interval, not a cron expression",
            f'use a rate: {{"rate": "{" ".join(parts[1:]) or "5 minutes"}"}}', None,
        )  # fmt: skip
    dialect = _foreign_dialect(parts, seconds=seconds)
    if dialect is not None:
        return _refusal(dialect, f"{len(parts)} fields are {_TITLES[dialect]}", text)
    if len(parts) == 6 and not seconds:
        dropped = f", or leave the first field out: {' '.join(parts[1:])}" if parts[0] in ("0", "00") else ""
        return _refuse(
            "too_many_fields", "five fields expected, got 6",
            f'if the first one is seconds, ask for it with "seconds": true{dropped}',
            " ".join(parts[1:]) if dropped else None,
        )  # fmt: skip
    return None


_TITLES: Final = {"quartz": "Quartz's form", "eventbridge": "EventBridge's form"}


def _foreign_dialect(parts: Sequence[str], *, seconds: bool) -> str | None:
    has_year = bool(_YEARS.fullmatch(parts[-1]))
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
    except ScheduleRefused as error:
        return _refuse(reason, f"{what}, not plain cron, and it is not valid there: {error.detail}", error.remedy)
    plain = str(translated["cron"]) if set(translated) == {"cron"} else None
    shown = f'"{plain}"' if plain else json.dumps(translated)
    return _refuse(reason, f"{what}, not plain cron", f'write {shown}, or give "dialect": "{dialect}"', plain)


def _zone_inside(zone: str, rest: str) -> ScheduleRefused:
    remedy = f'give the zone beside the expression: {{"cron": "{rest}", "zone": "{zone}"}}'
    return _refuse("zone_inside", "the expression carries a time zone", remedy, rest)


def translate(text: str, dialect: str) -> dict[str, object]:
    """The spec (some of `cron`, `dialect`, `seconds`, `start`, `end`, `rate`, `at`) that means the same.

    `dialect` is "quartz" or "eventbridge". Raises `ScheduleRefused` when the text is not valid there or says
    something that cannot be said here.
    """
    call = _CALL.fullmatch(text.strip())
    if call and dialect == "eventbridge":
        kind, inner = call[1].casefold(), call[2].strip()
        if kind != "cron":
            return {kind: inner}
        text = inner
    parts = text.split()
    if dialect == "quartz":
        if len(parts) not in (6, 7):
            raise _refuse(
                "wrong_fields", f"Quartz has six or seven fields, got {len(parts)}", "second first, year last"
            )
        return _translate(_QUARTZ, parts[:6], parts[6] if len(parts) == 7 else "*")
    if len(parts) != 6:
        raise _refuse("wrong_fields", f"EventBridge has six fields, got {len(parts)}", "minute first, year last")
    return _translate(_EVENTBRIDGE, parts[:5], parts[5])


def _translate(kinds: Sequence[FieldKind], parts: Sequence[str], year: str) -> dict[str, object]:
    texts = [_translate_field(kind, part) for kind, part in zip(kinds, parts, strict=True)]
    has_seconds = kinds[0] is SECOND
    if has_seconds and texts[0] == "0":
        texts, has_seconds = texts[1:], False
    spec: dict[str, object] = {"cron": " ".join(texts)}
    if any("L" in text or "W" in text or "#" in text for text in (texts[-3], texts[-1])):
        spec["dialect"] = "extended"
    if has_seconds:
        spec["seconds"] = True
    return spec | _translate_year(year)


def _translate_year(text: str) -> dict[str, object]:
    if text == "*":
        return {}
    years = _YEARS.fullmatch(text)
    if years is None:
        raise _refuse(
            "year_field",
            f"the year field {text!r} cannot be kept",
            "use one year or one range, or start and end",
        )
    first, last = int(years[1]), int(years[2] or years[1])
    return {"start": f"{first}-01-01T00:00:00", "end": f"{last + 1}-01-01T00:00:00"}


def _translate_field(kind: FieldKind, text: str) -> str:
    return ",".join(_translate_item(kind, item.upper()) for item in text.split(","))


def _translate_item(kind: FieldKind, item: str) -> str:
    if item in ("?", "*"):
        return "*"
    if kind is DOW:
        item = _renumber(item)
    body, slash, step = item.partition("/")
    if slash and body.isalnum():
        # Here a step needs a range; Quartz steps from the value to the end.
        end = 6 if kind is DOW else kind.high
        return f"*/{step}" if body == str(kind.low) else f"{body}-{end}/{step}"
    return item.lower() if body[:3].casefold() in kind.names else item


def _renumber(item: str) -> str:
    """Quartz and EventBridge count weekdays from 1 = Sunday; cron from 0. `L` alone is their 7."""
    if item == "L":
        return "6"
    body, slash, step = item.partition("/")
    head, hash_sign, nth = body.partition("#")
    head = re.sub(r"[1-7](?![0-9])", lambda found: str(int(found[0]) - 1), head)
    return head + hash_sign + nth + slash + step


def _refuse(reason: str, detail: str, remedy: str, proposal: str | None = None) -> ScheduleRefused:
    return ScheduleRefused(reason, detail, field="cron", remedy=remedy, proposal=proposal)
