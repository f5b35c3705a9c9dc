"""The keys of a user's spec: which there are, and what to say about the others.

Owns: the table of keys and the checks of a value's type. Refuses to know: what the values mean.
Protects: a misspelt key is refused, never ignored: `timezone` left unread would be a job at the wrong hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tickwork.core.schedule.refusal import ScheduleRefused, closest

#: What may stand beside each kind's own key.
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "cron": ("zone", "dst", "seconds", "dialect"),
    "rate": ("anchor", "zone"),
    "at": ("zone", "dst"),
    "delay": (),
    "delay_s": (),
    "rrule": ("start_local", "exdate", "zone", "dst"),
    "repeat": ("zone", "dst"),
    "any_of": ("zone",),
}
BOUND_KEYS: Final = ("start", "end", "count")
COMMON_KEYS: Final = (*BOUND_KEYS, "calendars")

_OTHER_NAMES: Final = {
    "timezone": "zone", "tz": "zone", "time_zone": "zone", "every": "rate", "interval": "rate",
    "until": "end", "stop": "end", "finish": "end", "from": "start", "begin": "start", "not_before": "start",
    "not_after": "end", "times": "count", "repeats": "count", "max_runs": "count", "exdates": "exdate",
    "expression": "cron", "schedule": "cron", "iso8601": "repeat", "limit": "count",
    "union": "any_of",
}  # fmt: skip


def kind_of(spec: Mapping[str, object]) -> str:
    """The one key of `KINDS` that the spec has."""
    kinds = [kind for kind in KINDS if kind in spec]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise ScheduleRefused(
            "several_kinds", f"{' and '.join(kinds)} are two schedules", field=kinds[1],
            remedy='keep one, or join them: {"any_of": [{...}, {...}]}',
        )  # fmt: skip
    refuse_unknown(spec, tuple(KINDS))
    raise ScheduleRefused(
        "no_kind", "the schedule says nothing about when", field="schedule",
        remedy=f"give one of {', '.join(KINDS)}",
    )  # fmt: skip


def refuse_unknown(spec: Mapping[str, object], known: Iterable[str], prefix: str = "") -> None:
    """Refuse the first key that is not `known`, with the one that was probably meant."""
    known = tuple(known)
    for key in spec:
        if key not in known:
            guess = _OTHER_NAMES.get(str(key)) or closest(str(key), known)
            remedy = f"did you mean {guess}?" if guess in known else f"known here: {', '.join(known)}"
            raise ScheduleRefused(
                "unknown_key", f"{key!r} is not known here", field=f"{prefix}{key}", remedy=remedy,
                proposal=guess if guess in known else None,
            )  # fmt: skip


def text_of(spec: Mapping[str, object], key: str, default: str, example: str) -> str:
    """The text at `key`."""
    value = spec.get(key, default)
    if not isinstance(value, str):
        raise ScheduleRefused("bad_type", f"{key} is a text", field=key, remedy=f"write {example}")
    return value


def flag_of(spec: Mapping[str, object], key: str) -> bool:
    """The true or false at `key`; false when it is not there."""
    value = spec.get(key, False)
    if not isinstance(value, bool):
        raise ScheduleRefused(
            "bad_type", f"{key} is true or false", field=key, remedy="write true or false without quotes"
        )
    return value


def object_of(spec: Mapping[str, object], key: str, example: str) -> Mapping[str, object]:
    """The object at `key`; empty when it is not there."""
    value = spec.get(key, {})
    if not isinstance(value, Mapping):
        raise ScheduleRefused("bad_type", f"{key} is an object", field=key, remedy=f"write {example}")
    return value


def one_of(value: object, known: tuple[str, ...], field: str) -> str:
    """`value` when it is one of `known`."""
    if isinstance(value, str) and value in known:
        return value
    guess = closest(str(value), known)
    remedy = f"use one of {', '.join(known)}" + (f"; did you mean {guess}?" if guess else "")
    raise ScheduleRefused("unknown_value", f"{value!r} is not known", field=field, remedy=remedy, proposal=guess)
