"""The normal form: one spelling for what a person wrote, with nothing left open.

Owns: checking the keys and values of a user's spec, and filling in what depends on when and for whom it was
registered (`delay`, a missing `anchor`, `H`, policies' defaults).
Refuses to know: occurrences. Protects: what is stored means the same tomorrow, whatever defaults or
libraries do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tickwork.core.schedule.dialects import DIALECTS, translate
from tickwork.core.schedule.duration import duration_text, read_duration_s
from tickwork.core.schedule.exclusion import ON_EXCLUDED
from tickwork.core.schedule.expression import parse_expression
from tickwork.core.schedule.instant import (
    in_range,
    local_text,
    read_instant_s,
    read_time,
    utc_text,
)
from tickwork.core.schedule.limits import COUNT_MAX, MEMBERS_MAX
from tickwork.core.schedule.recurrence import from_iso_repeat, normal_rrule
from tickwork.core.schedule.refusal import ScheduleRefused, closest
from tickwork.core.schedule.walk import FIXED_TIME, FOLDS, GAPS, ClockChanges, resolve
from tickwork.core.schedule.zone import zone_named

#: What a user may write beside each kind's own key.
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "cron": ("zone", "dst", "seconds", "dialect"),
    "rate": ("anchor", "zone"),
    "at": ("zone", "dst"),
    "delay": (),
    "delay_s": (),
    "rrule": ("zone", "dst"),
    "repeat": ("zone", "dst"),
    "any_of": ("zone",),
}
BOUND_KEYS: Final = ("start", "end", "count")
COMMON_KEYS: Final = (*BOUND_KEYS, "calendars")
_OTHER_NAMES: Final = {
    "timezone": "zone", "tz": "zone", "time_zone": "zone", "every": "rate", "interval": "rate",
    "until": "end", "expression": "cron", "schedule": "cron", "iso8601": "repeat", "limit": "count",
    "union": "any_of",
}  # fmt: skip


def normalise(
    spec: Mapping[str, object], *, now_ms: int, job_id: str = "", zone: str = "UTC"
) -> dict[str, Any]:
    """The normal form of a user's spec. `zone` is the default for members of a union."""
    if not isinstance(spec, Mapping):
        raise ScheduleRefused(
            "bad_type", f"a schedule is an object, not {type(spec).__name__}", field="schedule",
            remedy='write {"cron": "0 2 * * *", "zone": "Europe/Berlin"}',
        )  # fmt: skip
    kind = _kind(spec)
    spec = _without_foreign_dialect(kind, spec)
    kind = _kind(spec)
    _check_keys(spec, kind)
    writer = _Writer(spec, _text(spec, "zone", zone), now_ms, job_id)
    normal = writer.write(kind)
    return normal | writer.bounds(normal) | _calendars(spec)


def _kind(spec: Mapping[str, object]) -> str:
    kinds = [kind for kind in KEYS if kind in spec]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise ScheduleRefused(
            "several_kinds", f"{' and '.join(kinds)} are two schedules", field=kinds[1],
            remedy='keep one, or join them: {"any_of": [{...}, {...}]}',
        )  # fmt: skip
    _refuse_unknown(spec, tuple(KEYS))
    raise ScheduleRefused(
        "no_kind",
        "the schedule says nothing about when",
        field="schedule",
        remedy=f"give one of {', '.join(KEYS)}",
    )


def _check_keys(spec: Mapping[str, object], kind: str) -> None:
    _refuse_unknown(spec, (kind, *KEYS[kind], *COMMON_KEYS))


def _refuse_unknown(spec: Mapping[str, object], known: tuple[str, ...], prefix: str = "") -> None:
    for key in spec:
        if key not in known:
            guess = _OTHER_NAMES.get(str(key)) or closest(str(key), known)
            remedy = f"did you mean {guess}?" if guess in known else f"known here: {', '.join(known)}"
            raise ScheduleRefused(
                "unknown_key",
                f"{key!r} is not known here",
                field=f"{prefix}{key}",
                remedy=remedy,
                proposal=guess,
            )


def _without_foreign_dialect(kind: str, spec: Mapping[str, object]) -> Mapping[str, object]:
    """The spec with an expression of Quartz or EventBridge translated, when its dialect was given."""
    dialect = spec.get("dialect", "cron")
    if dialect not in DIALECTS:
        raise _unknown_value("dialect", dialect, DIALECTS)
    text = spec.get("cron")
    if kind != "cron" or dialect in ("cron", "extended") or not isinstance(text, str):
        return spec
    translated = translate(text, str(dialect))
    rest = {key: value for key, value in spec.items() if key not in ("cron", "dialect")}
    for key in translated.keys() & rest.keys():
        raise ScheduleRefused(
            "said_twice", f"the {dialect} expression already says {key}", field=key, remedy=f"take out {key}"
        )
    return rest | translated


class _Writer:
    """Writes the normal form of one spec, kind by kind."""

    def __init__(self, spec: Mapping[str, object], zone: str, now_ms: int, job_id: str) -> None:
        self.spec = spec
        self.zone = zone_named(zone).key
        self.now_ms = now_ms
        self.now_s = -(-now_ms // 1000)  # up: never early
        self.job_id = job_id

    def write(self, kind: str) -> dict[str, Any]:
        written: dict[str, Any] = getattr(self, f"_{kind}")()
        return written

    def _cron(self) -> dict[str, Any]:
        dialect, seconds = self.spec.get("dialect", "cron"), _flag(self.spec, "seconds")
        expression = parse_expression(
            self.spec["cron"], seconds=seconds, letters=dialect == "extended", job_id=self.job_id
        )
        normal: dict[str, Any] = {"cron": expression.text, "zone": self.zone}
        if seconds:
            normal["seconds"] = True
        if expression.has_letters:
            normal["dialect"] = "extended"
        # A job that follows real time has no use for the policies; keep them if given, so that the warning
        # stays.
        if not expression.follows_real_time or "dst" in self.spec:
            normal["dst"] = self._dst()
        return normal

    def _rate(self) -> dict[str, Any]:
        period = duration_text(read_duration_s(self.spec["rate"], "rate"))
        anchor = self.spec.get("anchor")
        # Down, so that "every 10 seconds" registered now is first due in 10 seconds, not in a fraction of
        # one.
        anchor_s = self.now_ms // 1000 if anchor is None else self._instant("anchor")
        return {"rate": period, "anchor": utc_text(anchor_s), "zone": self.zone}

    def _at(self) -> dict[str, Any]:
        time = read_time(self.spec["at"], "at")
        if time.offset_s is not None:
            return {"at": utc_text(read_instant_s(self.spec["at"], "at")), "zone": self.zone}
        if "zone" not in self.spec:
            raise ScheduleRefused(
                "no_offset", f"{self.spec['at']!r} names no instant: no offset and no zone", field="at",
                remedy='end it with Z or an offset such as +02:00, or give "zone"',
            )  # fmt: skip
        in_range(time.local_s, "at")
        return {"at": local_text(time.ceil_local_s()), "zone": self.zone, "dst": self._dst()}

    def _delay(self) -> dict[str, Any]:
        return self._after(read_duration_s(self.spec["delay"], "delay"))

    def _delay_s(self) -> dict[str, Any]:
        return self._after(read_duration_s(self.spec["delay_s"], "delay_s"))

    def _after(self, seconds: int) -> dict[str, Any]:
        at_s = -(-(self.now_ms + seconds * 1000) // 1000)
        return {"at": utc_text(in_range(at_s, "delay")), "zone": self.zone}

    def _rrule(self) -> dict[str, Any]:
        normal = normal_rrule(self.spec["rrule"], self.now_s, zone_named(self.zone))
        return normal if "rate" in normal else {**normal, "dst": self._dst()}

    def _repeat(self) -> dict[str, Any]:
        normal = from_iso_repeat(self.spec["repeat"], zone_named(self.zone))
        return normal if "rate" in normal else {**normal, "dst": self._dst()}

    def _any_of(self) -> dict[str, Any]:
        members = self.spec["any_of"]
        if not isinstance(members, list | tuple) or not 1 <= len(members) <= MEMBERS_MAX:
            raise ScheduleRefused(
                "bad_union",
                "any_of is a list of schedules",
                field="any_of",
                remedy=f"give 1 to {MEMBERS_MAX}",
            )
        return {"any_of": [self._member(number, member) for number, member in enumerate(members)]}

    def _member(self, number: int, member: Mapping[str, object]) -> dict[str, Any]:
        try:
            if isinstance(member, Mapping) and ("any_of" in member or "calendars" in member):
                raise ScheduleRefused(
                    "nested", "a member of any_of has no any_of and no calendars of its own",
                    field="any_of" if "any_of" in member else "calendars", remedy="give it at the top",
                )  # fmt: skip
            return normalise(member, now_ms=self.now_ms, job_id=self.job_id, zone=self.zone)
        except ScheduleRefused as error:
            error.field = f"any_of[{number}].{error.field}"
            raise

    def _dst(self) -> dict[str, str]:
        """The policies in force, written out so that a new default would not change a stored schedule."""
        dst = self.spec.get("dst", {})
        if not isinstance(dst, Mapping):
            raise ScheduleRefused(
                "bad_type",
                "dst is an object",
                field="dst",
                remedy='write {"gap": "run_after", "fold": "first"}',
            )
        _refuse_unknown(dst, ("gap", "fold"), "dst.")
        found = {"gap": dst.get("gap", FIXED_TIME.gap), "fold": dst.get("fold", FIXED_TIME.fold)}
        for key, known in (("gap", GAPS), ("fold", FOLDS)):
            if found[key] not in known:
                raise _unknown_value(f"dst.{key}", found[key], known)
        return found

    def _instant(self, key: str) -> int:
        """An instant, or a wall time in the schedule's zone."""
        time = read_time(self.spec[key], key)
        if time.offset_s is not None:
            return read_instant_s(self.spec[key], key)
        found = resolve(in_range(time.ceil_local_s(), key), zone_named(self.zone), ClockChanges())
        assert found is not None  # run_after finds one for every wall time
        return found

    def bounds(self, normal: Mapping[str, Any]) -> dict[str, Any]:
        """`start`, `end` and `count`, resolved."""
        found: dict[str, Any] = {
            key: utc_text(self._instant(key)) for key in ("start", "end") if key in self.spec
        }
        if "start" in found and "end" in found and found["start"] >= found["end"]:
            raise ScheduleRefused(
                "end_before_start", f"end {found['end']} is not after start {found['start']}", field="end",
                remedy="move one of them",
            )  # fmt: skip
        count = self.spec.get("count", normal.get("count"))
        if count is not None:
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= COUNT_MAX:
                raise ScheduleRefused(
                    "bad_count",
                    f"{count!r} is no count",
                    field="count",
                    remedy=f"give a number from 1 to {COUNT_MAX}",
                )
            found["count"] = count
            found.setdefault("start", normal.get("start", utc_text(self.now_s)))
        return found


def _calendars(spec: Mapping[str, object]) -> dict[str, Any]:
    value = spec.get("calendars")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ScheduleRefused(
            "bad_type",
            "calendars is an object",
            field="calendars",
            remedy='write {"exclude": ["holidays-de"]}',
        )
    _refuse_unknown(value, ("exclude", "on_excluded"), "calendars.")
    names, on_excluded = value.get("exclude"), value.get("on_excluded", "skip")
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) and n for n in names):
        raise ScheduleRefused(
            "bad_calendars", "exclude is a list of calendar names", field="calendars.exclude",
            remedy='write ["holidays-de"]',
        )  # fmt: skip
    if on_excluded not in ON_EXCLUDED:
        raise _unknown_value("calendars.on_excluded", on_excluded, ON_EXCLUDED)
    return {"calendars": {"exclude": list(dict.fromkeys(names)), "on_excluded": on_excluded}}


def _text(spec: Mapping[str, object], key: str, default: str) -> str:
    value = spec.get(key, default)
    if not isinstance(value, str):
        raise ScheduleRefused(
            "bad_type", f"{key} is a text", field=key, remedy="use an IANA name such as Europe/Berlin"
        )
    return value


def _flag(spec: Mapping[str, object], key: str) -> bool:
    value = spec.get(key, False)
    if not isinstance(value, bool):
        raise ScheduleRefused("bad_type", f"{key} is true or false", field=key, remedy="write true or false")
    return value


def _unknown_value(field: str, value: object, known: tuple[str, ...]) -> ScheduleRefused:
    guess = closest(str(value), known)
    remedy = f"use one of {', '.join(known)}" + (f"; did you mean {guess}?" if guess else "")
    return ScheduleRefused(
        "unknown_value", f"{value!r} is not known", field=field, remedy=remedy, proposal=guess
    )
