"""Expressions that are right and yet do what few people expect.

Owns: the warnings shown when a schedule is registered or previewed, each as `code: sentence`.
Refuses to know: errors (those are refusals). Protects: nothing; a warning never changes what a schedule
means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tickwork.core.schedule.cron.days import month_length
from tickwork.core.schedule.cron.field import Field
from tickwork.core.schedule.engine import Schedule
from tickwork.core.schedule.instant import local_text, utc_text
from tickwork.core.schedule.rrule import RRuleTimes
from tickwork.core.schedule.rules import AtRule, BoundedRule, CronRule, Rule, UnionRule, ZonedRule
from tickwork.core.schedule.walk import ClockChanges, instants_of


def warnings_of(schedule: Schedule) -> tuple[str, ...]:
    """The warnings of a schedule, each as `code: sentence`, without repetition, in a stable order."""
    return tuple(dict.fromkeys((*schedule.told, *_warnings(schedule.spec, schedule.rule))))


def _warnings(spec: Mapping[str, Any], rule: Rule) -> Iterator[str]:
    if isinstance(rule, BoundedRule):
        yield from _warnings(spec, rule.rule)
    elif isinstance(rule, UnionRule):
        for member_spec, member in zip(spec["any_of"], rule.members, strict=True):
            yield from _warnings(member_spec, member)
    elif isinstance(rule, CronRule):
        yield from _cron_warnings(spec, rule)
    elif isinstance(rule, ZonedRule) and isinstance(rule.wall, RRuleTimes):
        yield from _rrule_warnings(rule.wall)
    elif isinstance(rule, AtRule) and rule.local_s is not None:
        yield from _time_warnings(rule, rule.local_s)
    if isinstance(rule, ZonedRule) or (isinstance(rule, AtRule) and rule.local_s is not None):
        yield from _zone_warnings(rule.zone.key)


def _rrule_warnings(times: RRuleTimes) -> Iterator[str]:
    days = times.days
    if days.month_days and all(day > 28 for day in days.month_days):
        yield from _short_months(min(days.month_days), days.months or range(1, 13), "BYMONTHDAY=-1")
    given = {
        "BYWEEKNO": days.week_numbers and days.freq != "YEARLY",
        "BYYEARDAY": days.year_days and days.freq != "YEARLY",
        "BYMONTHDAY": days.month_days and days.freq == "WEEKLY",
        "BYDAY with numbers beside BYWEEKNO": days.counted and days.week_numbers,
    }
    for part in (part for part, is_given in given.items() if is_given):
        yield f"not_rfc_5545: {part} has no place in a rule with FREQ={days.freq}: here it leaves out other days"


def _time_warnings(rule: AtRule, local_s: int) -> Iterator[str]:
    shown_s = rule.at_s + rule.zone.offset_at(rule.at_s)
    text = local_text(local_s)
    if shown_s != local_s:
        yield f"time_moved: {text} does not exist in {rule.zone.key} (the clocks jump): it is {local_text(shown_s)}"
    elif len(instants_of(local_s, rule.zone, ClockChanges(fold="both"))) > 1:
        yield f"time_twice: {text} comes twice in {rule.zone.key} (clocks go back): it is {utc_text(rule.at_s)}"


def _zone_warnings(zone: str) -> Iterator[str]:
    if zone.startswith("Etc/GMT") and zone[-1] != "0":
        yield f"zone_sign: {zone} counts the other way round: Etc/GMT+5 is five hours behind UTC"
    if zone in _FIXED:
        yield f"zone_fixed: {zone} has no daylight saving, all the year round; a place such as {_FIXED[zone]} may have"


#: Zones of one offset that are named like half a year of a place.
_FIXED = {"EST": "America/New_York", "MST": "America/Denver", "HST": "Pacific/Honolulu"}


def _cron_warnings(spec: Mapping[str, Any], rule: CronRule) -> Iterator[str]:
    *_, dom, month, dow = fields = rule.expression.fields
    yield from _day_field_warnings(dom, dow)
    for field in fields:
        yield from _step_warnings(field)
    yield from _short_month_warning(dom, month, dow)
    if rule.expression.follows_real_time and "dst" in spec:
        yield (
            "dst_unused: the minute or hour begins with *, so the job follows real time: every matching "
            "minute counts, and the dst settings change nothing"
        )


def _day_field_warnings(dom: Field, dow: Field) -> Iterator[str]:
    if not dom.is_star and not dow.is_star:
        yield (
            f"day_fields_or: both day fields are set, so the job runs on days of the month {dom.text} and "
            f"also on every weekday {dow.text}; it does not need both"
        )
    elif dom.text != "*" and dow.text != "*" and not (dom.text == "?" or dow.text == "?"):
        star, other = (dom, dow) if dom.is_star else (dow, dom)
        yield (
            f"day_fields_and: the {star.kind.name} field {star.text} begins with *, so the job runs only on "
            f"days that match it and the {other.kind.name} field {other.text}"
        )


def _step_warnings(field: Field) -> Iterator[str]:
    low, high = field.kind.low, 6 if field.kind.key == "day_of_week" else field.kind.high
    size = high - low + 1
    for item in field.text.split(","):
        body, _, step_text = item.partition("/")
        if not step_text.isdigit():
            continue
        step = int(step_text)
        if step >= size:
            yield (
                f"step_larger_than_range: {item} in the {field.kind.name} field matches one value only, "
                f"{field.values()[0]}"
            )
        elif body == "*" and (size % step or field.kind.key == "day_of_month"):
            yield (
                f"step_restarts: {item} in the {field.kind.name} field starts again at {low} "
                f"{_CYCLES[field.kind.key]}: it matches {_some(field)}, and the last step is shorter"
            )


_CYCLES = {
    "second": "each minute", "minute": "each hour", "hour": "each day", "day_of_month": "each month",
    "month": "each year", "day_of_week": "each week",
}  # fmt: skip


def _some(field: Field) -> str:
    values = [str(value) for value in field.values()]
    return ", ".join(values) if len(values) <= 6 else f"{', '.join(values[:3])}, ..., {values[-1]}"


def _short_month_warning(dom: Field, month: Field, dow: Field) -> Iterator[str]:
    if dom.letters or not dow.is_every or dom.is_star:
        return
    if dom.values() and dom.values()[0] > 28:
        yield from _short_months(dom.values()[0], month.values(), 'L with "dialect": "extended"')


def _short_months(day: int, months: Iterable[int], last: str) -> Iterator[str]:
    """Of several months, some without the day: whoever means one month knows how long it is."""
    chosen = tuple(months)
    if len(chosen) > 1 and any(month_length(2023, month) < day for month in chosen):
        yield f"short_months: months without day {day} are left out; for the last day of each month use {last}"
