"""From a job as a client writes it to the job to register: whole, or changed in some of its fields."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_type_hints

from tickwork.api.decoding import validated
from tickwork.api.fingerprints import fingerprint_of
from tickwork.api.jobs.bodies import JobIn
from tickwork.api.jobs.views import catch_up_shown
from tickwork.api.places import fields_under
from tickwork.api.work import shown, work_of
from tickwork.core.errors import BadSchedule, InvalidField
from tickwork.core.ids import check_slug
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import Schedule, default_tolerance_s, parse_schedule, schedule_from_spec
from tickwork.flows.jobs.registering import NewJob
from tickwork.ports import PUSH_POOL, Layout


def new_job(body: JobIn, layout: Layout, now_ms: int) -> tuple[NewJob, Schedule]:
    """A job to register, and its schedule with the warnings to show."""
    check_slug(body.team, "team")
    check_slug(body.name, "name")
    with fields_under("schedule"):
        schedule = parse_schedule(body.schedule, now_ms=now_ms, job_id=f"{body.team}:{body.name}")
    return _job_of(body, schedule, work_of(body, layout, body.name)), schedule


PLAIN = tuple(
    name for name, hint in get_type_hints(NewJob).items() if name in JobIn.model_fields and hint in (str, int, bool)
)
"""Fields of a job that a request gives as they are. A new one needs no more than the definition and the model."""


def _job_of(body: JobIn, schedule: Schedule, work: Work) -> NewJob:
    tolerance_s = default_tolerance_s(schedule) if body.tolerance_s is None else body.tolerance_s
    if body.tolerance_s == 0 and "cron" in body.schedule and not body.exact_reason:
        raise InvalidField(
            "a cron job with tolerance 0 adds to the herd at its minute",
            field="exact_reason",
            remedy="say why it must be exact, or leave tolerance_s out",
        )
    given = {name: value for name in PLAIN if (value := getattr(body, name)) is not None}
    return NewJob(
        schedule=schedule.spec,
        work=work,
        catch_up=CatchUp(**body.catch_up.model_dump()),
        fingerprint=fingerprint_of(body),
        **given | {"tolerance_s": tolerance_s},
    )


def changed_job(job: Job, given: dict[str, Any], layout: Layout, now_ms: int) -> tuple[NewJob, Schedule]:
    """A registered job with the fields that a change gives, checked as a whole, and its schedule. A schedule that the
    change leaves alone is not read anew: its times may have passed, and that is no fault of the change. One that it
    replaces need not be readable any more."""
    body = validated(JobIn, _merged(_as_body(job), given))
    if "schedule" in given:
        schedule = parse_schedule(body.schedule, now_ms=now_ms, job_id=job.job_id)
    else:
        schedule = schedule_from_spec(job.schedule)
    handler = PUSH_POOL if body.target.url else body.target.handler or job.name
    is_same_code = (handler, body.target.url or "") == (job.work.handler, job.work.url)
    certified = job.work.certificate if is_same_code and "certificate" not in given else None
    work = work_of(body, layout, job.name, certified)
    payload_id = None if "payload" in given else job.work.payload_id
    if "payload" not in given:
        work = replace(work, payload=job.work.payload, payload_id=payload_id)
    new = _job_of(body, schedule, work)
    # What the request would be with its tolerance spelt out, and what it keeps without showing it: the same change
    # made of the job as it was and of the job as changed is then one, and a change that takes away is another.
    whole = body.model_copy(update={"tolerance_s": new.tolerance_s})
    return replace(new, fingerprint=fingerprint_of(whole, payload_id, certified)), schedule


def _as_body(job: Job) -> dict[str, Any]:
    """The request that would register the job as it is. A tolerance that is the default follows the schedule."""
    body: dict[str, Any] = json.loads(json.dumps(shown(job.work)))
    for kept_apart in ("payload_id", "certificate"):
        body.pop(kept_apart, None)
    body |= {"schedule": dict(job.schedule), "catch_up": catch_up_shown(job.catch_up)}
    plain = {name: value for name in PLAIN if (value := getattr(job, name)) != ""}
    if _has_default_tolerance(job):
        plain.pop("tolerance_s", None)
    return body | plain


def _has_default_tolerance(job: Job) -> bool:
    """Of a schedule that cannot be read nobody knows: its tolerance then counts as chosen."""
    try:
        return job.tolerance_s == default_tolerance_s(schedule_from_spec(job.schedule))
    except BadSchedule:
        return False


def _merged(body: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    merged = dict(body)
    for name, value in given.items():
        if value is None and name != "payload":
            merged.pop(name, None)
        elif name in ("retry_policy", "catch_up") or (name == "target" and not {"pool", "url"} & value.keys()):
            merged[name] = {part: one for part, one in (merged[name] | value).items() if one is not None}
        else:
            merged[name] = value
    if given.get("catch_up") and given["catch_up"].get("policy", "last") != "last" and "last" not in given["catch_up"]:
        merged["catch_up"].pop("last", None)
    return merged
