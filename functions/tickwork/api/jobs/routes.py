"""Registered jobs: create, read, change, pause, delete, and preview what a schedule gives."""

from __future__ import annotations

from typing import cast

from tickwork.api.cursors import after_name, after_run, to_cursor
from tickwork.api.fields import NoBody, NoQuery, TeamPage, instant_of
from tickwork.api.jobs.answers import (
    DeletedJob,
    JobAnswer,
    JobShown,
    JobsPage,
    OccurrenceShown,
    PreviewAnswer,
    ResumedJob,
)
from tickwork.api.jobs.bodies import JobChangeIn, JobIn, JobRunsQuery, NextQuery, PauseIn, PreviewIn, ResumeIn
from tickwork.api.jobs.making import asked_of, change_of, changed_job, new_job, schedule_again
from tickwork.api.jobs.views import job_view
from tickwork.api.places import fields_under
from tickwork.api.routing import JOB_ID, Call, Route
from tickwork.api.runs.answers import RunsPage
from tickwork.api.runs.views import run_view
from tickwork.core.errors import (
    AlreadyExists,
    BadSchedule,
    InvalidField,
    NotFound,
    PayloadTooLarge,
    TooLate,
    VersionConflict,
)
from tickwork.core.ids import check_slug, job_id_of
from tickwork.core.instants import parse_iso
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.pauses import pause_at
from tickwork.core.schedule import (
    Schedule,
    describe,
    occurrences,
    parse_schedule,
    read_schedule,
    schedule_from_spec,
    starting_after_ms,
    warnings_of,
)
from tickwork.core.schedule.shown.preview import as_rows
from tickwork.flows.audit import history
from tickwork.flows.jobs import changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.jobs.second_reading import second_reading
from tickwork.flows.ledger import reading
from tickwork.ports import Ports


def create_job(call: Call[JobIn, NoQuery]) -> tuple[int, JobAnswer]:
    """Register a job.

    The same request again, at any later time, changes nothing; other content under the name is refused: change the job
    instead. Requests are the same when they mean the same, however they are written.
    """
    ports, body = call.ports, call.body
    check_slug(body.team, "team")
    check_slug(body.name, "name")
    before = registering.registered_before(ports, job_id_of(body.team, body.name), asked_of(body).all)
    if before is not None:
        job, is_new, schedule = before, False, schedule_again(before, body.schedule)
    else:
        new, schedule = new_job(body, ports.layout, ports.clock.now_ms())
        with fields_under("schedule", BadSchedule):
            job, is_new = registering.create_job(ports, new)
    warnings = [*warnings_of(schedule), *second_reading(ports, body.schedule, schedule)]
    return 201 if is_new else 200, _answer(ports, job, warnings)


def list_jobs(call: Call[NoBody, TeamPage]) -> tuple[int, JobsPage]:
    """A team's jobs, by name."""
    query = call.query
    after = after_name(query.cursor, query.team)
    found, more = registering.list_jobs(call.ports, query.team, limit=query.limit, after=after)
    return 200, {"jobs": [_view(call.ports, job) for job in found], "cursor": to_cursor(more)}


def get_job(call: Call[NoBody, NoQuery]) -> tuple[int, JobShown]:
    """One job: its definition, its status, its pending occurrence and how the last run ended."""
    return 200, _view(call.ports, registering.get_job(call.ports, call.path["job_id"]))


def delete_job(call: Call[NoBody, NoQuery]) -> tuple[int, DeletedJob]:
    """Delete a job and cancel its pending occurrence. Again is a no-op."""
    job_id = call.path["job_id"]
    return 200, {"job_id": job_id, "deleted": True, "changed": registering.delete_job(call.ports, job_id)}


def change_job(call: Call[JobChangeIn, NoQuery]) -> tuple[int, JobAnswer]:
    """Change a job at the version you have read.

    What is left out stays as it is; null gives a field its default again. The whole is checked like a new job.
    """
    ports, body = call.ports, call.body
    given = body.given()
    schedules: list[Schedule] = []

    def revise(job: Job) -> NewJob:
        new, schedule = changed_job(job, given, ports.layout, ports.clock.now_ms())
        schedules[:] = [schedule]
        return new

    with fields_under("schedule", BadSchedule):
        job = changing.update_job(
            ports, call.path["job_id"], body.version, revise, lambda job: change_of(job, given).all
        )
    schedules = schedules or [schedule_again(job, given.get("schedule"))]
    warnings = [warning for schedule in schedules for warning in warnings_of(schedule)]
    for schedule in schedules if "schedule" in given else ():
        warnings += second_reading(ports, given["schedule"], schedule)
    return 200, _answer(ports, job, warnings)


def pause_job(call: Call[PauseIn, NoQuery]) -> tuple[int, JobShown]:
    """Skip a job's occurrences from now on."""
    body = call.body
    until_ms = instant_of(body.until, "until") if body.until else 0
    if body.until and until_ms <= call.ports.clock.now_ms():
        raise InvalidField("it has passed", field="until", remedy="give a later time, or leave it out")
    job = changing.pause_job(call.ports, call.path["job_id"], body.by, body.reason, until_ms)
    return 200, _view(call.ports, job)


def resume_job(call: Call[ResumeIn, NoQuery]) -> tuple[int, ResumedJob]:
    """Let a paused job run again from now on. Again is a no-op."""
    job, was_paused = changing.resume_job(call.ports, call.path["job_id"], call.body.by)
    return 200, cast("ResumedJob", {**_view(call.ports, job), "changed": was_paused})


def next_occurrences(call: Call[NoBody, NextQuery]) -> tuple[int, PreviewAnswer]:
    """Preview a job's occurrences, with what moves or skips them."""
    job = registering.get_job(call.ports, call.path["job_id"])
    after_ms = call.ports.clock.now_ms() if call.query.after is None else call.query.after
    shown = _preview(call.ports, schedule_from_spec(job.schedule), job.team, after_ms, call.query.count)
    for row in shown["occurrences"]:
        if (pause := pause_at(job.pauses, parse_iso(row["scheduled_at"]))) is not None:
            row["note"] = "; ".join(filter(None, (row["note"], f"will be skipped: {pause.skip_reason}")))
    return 200, shown


def job_runs(call: Call[NoBody, JobRunsQuery]) -> tuple[int, RunsPage]:
    """A job's runs, newest nominal time first."""
    job_id = call.path["job_id"]
    after = after_run(call.query.cursor, job_id)
    found, more = history.job_runs(call.ports, job_id, limit=call.query.limit, after=after)
    return 200, {"runs": [run_view(one) for one in found], "cursor": to_cursor(more)}


def preview_schedule(call: Call[PreviewIn, NoQuery]) -> tuple[int, PreviewAnswer]:
    """Preview any schedule: in words, with warnings and its occurrences."""
    body, now_ms = call.body, call.ports.clock.now_ms()
    after_ms = instant_of(body.after, "after") if body.after else now_ms
    team = check_slug(body.team or "default", "team")
    with fields_under("schedule"):
        if body.after:  # as if it were registered then: people ask what would have happened
            schedule = read_schedule(body.schedule, now_ms=after_ms)
        else:
            schedule = parse_schedule(body.schedule, now_ms=now_ms)
            after_ms = starting_after_ms(schedule, now_ms)
        return 200, _preview(call.ports, schedule, team, after_ms, body.count)


def _view(ports: Ports, job: Job) -> JobShown:
    return job_view(job, ports.clock.now_ms())


def _answer(ports: Ports, job: Job, warnings: list[str]) -> JobAnswer:
    return cast("JobAnswer", {**_view(ports, job), "warnings": list(warnings)})


def _preview(ports: Ports, schedule: Schedule, team: str, after_ms: int, count: int) -> PreviewAnswer:
    names = schedule.exclusion.names if schedule.exclusion else ()
    found = occurrences(schedule, after_ms, count, reading.resolve(ports, team, names))
    return {
        "description": describe(schedule),
        "warnings": list(warnings_of(schedule)),
        "occurrences": cast("list[OccurrenceShown]", as_rows(found)),
    }


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
        errors=(AlreadyExists, BadSchedule, PayloadTooLarge),
    ),
    Route("GET", "/jobs", list_jobs, NoBody, TeamPage, JobsPage),
    Route("GET", "/jobs/{job_id}", get_job, NoBody, NoQuery, JobShown, at=_AT, errors=(NotFound,)),
    Route("DELETE", "/jobs/{job_id}", delete_job, NoBody, NoQuery, DeletedJob, at=_AT, errors=(NotFound,)),
    Route(
        "PATCH",
        "/jobs/{job_id}",
        change_job,
        JobChangeIn,
        NoQuery,
        JobAnswer,
        at=_AT,
        errors=(NotFound, VersionConflict, TooLate, BadSchedule, PayloadTooLarge),
    ),
    Route("POST", "/jobs/{job_id}/pause", pause_job, PauseIn, NoQuery, JobShown, at=_AT, errors=(NotFound, TooLate)),
    Route(
        "POST", "/jobs/{job_id}/resume", resume_job, ResumeIn, NoQuery, ResumedJob, at=_AT, errors=(NotFound, TooLate)
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
