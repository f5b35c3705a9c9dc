"""Skipping one coming occurrence of a job, and taking that back."""

from __future__ import annotations

from typing import cast

from tickwork.api.fields import NoQuery, instant_of
from tickwork.api.jobs.answers import JobShown, UnskippedJob
from tickwork.api.jobs.bodies import SkipIn, UnskipIn
from tickwork.api.jobs.views import job_view
from tickwork.api.masks import sees_payloads
from tickwork.api.routing import JOB_ID, Call, Route
from tickwork.core.errors import BadSchedule, NotFound, TooLate, TooMany
from tickwork.core.jobs.definitions import Job
from tickwork.flows.jobs import skipping


def skip_occurrence(call: Call[SkipIn, NoQuery]) -> tuple[int, JobShown]:
    """Skip one coming occurrence, by its nominal time.

    It is recorded as skipped when it comes due, with who and why, whatever the job becomes until then. One that is
    skipped already stays as it was said first.
    """
    body = call.body
    at_ms = instant_of(body.scheduled_at, "scheduled_at")
    job = skipping.skip_occurrence(call.ports, call.path["job_id"], at_ms, call.actor.signs(body.by), body.reason)
    return 200, _view(call, job)


def unskip_occurrence(call: Call[UnskipIn, NoQuery]) -> tuple[int, UnskippedJob]:
    """Take back that an occurrence is to be skipped. Again is a no-op."""
    body = call.body
    at_ms = instant_of(body.scheduled_at, "scheduled_at")
    job, changed = skipping.unskip_occurrence(call.ports, call.path["job_id"], at_ms, call.actor.signs(body.by))
    return 200, cast("UnskippedJob", {**_view(call, job), "changed": changed})


def _view(call: Call[SkipIn, NoQuery] | Call[UnskipIn, NoQuery], job: Job) -> JobShown:
    return job_view(job, call.ports.clock.now_ms(), sees_payload=sees_payloads(call.ports, call.actor, job.team))


_AT = (JOB_ID,)

ROUTES = (
    Route(
        "POST",
        "/jobs/{job_id}/skip",
        skip_occurrence,
        SkipIn,
        NoQuery,
        JobShown,
        at=_AT,
        errors=(NotFound, TooLate, TooMany, BadSchedule),
    ),
    Route(
        "POST",
        "/jobs/{job_id}/unskip",
        unskip_occurrence,
        UnskipIn,
        NoQuery,
        UnskippedJob,
        at=_AT,
        errors=(NotFound, TooLate),
    ),
)
