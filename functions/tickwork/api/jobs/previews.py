"""Previews of a schedule: what is due, what a calendar does to it, and what will not run.

Refuses to know where the schedule comes from. Protects tenant-wall: of another team's calendar its times are shown, as
far as they touch the job, and not its words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tickwork.api.jobs.answers import OccurrenceShown, PreviewAnswer
from tickwork.core.access.actors import PLATFORM_TEAM, Actor
from tickwork.core.instants import SECOND_MS, iso, parse_iso
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.occurrences import fire_time_ms
from tickwork.core.jobs.pauses import kept_at
from tickwork.core.jobs.skips import left_out_at
from tickwork.core.schedule import Calendar, Schedule, describe, occurrences, warnings_of
from tickwork.core.schedule.shown.preview import as_rows
from tickwork.flows.ledger import reading
from tickwork.ports import Ports


def calendars_of(ports: Ports, actor: Actor, schedule: Schedule, team: str) -> Mapping[str, Calendar]:
    """What a schedule of a team excludes by. A job from before the wall may go by another team's calendar: its times
    are shown in what they do to the job, and not what they are called there."""
    found = reading.resolve(ports, team, schedule.exclusion.names if schedule.exclusion else ())
    if not actor.is_walled:
        return found
    own = {"", team, PLATFORM_TEAM}
    return {name: one if name.rpartition(":")[0] in own else one.unnamed for name, one in found.items()}


def preview(schedule: Schedule, calendars: Mapping[str, Calendar], after_ms: int, count: int) -> PreviewAnswer:
    """What comes after an instant, with the schedule in words."""
    found = occurrences(schedule, after_ms, count, calendars)
    return {
        "description": describe(schedule),
        "warnings": list(warnings_of(schedule)),
        "occurrences": cast("list[OccurrenceShown]", as_rows(found)),
    }


def start_by(job: Job, schedule: Schedule, scheduled_at_ms: int) -> str | None:
    """By when an occurrence has to be started; None: late beats lost. The job has its calendars."""
    within_ms = job.work.start_within_s * SECOND_MS
    return iso(fire_time_ms(job, schedule, scheduled_at_ms) + within_ms) if within_ms else None


def noted(shown: PreviewAnswer, job: Job, schedule: Schedule, held: str | None) -> PreviewAnswer:
    """A preview of a job, with why an occurrence will not run, or may not (`held`), and by when it has to start."""
    for row in shown["occurrences"]:
        at_ms = parse_iso(row["scheduled_at"])
        row["note"] = "; ".join(filter(None, (row["note"], why_not(job, at_ms) or held))) or None
        if (deadline := start_by(job, schedule, at_ms)) is not None:
            row["start_by"] = deadline
    return shown


def why_not(job: Job, scheduled_at_ms: int) -> str:
    """Why a coming occurrence will not run; empty when it will."""
    if scheduled_at_ms in job.cancelled:
        return "will not run: it is cancelled"
    left_out = left_out_at(job.pauses, job.skips, scheduled_at_ms)
    if left_out is not None:
        return f"will be skipped: {left_out.skip_reason}"
    kept = kept_at(job.pauses, scheduled_at_ms)
    return "" if kept is None else f"waits for the end of a pause, as {kept.at_resume}: {kept.skip_reason}"
