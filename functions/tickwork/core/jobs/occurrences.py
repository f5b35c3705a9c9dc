"""Which occurrence of a job comes after an instant, and the ledger item that is written for it.

Owns both questions. Refuses to know whether the occurrence before it fired. Protects one-run: the item is put only
where there is none that has started.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.ids import shard_of
from tickwork.core.instants import LATEST_INSTANT_MS
from tickwork.core.jobs.definitions import ERROR, FINISHED, Job, Next
from tickwork.core.jobs.pauses import not_before_ms
from tickwork.core.ledger import deadlines, lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Absent, Is, Item, Missing, Put, Update, all_of, any_of
from tickwork.core.schedule import (
    RULES_VERSION,
    TZDATA_VERSION,
    Schedule,
    fire_at_ms,
    next_after,
    schedule_from_spec,
    start_limit_ms,
    starting_after_ms,
)

_CALENDARS_FROM = 2
"""Where in `planned_with` the calendars begin: behind the zone data and our own rules."""

UNSTARTED = any_of(
    Absent(), all_of(Is("status", lifecycle.CANCELLED), Missing("attempt")), Is("status", lifecycle.PENDING)
)
"""An occurrence may be materialised where there is none, or over one that was cancelled and never started."""


def following(job: Job, after_scheduled_ms: int, shards: int) -> Next | None:
    """The occurrence after a nominal instant, with its jittered fire time and the place it belongs to: where the job is
    spread, or else in the home cell, which has so many `shards`.

    Raises BadSchedule when the stored schedule cannot be read.
    """
    schedule = schedule_from_spec(job.schedule)
    if schedule.is_recurring:
        # What was kept from before a change is not followed by what the new schedule never had.
        after_scheduled_ms = max(after_scheduled_ms, _in_force_after_ms(schedule, job, after_scheduled_ms))
    scheduled_at_ms = _uncancelled_after(job, schedule, after_scheduled_ms)
    if scheduled_at_ms is None or scheduled_at_ms >= LATEST_INSTANT_MS:
        return None
    fires_at_ms = fire_time_ms(job, schedule, scheduled_at_ms)
    if job.spread is None:
        return Next(scheduled_at_ms, fires_at_ms, shard_of(job.job_id, shards))
    return Next(scheduled_at_ms, fires_at_ms, job.spread.shard_of(job.job_id), job.spread.cell)


def fire_time_ms(job: Job, schedule: Schedule, scheduled_at_ms: int) -> int:
    """When an occurrence of a job fires: its nominal instant, and its jitter where it has a tolerance; or the end of a
    pause that has kept it."""
    return max(_planned_ms(job, schedule, scheduled_at_ms), not_before_ms(job.pauses, scheduled_at_ms))


def _planned_ms(job: Job, schedule: Schedule, scheduled_at_ms: int) -> int:
    if not job.tolerance_s:
        return scheduled_at_ms
    limit_ms = start_limit_ms(schedule, scheduled_at_ms, job.tolerance_s, job.calendars)
    return fire_at_ms(job.job_id, scheduled_at_ms, job.tolerance_s, min(limit_ms, LATEST_INSTANT_MS))


def _uncancelled_after(job: Job, schedule: Schedule, after_ms: int) -> int | None:
    """The instant of a schedule after another, leaving out what somebody has cancelled (cancelled-stays)."""
    found = next_after(schedule, after_ms, job.calendars)
    while found is not None and found in job.cancelled:  # each comes once: no more rounds than were cancelled
        found = next_after(schedule, found, job.calendars)
    return found


def _in_force_after_ms(schedule: Schedule, job: Job, after_scheduled_ms: int) -> int:
    """After when the job's occurrences belong to its present schedule."""
    if after_scheduled_ms >= job.scheduled_since_ms:
        return job.scheduled_since_ms
    return starting_after_ms(schedule, job.scheduled_since_ms)


ALL_EXCLUDED = "its calendars exclude every occurrence that is to come"


def ended_attributes(job: Job, passed_ms: int) -> Item:
    """What a job becomes that has no occurrence to come after a nominal instant: finished; or in error, where nothing
    but its calendars takes them away. A mistaken calendar is mended, and the reconciler then goes on after the last
    one that was passed."""
    schedule = schedule_from_spec(job.schedule)
    if schedule.exclusion is None or _uncancelled_after(job, replace(schedule, exclusion=None), passed_ms) is None:
        return {"status": FINISHED}
    return {"status": ERROR, "reason": ALL_EXCLUDED}


def named_calendars(job: Job) -> list[str]:
    """The ids of the calendars that the job's schedule excludes by: `name` is one of the job's own team. What is
    none is left out here, and refused when an occurrence is asked for."""
    named = job.schedule.get("calendars")
    names = named.get("exclude") if isinstance(named, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def planned_with(job: Job) -> str:
    """What the job's occurrences are computed from beside its schedule: zone data, our own rules, and versions of
    calendars. Where it differs from what a pending one was planned with, that one is computed anew."""
    versions = [f"{name}@{calendar.version}" for name, calendar in sorted(job.calendars.items())]
    return " ".join([TZDATA_VERSION, f"rules-{RULES_VERSION}", *versions])


def calendars_since(job: Job) -> dict[str, int]:
    """Of each calendar that has changed since the pending occurrence was planned, the first version that did not count
    then. None, where the zone data or our own rules have changed as well."""
    planned, present = job.planned_with.split(" "), planned_with(job).split(" ")
    if planned[:_CALENDARS_FROM] != present[:_CALENDARS_FROM]:
        return {}
    versions = {name: version for name, _, version in (one.rpartition("@") for one in planned[_CALENDARS_FROM:])}
    counted = {name: int(versions.get(name, one.version - 1)) for name, one in job.calendars.items()}
    return {name: version + 1 for name, version in counted.items() if version < job.calendars[name].version}


def materialise(job: Job, key: LedgerKey, now_ms: int) -> Put:
    """The pending item of a recurring job's occurrence. It has no time to live while it is pending.

    It carries whether the definition, or a hard calendar, limits its start, and by when it has to be started: a change
    of the job that changes either writes its pending item anew, and one of a calendar marks it (`mark_hard`). And by
    which version of the platform's defaults it is planned: what is rolled out later counts from the one after it.
    """
    start_by_ms = deadlines.start_by_ms(key, job.work)
    run = Run(key, created_at_ms=now_ms, guarded=job.is_guarded, start_by_ms=start_by_ms, hard=job.is_hard)
    run = replace(run, group=job.group, epoch=job.epoch)
    if job.goes_by != job.defaults_base:
        run = replace(run, defaults=job.goes_by)
    return Put(TIMERS, run.to_item(), UNSTARTED)


def mark_hard(key: LedgerKey) -> Update:
    """Tell the starts of a pending occurrence that a calendar of its job has become hard since it was written."""
    return Update(TIMERS, key.as_item(), Is("status", lifecycle.PENDING), set={"guarded": True, "hard": True})
