"""Expressions that are right and yet do what few people expect.

Owns: the warnings shown when a schedule is registered or previewed, each as `code: sentence`.
Refuses to know: errors (those are refusals). Protects: nothing; a warning never changes what a schedule
means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tickwork.core.schedule.cron.field import Field
from tickwork.core.schedule.engine import Schedule
from tickwork.core.schedule.rules import BoundedRule, CronRule, Rule, UnionRule


def warnings_of(schedule: Schedule) -> tuple[str, ...]:
    """The warnings of a schedule, each as `code: sentence`, without repetition, in a stable order."""
    return tuple(dict.fromkeys(_warnings(schedule.spec, schedule.rule)))


def _warnings(spec: Mapping[str, Any], rule: Rule) -> Iterator[str]:
    if isinstance(rule, BoundedRule):
        yield from _warnings(spec, rule.rule)
    elif isinstance(rule, UnionRule):
        for member_spec, member in zip(spec["any_of"], rule.members, strict=True):
            yield from _warnings(member_spec, member)
    elif isinstance(rule, CronRule):
        yield from _cron_warnings(spec, rule)


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
    if rule.zone.key.startswith("Etc/GMT") and rule.zone.key[-1] != "0":
        yield f"zone_sign: {rule.zone.key} counts the other way round: Etc/GMT+5 is five hours behind UTC"


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
    values = dom.values()
    if values and values[0] > 28 and month.is_every:
        yield (
            f"short_months: months without day {values[0]} are left out; for the last day of each month use "
            'L with "dialect": "extended"'
        )
