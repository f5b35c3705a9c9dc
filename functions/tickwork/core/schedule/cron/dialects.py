"""Expressions written for other schedulers, translated.

Owns: what Quartz (six or seven fields, weekdays from 1 = Sunday) and EventBridge (`cron(...)`, `rate(...)`,
`at(...)`) say, and how to say the same here.
Refuses to know: dates, zones; that a text was meant for them (see `pasted`).
Protects: what is stored is the translation, and what is not valid there is refused and not guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tickwork.core.schedule.cron.characters import refuse_cron, split
from tickwork.core.schedule.cron.field import parse_field
from tickwork.core.schedule.cron.field_kind import DOM, DOW, HOUR, MINUTE, MONTH, SECOND, FieldKind, bad
from tickwork.core.schedule.cron.letters import has_letter
from tickwork.core.schedule.refusal import ScheduleRefused

DIALECTS: Final = ("cron", "extended", "quartz", "eventbridge")

EVENTBRIDGE_CALL: Final = re.compile(r"(cron|rate|at)\((.*)\)", re.ASCII | re.IGNORECASE | re.DOTALL)
YEARS: Final = re.compile(r"([12][0-9]{3})(?:-([12][0-9]{3}))?", re.ASCII)
_RATE: Final = re.compile(r"([1-9][0-9]{0,8}) (minute|hour|day)s?", re.ASCII)
_AT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}", re.ASCII)
_QUARTZ: Final = (SECOND, MINUTE, HOUR, DOM, MONTH, DOW)
_EVENTBRIDGE: Final = (MINUTE, HOUR, DOM, MONTH, DOW)


def translate(text: str, dialect: str) -> dict[str, object]:
    """The spec (some of `cron`, `dialect`, `seconds`, `start`, `end`, `rate`, `at`) that means the same.

    `dialect` is "quartz" or "eventbridge". Raises `ScheduleRefused` when the text is not valid there or says
    something that cannot be said here.
    """
    call = EVENTBRIDGE_CALL.fullmatch(" ".join(split(text)))
    if call and dialect == "eventbridge":
        kind, inner = call[1].casefold(), call[2].strip()
        if kind != "cron":
            return {kind: _checked_call(kind, inner)}
        text = inner
    parts = split(text)
    if dialect == "quartz":
        if len(parts) not in (6, 7):
            raise refuse_cron(
                "wrong_fields", f"Quartz has six or seven fields, got {len(parts)}", "second first, year last"
            )
        return _translate(_QUARTZ, parts[:6], parts[6] if len(parts) == 7 else "*", (1970, 2099))
    if len(parts) != 6:
        raise refuse_cron("wrong_fields", f"EventBridge has six fields, got {len(parts)}", "minute first, year last")
    return _translate(_EVENTBRIDGE, parts[:5], parts[5], (1970, 2199))


def _checked_call(kind: str, inner: str) -> str:
    """What stands in `rate(...)` or `at(...)`, when EventBridge takes it."""
    if kind == "at":
        if not _AT.fullmatch(inner):
            raise refuse_cron("foreign_form", f"at({inner}) is not valid there", "write at(2026-12-01T09:00:00)")
        return inner
    rate = _RATE.fullmatch(inner)
    if rate is None:
        raise refuse_cron(
            "foreign_form", f"rate({inner}) is not valid there: it has minutes, hours and days",
            'write rate(5 minutes); or, without the dialect, a rate such as {"rate": "30 seconds"}',
        )  # fmt: skip
    right = f"{rate[1]} {rate[2]}{'' if int(rate[1]) == 1 else 's'}"
    if inner != right:
        raise refuse_cron("foreign_form", f"rate({inner}) is not valid there", f"write rate({right})", f"rate({right})")
    return inner


def _translate(
    kinds: Sequence[FieldKind], parts: Sequence[str], year: str, years: tuple[int, int]
) -> dict[str, object]:
    has_seconds = wraps = kinds[0] is SECOND
    _check_day_fields(parts, year if has_seconds else "", is_quartz=has_seconds)
    texts = [_translate_field(kind, part, wraps=wraps) for kind, part in zip(kinds, parts, strict=True)]
    if has_seconds and texts[0] in ("0", "00"):
        texts, has_seconds = texts[1:], False
    spec: dict[str, object] = {"cron": " ".join(texts)}
    if any(has_letter(kind, item) for kind, text in ((DOM, texts[-3]), (DOW, texts[-1])) for item in text.split(",")):
        spec["dialect"] = "extended"
    if has_seconds:
        spec["seconds"] = True
    return spec | _translate_year(year, years)


def _check_day_fields(parts: Sequence[str], year: str, *, is_quartz: bool) -> None:
    """Exactly one day field is `?` there, and nothing else is; and some letters stand alone."""
    dom, dow = parts[-3], parts[-1]
    for kind, part in zip((_QUARTZ if is_quartz else _EVENTBRIDGE), parts, strict=True):
        if "?" in part and not (kind in (DOM, DOW) and part == "?"):
            raise bad(kind, "bad_value", f"'?' cannot stand in {part!r} there", "write * instead of ?")
    if (dom == "?") == (dow == "?"):
        fields = list(parts)
        plain = None
        if "*" in (dom, dow) or dom == "?":
            fields[-1 if dow in ("*", "?") else -3] = "?"
            fields[-3] = "*" if fields[-3] == "?" and fields[-1] == "?" else fields[-3]
            plain = " ".join([*fields, year] if year not in ("", "*") else fields) if is_quartz else None
        what = "both day fields are ?" if dom == "?" else f"both day fields are set, {dom} and {dow}"
        raise refuse_cron(
            "both_days", f"{what}, and exactly one of them must be ? there",
            "write ? in one of them" + (f": {plain}" if plain else ", or join two schedules with any_of"), plain,
        )  # fmt: skip
    if dow.count("#") > 1 or ("#" in dow and "," in dow):
        raise bad(DOW, "bad_value", f"{dow!r} has # beside other days", "join several schedules with any_of")
    if is_quartz and "," in dom and re.search("[LW]", dom, re.IGNORECASE):
        raise bad(DOM, "bad_value", f"{dom!r} has L or W beside other days", "join several schedules with any_of")


def _translate_year(text: str, years_known: tuple[int, int]) -> dict[str, object]:
    if text == "*":
        return {}
    years = YEARS.fullmatch(text)
    if years is None:
        raise refuse_cron(
            "year_field",
            f"the year field {text!r} cannot be kept",
            "use one year or one range, or start and end",
        )
    first, last = int(years[1]), int(years[2] or years[1])
    if not years_known[0] <= first <= last <= years_known[1]:
        raise refuse_cron(
            "year_field", f"the year field {text!r} is not valid there",
            f"give a year from {years_known[0]} to {years_known[1]}, or a range that runs forward",
        )  # fmt: skip
    return {"start": f"{first}-01-01T00:00:00", "end": f"{last + 1}-01-01T00:00:00"}


def _translate_field(kind: FieldKind, text: str, *, wraps: bool) -> str:
    items = [_translate_item(kind, item.upper()) for item in text.split(",")]
    return ",".join(_unwrapped(kind, item) if wraps else item for item in items)


def _unwrapped(kind: FieldKind, item: str) -> str:
    """Quartz lets a range run over the end (22-2, FRI-MON); here it becomes the list that is meant."""
    try:
        parse_field(kind, item, letters=True)
    except ScheduleRefused as error:
        if error.reason == "reversed_range" and error.proposal is not None:
            return error.proposal
    return item


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
    for number in re.findall(r"[0-9]+", head):
        if number.lstrip("0") not in tuple("1234567"):
            raise bad(
                DOW, "out_of_range", f"{number} is out of range in {item!r}",
                "weekdays are counted from 1 = Sunday to 7 = Saturday there, or written sun-sat",
            )  # fmt: skip
    head = re.sub(r"[1-7]", lambda found: str(int(found[0]) - 1), head)
    return head + hash_sign + nth + slash + step
