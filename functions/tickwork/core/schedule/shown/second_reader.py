"""croniter as a second reader: what it makes of a cron expression that was accepted, beside what we make of it.

Owns: which expressions it can be asked about, how far, and the warning when it reads another time. Refuses to know:
zones (both readers count on the wall clock, where no clock changes), and who asks.
Protects: it answers nothing. A difference is a warning, a failure is a reason for the log, and our reading stands.
croniter is imported here, when a first expression is read, and nowhere else: no window and no cold start has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tickwork.core.schedule.engine import Schedule
from tickwork.core.schedule.rules import BoundedRule, CronRule

READ_MAX: Final = 5
"""Occurrences that are compared: a week of a daily job with its weekend, a year of a quarterly one."""
YEARS_MAX: Final = 10
"""How far it looks for the next one, which bounds its search: some milliseconds. A 29 February comes within eight
years, and what comes more seldom (one on a Sunday) is compared as far as that."""
LENGTH_MAX: Final = 100
"""Characters that it is given to read. A longer expression is a list that no person checks by eye either."""

_YEAR_S: Final = 366 * 86_400
_EPOCH: Final = datetime(1970, 1, 1)
_NAMES: Final = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat"
_ITEM: Final = rf"(?:\d+|{_NAMES})(?:-(?:\d+|{_NAMES})(?:/\d+)?)?"
_FIELD: Final = re.compile(rf"\*(?:/\d+)?|\?|{_ITEM}(?:,{_ITEM})*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of it: a warning for whoever registers, or why there was no reading; nothing when both agree, or when
    the expression is not for croniter."""

    warning: str = ""
    failure: str = ""


def read_again(spec: Mapping[str, object], schedule: Schedule, now_ms: int) -> Reading:
    """`spec` as it was written, `schedule` as it was accepted: their next occurrences after `now_ms`, on the wall
    clock of the schedule's zone, without bounds and calendars."""
    text, rule = plain_cron(spec), _cron_rule(schedule)
    if text is None or rule is None:
        return Reading()
    now_s = now_ms // 1000
    local_s = now_s + rule.zone.segment_at(now_s).offset_s
    ours = _ours(rule, local_s)
    try:
        theirs = _theirs(text, local_s, len(ours))
    except Exception as error:  # noqa: BLE001 - whatever another's reader does is no answer of ours
        return Reading(failure=repr(error)[:200])
    return Reading() if ours == theirs else Reading(warning=_warning(text, ours, theirs))


def plain_cron(spec: Mapping[str, object]) -> str | None:
    """The expression, when it is one that croniter reads by the rules of docs/schedules.md: five fields of numbers,
    names, ranges, steps and lists. A `*` inside a list is left out: whether such a field counts as a star is where
    readers differ, and our rule for it is written there."""
    text = spec.get("cron")
    if not isinstance(text, str) or len(text) > LENGTH_MAX or spec.get("seconds"):
        return None
    fields = text.split()
    is_plain = len(fields) == 5 and all(_FIELD.fullmatch(field) for field in fields)
    return " ".join(fields) if is_plain and spec.get("dialect", "cron") == "cron" else None


def _cron_rule(schedule: Schedule) -> CronRule | None:
    rule = schedule.rule.rule if isinstance(schedule.rule, BoundedRule) else schedule.rule
    return rule if isinstance(rule, CronRule) else None


def _ours(rule: CronRule, local_s: int) -> list[int]:
    found: list[int] = []
    for _ in range(READ_MAX):
        match = rule.wall.next_match(local_s + 1)
        if match is None or match - local_s > YEARS_MAX * _YEAR_S:
            break
        found.append(match)
        local_s = match
    return found


def _theirs(text: str, local_s: int, count: int) -> list[int]:
    if not count:
        return []
    from croniter import croniter

    # `implement_cron_bug` is Vixie's rule for the two day fields, which is ours.
    reader = croniter(
        text, _EPOCH + timedelta(seconds=local_s), implement_cron_bug=True, max_years_between_matches=YEARS_MAX + 1
    )
    return [(reader.get_next(datetime) - _EPOCH) // timedelta(seconds=1) for _ in range(count)]


def _warning(text: str, ours: list[int], theirs: list[int]) -> str:
    our, their = next((our, their) for our, their in zip(ours, theirs, strict=True) if our != their)
    return (
        f"second_reader: here {text} is next due at {_shown(our)}; croniter, which other schedulers use, says "
        f"{_shown(their)}: look at the preview, and write it so that there is one reading"
    )


def _shown(local_s: int) -> str:
    return (_EPOCH + timedelta(seconds=local_s)).isoformat(timespec="minutes")
