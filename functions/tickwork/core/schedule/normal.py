"""The normal form: one spelling for what a person wrote, with nothing left open.

Owns: `normalise`: which kind it is, foreign dialects, unions, bounds, calendars. Each kind's own part is in
`kinds`.
Refuses to know: occurrences. Protects: what is stored means the same tomorrow, whatever defaults or libraries
do; the normal form of a normal form is itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tickwork.core.schedule.calendars.exclusion import ON_EXCLUDED
from tickwork.core.schedule.cron.dialects import DIALECTS, translate
from tickwork.core.schedule.instant import read_instant_s, read_time, utc_text
from tickwork.core.schedule.kinds import WRITERS, Request
from tickwork.core.schedule.limits import COUNT_MAX, MEMBERS_MAX
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.spec_keys import (
    BOUND_KEYS,
    COMMON_KEYS,
    KINDS,
    kind_of,
    object_of,
    one_of,
    refuse_unknown,
    text_of,
)
from tickwork.core.schedule.walk import FIXED_TIME, resolve
from tickwork.core.schedule.zone import zone_named

_CALENDAR_NAME: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,63}:)?[A-Za-z0-9._-]{1,63}", re.ASCII)


def normalise(
    spec: Mapping[str, object], *, now_ms: int, job_id: str = "", zone: str = "UTC", told: list[str] | None = None
) -> dict[str, Any]:
    """The normal form of a user's spec. `zone` is the default for members of a union; what was said twice, and which of
    the two holds, is added to `told` as warnings."""
    told = [] if told is None else told
    if not isinstance(spec, Mapping):
        raise ScheduleRefused(
            "bad_type", f"a schedule is an object, not {type(spec).__name__}", field="schedule",
            remedy='write {"cron": "0 2 * * *", "zone": "Europe/Berlin"}',
        )  # fmt: skip
    kind = kind_of(spec)
    refuse_unknown(spec, (kind, *KINDS[kind], *COMMON_KEYS))
    written = spec
    if kind == "cron":
        spec = _without_foreign_dialect(spec)
        kind = kind_of(spec)
    key = zone_named(text_of(spec, "zone", zone, '"Europe/Berlin"')).key
    request = Request(spec, key, now_ms, job_id)
    try:
        normal = _union(request, told) if kind == "any_of" else WRITERS[kind](request)
    except ScheduleRefused as error:
        if spec is not written and error.proposal is not None:
            # It is right in plain cron, and something else (weekdays, fields) where the text came from.
            plain = {**spec, "cron": error.proposal}
            error.remedy, error.proposal = f"write {json.dumps(plain)} instead of the text and its dialect", None
        raise
    return _bounded(request, normal, told) | _calendars(spec)


def _without_foreign_dialect(spec: Mapping[str, object]) -> Mapping[str, object]:
    """The spec with an expression of Quartz or EventBridge translated, when its dialect was given."""
    dialect = one_of(spec.get("dialect", "cron"), DIALECTS, "dialect")
    text = spec["cron"]
    if dialect in ("cron", "extended") or not isinstance(text, str):
        return spec
    translated = translate(text, dialect)
    rest = {key: value for key, value in spec.items() if key not in ("cron", "dialect")}
    for key in sorted(translated.keys() & rest.keys()):
        raise ScheduleRefused(
            "said_twice", f"the {dialect} expression already says {key}", field=key, remedy=f"take out {key}"
        )
    if "at" in translated:
        rest.setdefault("zone", "UTC")  # EventBridge's own default for a time without an offset
    return rest | translated


def _union(request: Request, told: list[str]) -> dict[str, Any]:
    members = request.spec["any_of"]
    if not isinstance(members, list | tuple) or not 1 <= len(members) <= MEMBERS_MAX:
        raise ScheduleRefused(
            "bad_union", f"any_of is a list of 1 to {MEMBERS_MAX} schedules", field="any_of",
            remedy='write [{"cron": "0 9 * * 1-5"}, {"cron": "0 12 * * 6"}]',
        )  # fmt: skip
    found = [one for number, member in enumerate(members) for one in _member(request, number, member, told)]
    if len(found) > MEMBERS_MAX:
        raise ScheduleRefused(
            "bad_union", f"with the dates beside their rules the members are {len(found)} schedules", field="any_of",
            remedy=f"keep them to {MEMBERS_MAX}",
        )  # fmt: skip
    return {"any_of": found}


def _member(request: Request, number: int, member: Mapping[str, object], told: list[str]) -> list[dict[str, Any]]:
    """The member's normal form; several where its own is a union (a rule, and dates beside it)."""
    try:
        for key in ("any_of", "calendars"):
            if isinstance(member, Mapping) and key in member:
                raise ScheduleRefused(
                    "nested", f"a member of any_of has no {key}", field=key, remedy=f"give {key} at the top"
                )
        normal = normalise(member, now_ms=request.now_ms, job_id=request.job_id, zone=request.zone_key, told=told)
        if "any_of" not in normal:
            return [normal]
        for key in BOUND_KEYS:
            if key in normal:
                raise ScheduleRefused(
                    "nested", f"{key} would bound a rule and what stands beside it", field=key,
                    remedy=f"say {key} in one place only, or at the top",
                )  # fmt: skip
        joined: list[dict[str, Any]] = normal["any_of"]
        return joined
    except ScheduleRefused as error:
        error.field = f"any_of[{number}].{error.field}"
        raise


def _bounded(request: Request, normal: dict[str, Any], told: list[str]) -> dict[str, Any]:
    """The normal form with `start`, `end` and `count` as they are given. What an RRULE or a repeat has brought holds
    beside them: the earlier end, the smaller number, the later start."""
    given = _given_bounds(request, normal)
    _tell_twice(request, normal, given, told)
    if "count" in normal and ("count" in given or "start" in given):
        normal = {"any_of": [normal]}
    if "end" in given and "end" in normal:
        given["end"] = min(given["end"], normal["end"])
    if "start" in given and "start" in normal:
        given["start"] = max(given["start"], normal["start"])
    bounded = normal | given
    if "start" in bounded and "end" in bounded and bounded["start"] >= bounded["end"]:
        raise ScheduleRefused(
            "end_before_start", f"end {bounded['end']} is not after start {bounded['start']}", field="end",
            remedy="move one of them",
        )  # fmt: skip
    return bounded


def _given_bounds(request: Request, normal: Mapping[str, Any]) -> dict[str, Any]:
    spec = request.spec
    given: dict[str, Any] = {key: utc_text(request.instant_s(key)) for key in ("start", "end") if key in spec}
    count = spec.get("count")
    for number in (count, normal.get("count")):
        if number is not None and not (type(number) is int and 1 <= number <= COUNT_MAX):
            raise ScheduleRefused(
                "bad_count", f"{number!r} is no count", field="count",
                remedy=f"give a whole number from 1 to {COUNT_MAX}",
            )  # fmt: skip
    if count is not None:
        given["count"] = count
        if "start" not in normal or "count" in normal:
            given.setdefault("start", utc_text(_counted_from_s(request, normal)))
    return given


def _counted_from_s(request: Request, normal: Mapping[str, Any]) -> int:
    """Where a count without a start begins: with the first second that is still ahead, so that none of the counted
    occurrences has passed; with this second where the schedule was made to begin in it."""
    now_s = request.now_ms // 1000
    begin_s = None
    if "anchor" in request.spec:
        begin_s = request.instant_s("anchor")
    elif "start_local" in normal:
        begin_s = resolve(
            read_time(normal["start_local"], "start_local").local_s, zone_named(normal["zone"]), FIXED_TIME
        )
    elif "anchor" in normal and "repeat" in request.spec:
        begin_s = read_instant_s(normal["anchor"], "anchor")
    return now_s if begin_s == now_s else now_s + 1


def _tell_twice(request: Request, normal: Mapping[str, Any], given: Mapping[str, Any], told: list[str]) -> None:
    """Say which of two ends, numbers or starts holds, where the text of a rule has one of its own."""
    text = request.spec.get("rrule")
    if text is None and "repeat" not in request.spec:
        return
    own = {key: value for one in (normal, *normal.get("any_of", ())[:1]) for key, value in one.items()}
    if "end" in given and own.get("end", given["end"]) != given["end"]:
        earlier = min(given["end"], own["end"])
        told.append(f"said_twice: the rule has an UNTIL beside end: nothing is due from the earlier, {earlier}, on")
    if "count" in given and own.get("count", given["count"]) != given["count"]:
        told.append(f"said_twice: the rule counts to {own['count']} beside count {given['count']}: both hold")
    if "start" in request.spec and ("repeat" in request.spec or "DTSTART" in str(text).upper()):
        told.append(
            f"said_twice: the rule has a start of its own beside start {given['start']}: it counts from its own, and "
            "nothing is due before the later of them"
        )


def _calendars(spec: Mapping[str, object]) -> dict[str, Any]:
    if "calendars" not in spec:
        return {}
    value = object_of(spec, "calendars", '{"exclude": ["holidays-de"]}')
    refuse_unknown(value, ("exclude", "on_excluded"), "calendars.")
    names = value.get("exclude")
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) and n for n in names):
        raise ScheduleRefused(
            "bad_calendars", "exclude is a list of calendar names", field="calendars.exclude",
            remedy='write ["holidays-de"]',
        )  # fmt: skip
    if len(names) > MEMBERS_MAX or not all(_CALENDAR_NAME.fullmatch(name) for name in names):
        raise ScheduleRefused(
            "bad_calendars", f"exclude names at most {MEMBERS_MAX} calendars, by name or team:name",
            field="calendars.exclude", remedy='write ["holidays-de", "platform:holidays"]',
        )  # fmt: skip
    on_excluded = one_of(value.get("on_excluded", "skip"), ON_EXCLUDED, "calendars.on_excluded")
    return {"calendars": {"exclude": list(dict.fromkeys(names)), "on_excluded": on_excluded}}
