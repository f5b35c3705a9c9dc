"""The normal form: one spelling for what a person wrote, with nothing left open.

Owns: `normalise`: which kind it is, foreign dialects, unions, bounds, calendars. Each kind's own part is in
`kinds`.
Refuses to know: occurrences. Protects: what is stored means the same tomorrow, whatever defaults or libraries
do; the normal form of a normal form is itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tickwork.core.schedule.calendars.exclusion import ON_EXCLUDED
from tickwork.core.schedule.cron.dialects import DIALECTS, translate
from tickwork.core.schedule.instant import utc_text
from tickwork.core.schedule.kinds import WRITERS, Request
from tickwork.core.schedule.limits import COUNT_MAX, MEMBERS_MAX
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.spec_keys import (
    COMMON_KEYS,
    KINDS,
    kind_of,
    object_of,
    one_of,
    refuse_unknown,
    text_of,
)
from tickwork.core.schedule.zone import zone_named

_CALENDAR_NAME: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,63}:)?[A-Za-z0-9._-]{1,63}", re.ASCII)


def normalise(spec: Mapping[str, object], *, now_ms: int, job_id: str = "", zone: str = "UTC") -> dict[str, Any]:
    """The normal form of a user's spec. `zone` is the default for members of a union."""
    if not isinstance(spec, Mapping):
        raise ScheduleRefused(
            "bad_type", f"a schedule is an object, not {type(spec).__name__}", field="schedule",
            remedy='write {"cron": "0 2 * * *", "zone": "Europe/Berlin"}',
        )  # fmt: skip
    kind = kind_of(spec)
    refuse_unknown(spec, (kind, *KINDS[kind], *COMMON_KEYS))
    if kind == "cron":
        spec = _without_foreign_dialect(spec)
        kind = kind_of(spec)
    key = zone_named(text_of(spec, "zone", zone, '"Europe/Berlin"')).key
    request = Request(spec, key, now_ms, job_id)
    normal = _union(request) if kind == "any_of" else WRITERS[kind](request)
    return normal | _bounds(request, normal) | _calendars(spec)


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


def _union(request: Request) -> dict[str, Any]:
    members = request.spec["any_of"]
    if not isinstance(members, list | tuple) or not 1 <= len(members) <= MEMBERS_MAX:
        raise ScheduleRefused(
            "bad_union", f"any_of is a list of 1 to {MEMBERS_MAX} schedules", field="any_of",
            remedy='write [{"cron": "0 9 * * 1-5"}, {"cron": "0 12 * * 6"}]',
        )  # fmt: skip
    return {"any_of": [_member(request, number, member) for number, member in enumerate(members)]}


def _member(request: Request, number: int, member: Mapping[str, object]) -> dict[str, Any]:
    try:
        for key in ("any_of", "calendars"):
            if isinstance(member, Mapping) and key in member:
                raise ScheduleRefused(
                    "nested", f"a member of any_of has no {key}", field=key, remedy=f"give {key} at the top"
                )
        return normalise(member, now_ms=request.now_ms, job_id=request.job_id, zone=request.zone_key)
    except ScheduleRefused as error:
        error.field = f"any_of[{number}].{error.field}"
        raise


def _bounds(request: Request, normal: Mapping[str, Any]) -> dict[str, Any]:
    """`start`, `end` and `count`, resolved; an RRULE may have brought its own."""
    spec = request.spec
    found: dict[str, Any] = {key: normal[key] for key in ("start", "end") if key in normal}
    found |= {key: utc_text(request.instant_s(key)) for key in ("start", "end") if key in spec}
    if "start" in found and "end" in found and found["start"] >= found["end"]:
        raise ScheduleRefused(
            "end_before_start", f"end {found['end']} is not after start {found['start']}", field="end",
            remedy="move one of them",
        )  # fmt: skip
    count = spec.get("count", normal.get("count"))
    if count is not None:
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= COUNT_MAX:
            raise ScheduleRefused(
                "bad_count", f"{count!r} is no count", field="count",
                remedy=f"give a whole number from 1 to {COUNT_MAX}",
            )  # fmt: skip
        found["count"] = count
        found.setdefault("start", utc_text(request.now_s))
    return found


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
