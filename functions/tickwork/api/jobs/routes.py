"""Registered jobs: create, read, change, pause, delete, and preview what a schedule gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tickwork.api.cursors import after_name, after_run, to_cursor
from tickwork.api.fields import NoBody, NoQuery, instant_of
from tickwork.api.jobs import overlaps
from tickwork.api.jobs.answers import (
    ChangedJob,
    JobAnswer,
    JobShown,
    JobsPage,
    PreviewAnswer,
)
from tickwork.api.jobs.bodies import (
    JobChangeIn,
    JobIn,
    JobQuery,
    JobRunsQuery,
    JobsQuery,
    NextQuery,
    PreviewIn,
)
from tickwork.api.jobs.making import asked_of, change_of, changed_job, left_out, new_job, schedule_again, without_masks
from tickwork.api.jobs.previews import calendars_of, noted, preview
from tickwork.api.jobs.views import job_view
from tickwork.api.masks import sees_payloads
from tickwork.api.paused_view import paused_over, pauses_over
from tickwork.api.places import fields_under
from tickwork.api.routing import JOB_ID, Call, Route
from tickwork.api.runs.answers import RunsPage
from tickwork.api.runs.views import runs_page
from tickwork.api.work import check_target
from tickwork.core.errors import (
    AlreadyExists,
    BadSchedule,
    NotFound,
    PayloadTooLarge,
    QuotaExceeded,
    TooLate,
    UnknownTeam,
    VersionConflict,
)
from tickwork.core.ids import check_slug, job_id_of
from tickwork.core.instants import iso_ms
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.surprises import warnings_of_policies
from tickwork.core.schedule import (
    Schedule,
    parse_schedule,
    read_schedule,
    schedule_from_spec,
    starting_after_ms,
    warnings_of,
)
from tickwork.flows.access import quotas, registry
from tickwork.flows.access.pools import check_aim
from tickwork.flows.audit import history
from tickwork.flows.jobs import changing, contracts, counting_jobs, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.jobs.rolling_out import check_pin
from tickwork.flows.jobs.second_reading import second_reading
from tickwork.flows.ledger.groups import jobs_as_they_end
from tickwork.flows.ledger.platform_defaults import as_seen
from tickwork.flows.ledger.versions import job_at
from tickwork.flows.runs import paging
from tickwork.ports import Ports


def create_job(call: Call[JobIn, NoQuery]) -> tuple[int, JobAnswer]:
    """Register a job.

    The same request again, at any later time, changes nothing; other content under the name is refused: change the job
    instead. Requests are the same when they mean the same, however they are written.
    """
    ports, body = call.ports, call.body
    check_slug(body.team, "team")
    check_slug(body.name, "name")
    job_id = job_id_of(body.team, body.name)
    body = without_masks(body, lambda: registering.standing(ports, job_id))
    before = registering.registered_before(ports, job_id, asked_of(body).all)
    if before is not None:
        again = schedule_again(before, body.schedule)
        return 200, _answer(call, before, _warnings(ports, body.schedule, again))
    registry.check_team(ports, body.team)
    new, schedule = new_job(body, ports.layout, ports.clock.now_ms())
    check_target(ports, body, new.work)
    check_pin(ports, new.defaults_pin)
    contracts.check(ports, new)
    near = quotas.admit_creates(ports, body.team)
    with fields_under("schedule", BadSchedule):
        job, is_new = changing.create_or_rejoin(ports, new, left_out=left_out(body))
    registry.note_unregistered(ports, [job.team])
    paging.page_owners(ports, {job.team: [*near, *(counting_jobs.near(ports, job.team) if is_new else ())]})
    return 201 if is_new else 200, _answer(call, job, _warnings(ports, body.schedule, schedule))


def list_jobs(call: Call[NoBody, JobsQuery]) -> tuple[int, JobsPage]:
    """A team's jobs, or those of one group, by name."""
    query = call.query
    after, group = after_name(query.cursor, query.team), query.group or ""
    found, more = registering.list_jobs(call.ports, query.team, limit=query.limit, after=after, group=group)
    return 200, {"jobs": [_view(call, job) for job in found], "cursor": to_cursor(more)}


def get_job(call: Call[NoBody, JobQuery]) -> tuple[int, JobShown]:
    """One job: its definition, its status, its pending occurrence and how the last run ended.

    With `version`: its definition as it was at that version, as long as it is kept, also of a deleted job.
    """
    job_id, version = call.path["job_id"], call.query.version
    if version is None:
        return 200, _view(call, registering.get_job(call.ports, job_id))
    return 200, _view(call, job_at(call.ports, job_id, version))


def change_job(call: Call[JobChangeIn, NoQuery]) -> tuple[int, ChangedJob]:
    """Change a job at the version you have read.

    What is left out stays as it is; null gives a field its default again. The whole is checked like a new job. A change
    that comes to what the job says already changes nothing, not even its version.
    """
    ports, body = call.ports, call.body
    given = body.given()
    schedules: list[Schedule | None] = []

    def revise(job: Job) -> NewJob:
        new, schedule = changed_job(job, as_seen(ports, job), given, ports.layout, ports.clock.now_ms())
        check_pin(ports, new.defaults_pin, job.defaults_pin)
        contracts.check(ports, new, job)
        if new.work.pool != job.work.pool:  # what it aims at already goes on
            check_aim(ports, job.team, new.work.pool, (given.get("target") or {}).get("pool") or "")
        schedules[:] = [schedule]
        return new

    def known_by(job: Job) -> tuple[str, ...]:
        return change_of(job, as_seen(ports, job), given).all

    with fields_under("schedule", BadSchedule):
        job = changing.update_job(ports, call.path["job_id"], body.version, revise, known_by)
    schedule = schedules[0] if schedules else schedule_again(job, given.get("schedule"))
    answer = _answer(call, job, _warnings(ports, given.get("schedule"), schedule))
    # A pause raises the version as well, and changes nothing that a job is defined by.
    waits = {"waits_for": found} if "overlap" in given and (found := overlaps.waits_for(ports, job)) else {}
    return 200, cast("ChangedJob", {**answer, "changed": (job.defined_since or job.version) > body.version, **waits})


def _warnings(ports: Ports, spec: dict[str, Any] | None, schedule: Schedule | None) -> list[str]:
    """Of a schedule, and of a second reading of the spec that a request gives."""
    warnings = [] if schedule is None else list(warnings_of(schedule))
    return warnings if schedule is None or spec is None else [*warnings, *second_reading(ports, spec, schedule)]


def next_occurrences(call: Call[NoBody, NextQuery]) -> tuple[int, PreviewAnswer]:
    """Preview a job's occurrences, with what moves or skips them."""
    job = as_seen(call.ports, registering.get_job(call.ports, call.path["job_id"]))
    after_ms = call.ports.clock.now_ms() if call.query.after is None else call.query.after
    schedule = schedule_from_spec(job.schedule)
    calendars = calendars_of(call.ports, call.actor, schedule, job.team)
    job = paused_over(call.ports, job).applied_to(replace(job, calendars=calendars))
    shown = preview(schedule, job.calendars, after_ms, call.query.count)
    held = overlaps.may_be_held_up(call.ports, job)
    return 200, noted(shown, job, schedule, held)


def job_runs(call: Call[NoBody, JobRunsQuery]) -> tuple[int, RunsPage]:
    """A job's runs, newest nominal time first."""
    job_id = call.path["job_id"]
    query, after = call.query, after_run(call.query.cursor, job_id)
    page = history.job_runs(
        call.ports, job_id, limit=query.limit, after=after, status=query.status, since_ms=max(0, query.since)
    )
    return 200, runs_page(page, to_cursor(page.after), iso_ms(page.after[0]) if page.after else None)


def preview_schedule(call: Call[PreviewIn, NoQuery]) -> tuple[int, PreviewAnswer]:
    """Preview any schedule: in words, with warnings and its occurrences."""
    body, now_ms = call.body, call.ports.clock.now_ms()
    after_ms = instant_of(body.after, "after") if body.after else now_ms
    team = check_slug(body.team or "default", "team")
    with fields_under("schedule"):
        if body.after:  # as if it were registered then: people ask what would have happened
            schedule = read_schedule(body.schedule, now_ms=after_ms, job_id=body.job_id or "")
        else:
            schedule = parse_schedule(body.schedule, now_ms=now_ms, job_id=body.job_id or "")
            after_ms = starting_after_ms(schedule, now_ms)
        return 200, preview(schedule, calendars_of(call.ports, call.actor, schedule, team), after_ms, body.count)


def _view(call: Call[Any, Any], job: Job) -> JobShown:
    (job,) = jobs_as_they_end(call.ports, [as_seen(call.ports, job)])
    over, sees = pauses_over(call.ports, job), sees_payloads(call.ports, call.actor, job.team)
    return job_view(job, call.ports.clock.now_ms(), sees_payload=sees, over=over)


def _answer(call: Call[Any, Any], job: Job, warnings: list[str]) -> JobAnswer:
    more = [*warnings_of_policies(job), *contracts.warnings_of(call.ports, job)]
    return cast("JobAnswer", {**_view(call, job), "warnings": [*warnings, *more]})


_AT = (JOB_ID,)

ROUTES = (
    Route(
        "POST",
        "/jobs",
        create_job,
        JobIn,
        NoQuery,
        JobAnswer,
        {201: "It is registered.", 200: "It was registered before, with the same content."},
        errors=(AlreadyExists, BadSchedule, PayloadTooLarge, QuotaExceeded, UnknownTeam),
    ),
    Route("GET", "/jobs", list_jobs, NoBody, JobsQuery, JobsPage),
    Route("GET", "/jobs/{job_id}", get_job, NoBody, JobQuery, JobShown, at=_AT, errors=(NotFound,)),
    Route(
        "PATCH",
        "/jobs/{job_id}",
        change_job,
        JobChangeIn,
        NoQuery,
        ChangedJob,
        at=_AT,
        errors=(NotFound, VersionConflict, TooLate, BadSchedule, PayloadTooLarge),
    ),
    Route(
        "GET",
        "/jobs/{job_id}/next",
        next_occurrences,
        NoBody,
        NextQuery,
        PreviewAnswer,
        at=_AT,
        errors=(NotFound, BadSchedule),
    ),
    Route("GET", "/jobs/{job_id}/runs", job_runs, NoBody, JobRunsQuery, RunsPage, at=_AT, errors=(NotFound,)),
    Route("POST", "/schedules:preview", preview_schedule, PreviewIn, NoQuery, PreviewAnswer, errors=(BadSchedule,)),
)
