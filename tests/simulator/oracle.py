"""When simple schedules are due, and whether an occurrence may be skipped: decided here once more, sharing no code with
the chain. Rates by arithmetic; crons by looking at every minute of a zone's wall clock.

`occurrences` answers None for what it does not know: bounds, calendars, several schedules, single instants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_UNITS_MS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000}
_MINUTE_MS = 60_000
_OUTAGE_MS = 60_000
"""The spec's bound (F8): up to here an occurrence is late, beyond it it was missed."""
_PUNCTUAL_MS = 5_000
_SPAN_MAX_MS = 3 * 3_600_000
_GAP_MAX_MINUTES = 120


def occurrences(schedule: dict[str, Any], after_ms: int, until_ms: int) -> list[int] | None:
    """The instants of a schedule with after_ms < instant <= until_ms; None where this cannot say."""
    if schedule.keys() & {"count", "start", "end", "calendars", "any_of"} or until_ms - after_ms > _SPAN_MAX_MS:
        return None
    if "rate" in schedule:
        return _of_rate(schedule, after_ms, until_ms)
    if "cron" in schedule and "dst" not in schedule:
        return _of_cron(schedule, after_ms, until_ms)
    return None


def _of_rate(schedule: dict[str, Any], after_ms: int, until_ms: int) -> list[int] | None:
    number, unit = str(schedule["rate"]).split()
    period_ms = int(number) * _UNITS_MS[unit.rstrip("s")]
    anchor_ms = int(datetime.fromisoformat(schedule["anchor"]).timestamp()) * 1_000
    first = anchor_ms + max(0, -(-(after_ms + 1 - anchor_ms) // period_ms)) * period_ms
    return list(range(first, until_ms + 1, period_ms))


def _of_cron(schedule: dict[str, Any], after_ms: int, until_ms: int) -> list[int] | None:
    """Vixie's rule with Debian's changes of clocks: a job of fixed times runs once in a gap (just after it) and once in
    a fold (the first time); one whose minute or hour begins with a star follows real time."""
    minutes_text, hours_text, *days = str(schedule["cron"]).split()
    if days != ["*", "*", "*"]:
        return None
    minutes, hours = _field(minutes_text, 60), _field(hours_text, 24)
    try:
        zone = ZoneInfo(schedule.get("zone", "UTC"))
    except ZoneInfoNotFoundError:  # somebody has garbled it meanwhile
        return None
    is_wild = minutes_text.startswith("*") or hours_text.startswith("*")
    found = []
    for at_ms in range(after_ms // _MINUTE_MS * _MINUTE_MS + _MINUTE_MS, until_ms + 1, _MINUTE_MS):
        local = datetime.fromtimestamp(at_ms // 1_000, UTC).astimezone(zone)
        is_due = local.minute in minutes and local.hour in hours
        if not is_wild:
            is_due = (is_due and not local.fold) or _ends_a_gap(local, minutes, hours)
        if is_due:
            found.append(at_ms)
    return found


def _ends_a_gap(local: datetime, minutes: frozenset[int], hours: frozenset[int]) -> bool:
    """Whether the clocks have just jumped over a wall time of the job."""
    before = (local.astimezone(UTC) - timedelta(minutes=1)).astimezone(local.tzinfo)
    skipped = before.replace(tzinfo=None) + timedelta(minutes=1)
    for _ in range(_GAP_MAX_MINUTES):
        if skipped >= local.replace(tzinfo=None):
            return False
        if skipped.minute in minutes and skipped.hour in hours:
            return True
        skipped += timedelta(minutes=1)
    return False


def _field(text: str, size: int) -> frozenset[int]:
    """A field of a cron expression: `*`, `*/n`, a list of numbers."""
    if text.startswith("*"):
        return frozenset(range(0, size, int(text.partition("/")[2] or 1)))
    return frozenset(int(part) for part in text.split(","))


@dataclass(frozen=True, slots=True)
class Missed:
    """An occurrence in the hands of whoever decides: its nominal time, when it was to fire, the job's policy, since
    when it has its schedule, and the earliest and the latest that the decider's clock can have said."""

    scheduled_at_ms: int
    fire_at_ms: int
    tolerance_ms: int
    policy: str
    last: int
    max_lateness_ms: int
    since_ms: int
    earliest_ms: int
    latest_ms: int
    pauses: Sequence[tuple[int, int]] = ()
    """Begin and end of each pause of the job; what lies in one does not count as due."""


def why_skip_is_wrong(missed: Missed, reason: str, schedule: dict[str, Any], *, is_first: bool) -> str | None:
    """Why an occurrence may not be skipped as late; None when it may, or when this cannot say. `is_first`: it is the
    one that was due, the others of its step were missed behind it."""
    late_ms = missed.latest_ms - missed.fire_at_ms
    if late_ms < 0:
        return f"it is due in {-late_ms} ms"
    if reason == "too_late":
        if not missed.max_lateness_ms:
            return "its job has no bound on lateness"
        if late_ms <= missed.max_lateness_ms:
            return f"it is {late_ms} ms late, and its job takes {missed.max_lateness_ms}"
        return None
    if is_first and late_ms <= _OUTAGE_MS:
        return f"it is {late_ms} ms late, which is no outage"
    if missed.policy == "none" and late_ms <= _PUNCTUAL_MS:
        return f"it is {late_ms} ms late, and was not missed with the others"
    if missed.policy == "all":
        return "its job catches up with all"
    if missed.policy == "none":
        return None
    due = _due_behind(missed, schedule, missed.latest_ms)
    if due is not None and len(due) < _newest(missed):
        return f"its job wants the newest {_newest(missed)}, and {len(due)} are due behind it"
    return None


def why_firing_is_wrong(missed: Missed, schedule: dict[str, Any]) -> str | None:
    """Why an occurrence had to be skipped, however early its decider looked at the clock."""
    late_ms = missed.earliest_ms - missed.fire_at_ms
    if missed.max_lateness_ms and late_ms > missed.max_lateness_ms:
        return f"it was {late_ms} ms late, and its job takes {missed.max_lateness_ms}"
    if late_ms <= _OUTAGE_MS:
        return None
    if missed.policy == "all":
        return None
    if missed.policy == "none":
        return f"it was {late_ms} ms late, and its job catches up with none"
    due = _due_behind(missed, schedule, missed.earliest_ms - missed.tolerance_ms)
    if due is not None and len(due) >= _newest(missed):
        return f"its job wants the newest {_newest(missed)}, and {len(due)} were due behind it"
    return None


def _newest(missed: Missed) -> int:
    return 1 if missed.policy == "latest" else missed.last


def _due_behind(missed: Missed, schedule: dict[str, Any], until_ms: int) -> Sequence[int] | None:
    if until_ms <= missed.scheduled_at_ms:
        return []
    known = occurrences(schedule, max(missed.scheduled_at_ms, missed.since_ms), until_ms)
    if known is None:
        return None
    return [at_ms for at_ms in known if not any(begin_ms <= at_ms < end_ms for begin_ms, end_ms in missed.pauses)]
