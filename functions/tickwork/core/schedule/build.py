"""From the stored normal form to rules.

Owns: the reading of each kind of normal form. Refuses to know: the present, job ids, dialects of others.
Protects: the stored form is read strictly: an unknown key means a newer version wrote it, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tickwork.core.schedule.calendars.exclusion import ON_EXCLUDED, Exclusion
from tickwork.core.schedule.cron.expression import parse_expression
from tickwork.core.schedule.duration import read_duration_s
from tickwork.core.schedule.instant import read_instant_s, read_time
from tickwork.core.schedule.limits import COUNT_MAX, MEMBERS_MAX
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.rrule import RRuleTimes, parse_rrule
from tickwork.core.schedule.rules import (
    AtRule,
    BoundedRule,
    CronRule,
    RateRule,
    Rule,
    UnionRule,
    ZonedRule,
    counted,
)
from tickwork.core.schedule.spec_keys import BOUND_KEYS, COMMON_KEYS
from tickwork.core.schedule.walk import FIXED_TIME, FOLDS, GAPS, REAL_TIME, ClockChanges, resolve
from tickwork.core.schedule.zone import Zone, zone_named

#: The keys of the normal form, by kind; the kind's own key comes first.
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "cron": ("cron", "zone", "dst", "seconds", "dialect"),
    "rate": ("rate", "anchor", "zone"),
    "at": ("at", "zone", "dst"),
    "rrule": ("rrule", "start_local", "exdate", "zone", "dst"),
    "any_of": ("any_of",),
}


def build_rule(spec: Mapping[str, Any], *, is_member: bool = False) -> Rule:
    """The rule of a normal form, inside its bounds."""
    kind = _kind(spec)
    common = BOUND_KEYS if is_member else COMMON_KEYS
    for key in spec:
        if key not in KEYS[kind] and key not in common:
            raise unreadable(key, f"{key!r} does not belong to a {kind} schedule")
    if kind == "any_of":
        members = spec["any_of"]
        if is_member or not isinstance(members, list) or not 1 <= len(members) <= MEMBERS_MAX:
            raise unreadable("any_of", f"any_of holds 1 to {MEMBERS_MAX} schedules, none of them an any_of")
        rule: Rule = UnionRule(tuple(build_rule(member, is_member=True) for member in members))
    else:
        rule = _BUILDERS[kind](spec)
    return _without_left_out(_bounded(rule, spec), spec)


def _kind(spec: Mapping[str, Any]) -> str:
    kinds = [kind for kind in KEYS if kind in spec]
    if len(kinds) != 1:
        raise unreadable("schedule", f"a stored schedule has one of {', '.join(KEYS)}, this one {kinds or 'none'}")
    return kinds[0]


def _cron(spec: Mapping[str, Any]) -> Rule:
    expression = parse_expression(
        spec["cron"], seconds=spec.get("seconds") is True, letters=spec.get("dialect") == "extended"
    )
    changes = REAL_TIME if expression.follows_real_time else build_changes(spec)
    return CronRule(expression.wall_times(), _zone(spec), changes, expression)


def _rate(spec: Mapping[str, Any]) -> Rule:
    period_s = read_duration_s(spec["rate"], "rate")
    return RateRule(period_s, read_instant_s(spec.get("anchor"), "anchor"), _zone(spec))


def _at(spec: Mapping[str, Any]) -> Rule:
    time, zone = read_time(spec["at"], "at"), _zone(spec)
    if time.offset_s is not None:
        return AtRule(read_instant_s(spec["at"], "at"), zone)
    local_s = time.ceil_local_s()
    at_s = resolve(local_s, zone, build_changes(spec))
    if at_s is None:
        raise ScheduleRefused(
            "time_in_gap", f"{spec['at']} does not exist in {zone.key}: the clocks jump over it", field="at",
            remedy='give another time, or "dst": {"gap": "run_after"}',
        )  # fmt: skip
    return AtRule(at_s, zone, local_s, build_changes(spec))


def _rrule(spec: Mapping[str, Any]) -> Rule:
    start = read_time(spec.get("start_local"), "start_local")
    wall = parse_rrule(spec["rrule"], start.ceil_local_s())
    return ZonedRule(wall, _zone(spec), build_changes(spec))


_BUILDERS: Final = {"cron": _cron, "rate": _rate, "at": _at, "rrule": _rrule}


def _without_left_out(rule: Rule, spec: Mapping[str, Any]) -> Rule:
    """The rule without its EXDATEs. They are taken out last: COUNT counts them."""
    if "exdate" not in spec:
        return rule
    times = [read_time(text, "exdate").ceil_local_s() for text in spec["exdate"]]
    inner = rule.rule if isinstance(rule, BoundedRule) else rule
    assert isinstance(inner, ZonedRule)
    assert isinstance(inner.wall, RRuleTimes)
    inner = replace(inner, wall=replace(inner.wall, left_out=frozenset(times)))
    return replace(rule, rule=inner) if isinstance(rule, BoundedRule) else inner


def build_changes(spec: Mapping[str, Any]) -> ClockChanges:
    """The policies for clock changes; the defaults where the spec has none."""
    dst = spec.get("dst")
    if dst is None:
        return FIXED_TIME
    gap, fold = dst.get("gap", FIXED_TIME.gap), dst.get("fold", FIXED_TIME.fold)
    if gap not in GAPS or fold not in FOLDS:
        raise unreadable("dst", f"gap {gap!r} or fold {fold!r} is not known")
    return ClockChanges(gap, fold)


def build_exclusion(spec: Mapping[str, Any]) -> Exclusion | None:
    """The calendars part of a normal form."""
    calendars = spec.get("calendars")
    if calendars is None:
        return None
    if calendars["on_excluded"] not in ON_EXCLUDED:
        raise unreadable("calendars.on_excluded", f"{calendars['on_excluded']!r} is not known")
    if not isinstance(calendars["exclude"], list) or not all(isinstance(name, str) for name in calendars["exclude"]):
        raise unreadable("calendars.exclude", "the calendars are named in a list")
    return Exclusion(tuple(calendars["exclude"]), calendars["on_excluded"])


def _bounded(rule: Rule, spec: Mapping[str, Any]) -> Rule:
    start_s, end_s = (read_instant_s(spec[key], key) if key in spec else None for key in ("start", "end"))
    count = spec.get("count")
    if count is None:
        return rule if start_s is None and end_s is None else BoundedRule(rule, start_s, end_s)
    if start_s is None or not isinstance(count, int) or not 1 <= count <= COUNT_MAX:
        raise unreadable("count", f"count is a number from 1 to {COUNT_MAX} and needs start")
    return counted(rule, start_s, end_s, count)


def _zone(spec: Mapping[str, Any]) -> Zone:
    return zone_named(spec.get("zone", "UTC"))


def unreadable(field: str, detail: str) -> ScheduleRefused:
    """The refusal of a stored form that this version did not write."""
    return ScheduleRefused(
        "unreadable_spec",
        detail,
        field=field,
        remedy="read a user's spec with parse_schedule, or upgrade tickwork",
    )
