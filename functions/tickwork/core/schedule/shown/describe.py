"""A schedule in words.

Owns: the English sentence for a rule. Refuses to know: the present, occurrences. Protects: it is made from
the parsed value, never from the text, so it says what the engine will do.
"""

from __future__ import annotations

from tickwork.core.schedule.duration import duration_text
from tickwork.core.schedule.engine import Schedule
from tickwork.core.schedule.instant import local_text, utc_text
from tickwork.core.schedule.rrule import RRuleTimes
from tickwork.core.schedule.rules import (
    AtRule,
    BoundedRule,
    CronRule,
    RateRule,
    Rule,
    UnionRule,
    ZonedRule,
)
from tickwork.core.schedule.shown.words import expression_words


def describe(schedule: Schedule) -> str:
    """One sentence without a full stop, such as "at 02:00 every day, America/New_York time"."""
    words, exclusion = _rule_words(schedule.rule), schedule.exclusion
    if exclusion is None:
        return words
    names = " or ".join(exclusion.names)
    if exclusion.on_excluded == "skip":
        return f"{words}, except when {names} excludes it"
    return f"{words}; when {names} excludes it, at the same time on the next working day"


def _rule_words(rule: Rule) -> str:
    if isinstance(rule, BoundedRule):
        return _rule_words(rule.rule) + _bounds_words(rule)
    if isinstance(rule, UnionRule):
        return "; and ".join(_rule_words(member) for member in rule.members)
    if isinstance(rule, CronRule):
        return f"{expression_words(rule.expression)}, {rule.zone.key} time"
    if isinstance(rule, RateRule):
        return f"every {duration_text(rule.period_s)} of elapsed time, counted from {utc_text(rule.anchor_s)}"
    if isinstance(rule, AtRule):
        if rule.local_s is not None:
            return f"once, at {local_text(rule.local_s)} {rule.zone.key} time"
        return f"once, at {utc_text(rule.at_s)}"
    if isinstance(rule, ZonedRule) and isinstance(rule.wall, RRuleTimes):
        start = local_text(rule.wall.start_local_s)
        left_out = f", without {len(rule.wall.left_out)} times" if rule.wall.left_out else ""
        return f"by the rule {rule.wall.whole}, counted from {start}, {rule.zone.key} time{left_out}"
    raise TypeError(f"no words for {type(rule).__name__}")


def _bounds_words(rule: BoundedRule) -> str:
    words = ""
    if rule.start_s is not None:
        words += f", from {utc_text(rule.start_s)} on"
    if rule.end_s is not None:
        words += f", until before {utc_text(rule.end_s)}"
    if rule.last_s is not None:
        words += f", the last time at {utc_text(rule.last_s)}"
    return words
