"""Registered jobs: create, read, change, pause, delete, and preview what a schedule gives."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from tickwork.api import requests, views
from tickwork.api.models import JobChangeIn, JobIn, PauseIn, PreviewIn, ResumeIn
from tickwork.api.requests import (
    after_name,
    body_of,
    fields_under,
    json_response,
    limit_of,
    query_of,
    team_of,
    to_cursor,
)
from tickwork.core.errors import BadSchedule, InvalidField
from tickwork.core.ids import check_slug, split_job_id
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
from tickwork.core.schedule.limits import PREVIEW_MAX
from tickwork.core.schedule.shown.preview import as_rows
from tickwork.flows.audit import history
from tickwork.flows.jobs import changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.ledger import reading
from tickwork.ports import Ports


def add_job_routes(app: APIGatewayHttpResolver, ports: Ports) -> None:
    _add_definitions(app, ports)
    _add_changes(app, ports)
    _add_previews(app, ports)


def _add_definitions(app: APIGatewayHttpResolver, ports: Ports) -> None:
    @app.post("/jobs")
    def create_job() -> Response[str]:
        new, schedule = requests.new_job(body_of(app, JobIn), ports.layout, ports.clock.now_ms())
        with fields_under("schedule", BadSchedule):
            job, is_new = registering.create_job(ports, new)
        return json_response(_view(ports, job) | {"warnings": list(warnings_of(schedule))}, 201 if is_new else 200)

    @app.get("/jobs")
    def list_jobs() -> Response[str]:
        query = query_of(app, "team", "limit", "cursor")
        team = team_of(query)
        found, more = registering.list_jobs(ports, team, limit=limit_of(query), after=after_name(query, team))
        return json_response({"jobs": [_view(ports, job) for job in found], "cursor": to_cursor(more)})

    @app.get("/jobs/<job_id>")
    def get_job(job_id: str) -> Response[str]:
        split_job_id(job_id)
        return json_response(_view(ports, registering.get_job(ports, job_id)))

    @app.delete("/jobs/<job_id>")
    def delete_job(job_id: str) -> Response[str]:
        split_job_id(job_id)
        return json_response({"job_id": job_id, "deleted": True, "changed": registering.delete_job(ports, job_id)})


def _add_changes(app: APIGatewayHttpResolver, ports: Ports) -> None:
    @app.patch("/jobs/<job_id>")
    def change_job(job_id: str) -> Response[str]:
        split_job_id(job_id)
        body = body_of(app, JobChangeIn)
        app.append_context(model=JobIn)  # type: ignore[no-untyped-call]
        warnings: list[str] = []

        def revise(job: Job) -> NewJob:
            new, schedule = requests.changed_job(job, body.given(), ports.layout, ports.clock.now_ms())
            warnings[:] = warnings_of(schedule)
            return new

        with fields_under("schedule", BadSchedule):
            job = changing.update_job(ports, job_id, body.version, revise)
        return json_response(_view(ports, job) | {"warnings": warnings})

    @app.post("/jobs/<job_id>/pause")
    def pause_job(job_id: str) -> Response[str]:
        split_job_id(job_id)
        body = body_of(app, PauseIn)
        now_ms = ports.clock.now_ms()
        until_ms = requests.instant_in({"until": body.until} if body.until else {}, "until", 0)
        if body.until and until_ms <= now_ms:
            raise InvalidField("it has passed", field="until", remedy="give a later time, or leave it out")
        return json_response(_view(ports, changing.pause_job(ports, job_id, body.by, body.reason, until_ms)))

    @app.post("/jobs/<job_id>/resume")
    def resume_job(job_id: str) -> Response[str]:
        split_job_id(job_id)
        job, was_paused = changing.resume_job(ports, job_id, body_of(app, ResumeIn).by)
        return json_response(_view(ports, job) | {"changed": was_paused})


def _add_previews(app: APIGatewayHttpResolver, ports: Ports) -> None:
    @app.get("/jobs/<job_id>/next")
    def next_occurrences(job_id: str) -> Response[str]:
        query = query_of(app, "count", "after")
        split_job_id(job_id)
        job = registering.get_job(ports, job_id)
        count = requests.number_of(query, "count", 5, 1, PREVIEW_MAX)
        after_ms = requests.instant_in(query, "after", ports.clock.now_ms())
        shown = _preview(ports, schedule_from_spec(job.schedule), job.team, after_ms, count)
        for row in shown["occurrences"]:
            if (pause := pause_at(job.pauses, parse_iso(row["scheduled_at"]))) is not None:
                row["note"] = "; ".join(filter(None, (row["note"], f"will be skipped: {pause.skip_reason}")))
        return json_response(shown)

    @app.get("/jobs/<job_id>/runs")
    def job_runs(job_id: str) -> Response[str]:
        query = query_of(app, "limit", "cursor")
        after = requests.after_run(query, job_id)
        found, more = history.job_runs(ports, job_id, limit=limit_of(query), after=after)
        return json_response({"runs": [views.run_view(one) for one in found], "cursor": to_cursor(more)})

    @app.post("/schedules:preview")
    def preview() -> Response[str]:
        body = body_of(app, PreviewIn)
        now_ms = ports.clock.now_ms()
        after_ms = requests.instant_in({"after": body.after} if body.after else {}, "after", now_ms)
        team = check_slug(body.team or "default", "team")
        with fields_under("schedule"):
            if body.after:  # as if it were registered then: people ask what would have happened
                schedule = read_schedule(body.schedule, now_ms=after_ms)
            else:
                schedule = parse_schedule(body.schedule, now_ms=now_ms)
                after_ms = starting_after_ms(schedule, now_ms)
            shown = _preview(ports, schedule, team, after_ms, body.count)
        return json_response(shown)


def _view(ports: Ports, job: Job) -> dict[str, Any]:
    return views.job_view(job, ports.clock.now_ms())


def _preview(ports: Ports, schedule: Schedule, team: str, after_ms: int, count: int) -> dict[str, Any]:
    names = schedule.exclusion.names if schedule.exclusion else ()
    found = occurrences(schedule, after_ms, count, reading.resolve(ports, team, names))
    return {
        "description": describe(schedule),
        "warnings": list(warnings_of(schedule)),
        "occurrences": as_rows(found),
    }
