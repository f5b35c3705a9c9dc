"""The schedule engine: from what a person wrote to the instants at which a job is due.

Owns: cron, rates, single times, delays, RRULEs, unions, bounds, calendars, daylight saving, jitter.
Refuses to know: the present (every function that needs it takes `now_ms` or `after_ms`), storage, other jobs.
Protects: occurrences strictly increase, never fall into a skipped hour, and cost bounded work to find; a
stored spec means the same tomorrow.

Everything else in the package is its own business; import from here.
"""

from tickwork.core.schedule.calendars.calendar import Calendar
from tickwork.core.schedule.calendars.calendar_spec import parse_calendar
from tickwork.core.schedule.calendars.exclusion import Freeze, hard_freeze
from tickwork.core.schedule.engine import (
    RULES_VERSION,
    Schedule,
    has_end,
    next_after,
    prev_before,
    rate_of,
    start_limit_ms,
    why_nothing_starts,
)
from tickwork.core.schedule.jitter import TOLERANCE_S, default_tolerance_s, fire_at_ms, shortest_gap_s
from tickwork.core.schedule.longest_gap import longest_gap_s
from tickwork.core.schedule.parse import (
    first_due,
    meaning_of,
    parse_schedule,
    read_schedule,
    schedule_from_spec,
    starting_after_ms,
)
from tickwork.core.schedule.refusal import ScheduleRefused
from tickwork.core.schedule.replan import Replan, replan
from tickwork.core.schedule.shown.describe import describe
from tickwork.core.schedule.shown.occurrence import Occurrence, occurrences, occurrences_before, scheduled_between
from tickwork.core.schedule.shown.surprises import warnings_of
from tickwork.core.schedule.zone import TZDATA_VERSION

__all__ = [
    "RULES_VERSION",
    "TOLERANCE_S",
    "TZDATA_VERSION",
    "Calendar",
    "Freeze",
    "Occurrence",
    "Replan",
    "Schedule",
    "ScheduleRefused",
    "default_tolerance_s",
    "describe",
    "fire_at_ms",
    "first_due",
    "hard_freeze",
    "has_end",
    "longest_gap_s",
    "meaning_of",
    "next_after",
    "occurrences",
    "occurrences_before",
    "parse_calendar",
    "parse_schedule",
    "prev_before",
    "rate_of",
    "read_schedule",
    "replan",
    "schedule_from_spec",
    "scheduled_between",
    "shortest_gap_s",
    "start_limit_ms",
    "starting_after_ms",
    "warnings_of",
    "why_nothing_starts",
]
