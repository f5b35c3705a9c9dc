"""Pausing one job, and resuming it: what is due meanwhile is skipped, or waits."""

from __future__ import annotations

from typing import Any, cast

from tickwork.api.fields import NoQuery, instant_of
from tickwork.api.jobs.answers import JobShown, ResumedJob
from tickwork.api.jobs.bodies import PauseIn, ResumeIn
from tickwork.api.jobs.views import job_view
from tickwork.api.masks import sees_payloads
from tickwork.api.paused_view import pauses_over, starts_view
from tickwork.api.routing import JOB_ID, Call, Route
from tickwork.core.errors import NotFound, TooLate
from tickwork.core.instants import iso_ms
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.pauses import resumed
from tickwork.flows.jobs import changing, registering
from tickwork.flows.jobs.resuming import Starting
from tickwork.flows.ledger.platform_defaults import as_seen
from tickwork.flows.watch import telling


def pause_job(call: Call[PauseIn, NoQuery]) -> tuple[int, JobShown]:
    """Skip a job's occurrences from now on, or keep them for the end of the pause."""
    body = call.body
    until_ms = max(1, instant_of(body.until, "until")) if body.until else 0
    by, job_id = call.actor.signs(body.by), call.path["job_id"]
    before = registering.standing(call.ports, job_id)
    job = changing.pause_job(call.ports, job_id, by, body.reason, until_ms, body.at_resume)
    if before is not None and before.version != job.version:
        telling.tell_stopped(call.ports, job, "paused", by, body.reason)
    return 200, _view(call, job)


def resume_job(call: Call[ResumeIn, NoQuery]) -> tuple[int, ResumedJob]:
    """Let a paused job run again from now on. Again is a no-op, and says who did it and when.

    What has waited for the end of the pause starts, or is skipped, and the answer says what starts.
    """
    body, found = call.body, Starting()
    by, at_resume = call.actor.signs(body.by), body.at_resume or ""
    job, was_paused = changing.resume_job(call.ports, call.path["job_id"], by, at_resume, found)
    last = resumed(job.pauses)
    who = None if last is None else {"by": last.resumed_by, "at": iso_ms(last.until_ms)}
    starts = {"starts": starts_view(found)} if last is not None and last.parks else {}
    return 200, cast("ResumedJob", {**_view(call, job), "changed": was_paused, "resumed": who, **starts})


def _view(call: Call[Any, NoQuery], job: Job) -> JobShown:
    job = as_seen(call.ports, job)
    over, sees = pauses_over(call.ports, job), sees_payloads(call.ports, call.actor, job.team)
    return job_view(job, call.ports.clock.now_ms(), sees_payload=sees, over=over)


_AT = (JOB_ID,)

ROUTES = (
    Route("POST", "/jobs/{job_id}/pause", pause_job, PauseIn, NoQuery, JobShown, at=_AT, errors=(NotFound, TooLate)),
    Route(
        "POST", "/jobs/{job_id}/resume", resume_job, ResumeIn, NoQuery, ResumedJob, at=_AT, errors=(NotFound, TooLate)
    ),
)
