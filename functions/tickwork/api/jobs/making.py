"""From a job as a client writes it to the job to register: whole, or changed in some of its fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, get_type_hints

from tickwork.api.decoding import Refused, validated
from tickwork.api.fingerprints import Fingerprints, fingerprints_of, schedule_meaning
from tickwork.api.jobs.bodies import JobIn
from tickwork.api.jobs.views import catch_up_shown
from tickwork.api.masks import has_masks, keeps_some, unmasked
from tickwork.api.places import fields_under
from tickwork.api.work import as_asked, work_of
from tickwork.core.access.pools import as_meant
from tickwork.core.errors import BadSchedule, CallerError, InvalidField
from tickwork.core.jobs.defaults import (
    BUILT_IN,
    CATCH_UP,
    DEFAULTS,
    OVERLAP,
    POLICIES,
    RETRY,
    TOLERANCE,
    following,
    noted,
    overlap_by,
    policies_of,
    with_policies,
)
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.jobs.overlap import BUFFER_ALL
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import (
    Schedule,
    default_tolerance_s,
    parse_schedule,
    read_schedule,
    schedule_from_spec,
)
from tickwork.flows.jobs.registering import NewJob
from tickwork.ports import PUSH_POOL, Layout


def new_job(body: JobIn, layout: Layout, now_ms: int) -> tuple[NewJob, Schedule]:
    """A job to register, and its schedule with the warnings to show."""
    with fields_under("schedule"):
        schedule = parse_schedule(body.schedule, now_ms=now_ms, job_id=f"{body.team}:{body.name}")
    said = {name for name in POLICIES if name in body.model_fields_set and getattr(body, name) is not None}
    return _job_of(body, schedule.spec, work_of(body, layout, body.name), said), schedule


def left_out(body: JobIn) -> tuple[str, ...]:
    """What a request says nothing of, and an older version's job may have otherwise than a new one. What it has noted
    as its own is no other content."""
    return ("own_policies", "overlap") if body.overlap is None else ("own_policies",)


def without_masks(body: JobIn, standing: Callable[[], Job | None]) -> JobIn:
    """A request with each mask taken for what it hides in the job of its name, which is asked for when there is one.
    InvalidField where it hides nothing."""
    given = {"payload": body.payload, "target": {"url": body.target.url}}
    if not has_masks(given):
        return body
    job = standing()
    meant = unmasked(given, None if job is None else job.work)
    target = body.target.model_copy(update=meant["target"])
    return body.model_copy(update={"payload": meant["payload"], "target": target})


def asked_of(body: JobIn, *kept: object) -> Fingerprints:
    """What tells this request from others about its job. `kept`: what the job as it stands adds to a change of it."""
    return fingerprints_of(body, lambda given: _meaning(body, given), *kept)


def _meaning(body: JobIn, given: dict[str, Any]) -> dict[str, Any]:
    meant = given | {"schedule": schedule_meaning(body.schedule, f"{body.team}:{body.name}")}
    if body.target.pool:
        meant["target"] = meant["target"] | {"pool": as_meant(body.target.pool, body.team)}
    if body.target.handler == body.name:
        meant["target"] = {name: value for name, value in meant["target"].items() if name != "handler"}
    if body.tolerance_s is not None and body.tolerance_s == _default_tolerance_s(meant["schedule"]):
        del meant["tolerance_s"]
    if body.overlap == overlap_by(DEFAULTS.versions[BUILT_IN], meant["schedule"]):
        del meant["overlap"]
    return meant


def _default_tolerance_s(spec: Mapping[str, Any]) -> int | None:
    """Of a schedule that cannot be read nobody knows: its tolerance then counts as chosen."""
    try:
        return default_tolerance_s(schedule_from_spec(spec))
    except BadSchedule:
        return None


def schedule_again(job: Job, spec: dict[str, Any] | None) -> Schedule | None:
    """The schedule of a request that is repeated, as it was read when the job got it: with the same warnings. None
    where it is of a newer version."""
    since_ms = max(job.created_at_ms, job.scheduled_since_ms)
    try:
        return read_schedule(job.schedule if spec is None else spec, now_ms=since_ms, job_id=job.job_id)
    except BadSchedule:  # another version has accepted it
        return _as_stored(job)


PLAIN = tuple(
    name for name, hint in get_type_hints(NewJob).items() if name in JobIn.model_fields and hint in (str, int, bool)
)
"""Fields of a job that a request gives as they are. A new one needs no more than the definition and the model."""


OF_BUFFERS = ("buffer_max", "buffer_age_s")
"""What says how many wait, and how long, goes with the one policy that has several wait."""
SAID_ABOVE_ZERO = (*OF_BUFFERS, "max_silence_s", "min_duration_s")
"""Numbers whose zero a request leaves out, for it says nothing."""


def _job_of(body: JobIn, spec: Mapping[str, Any], work: Work, said: Collection[str], base: int = BUILT_IN) -> NewJob:
    """`spec`: the schedule's normal form. It need not be one of this version where the tolerance is given. `said`: the
    policies that are its own; of the others it has those of the defaults' version `base`."""
    tolerance_s = body.tolerance_s
    if tolerance_s is None:
        tolerance_s = default_tolerance_s(schedule_from_spec(spec))
    if body.tolerance_s == 0 and "cron" in body.schedule and not body.exact_reason:
        raise InvalidField(
            "a cron job with tolerance 0 adds to the herd at its minute",
            field="exact_reason",
            remedy="say why it must be exact, or leave tolerance_s out",
        )
    if body.overlap != BUFFER_ALL and (alone := next((name for name in OF_BUFFERS if getattr(body, name)), None)):
        raise InvalidField(
            f"{alone} goes with overlap 'buffer_all'",
            field=alone,
            remedy="say overlap 'buffer_all', or leave it out",
        )
    given = {name: value for name in PLAIN if (value := getattr(body, name)) is not None}
    given.setdefault("overlap", overlap_by(DEFAULTS.versions[min(base, BUILT_IN)], spec))
    new = NewJob(
        schedule=spec,
        work=work,
        catch_up=CatchUp(**body.catch_up.model_dump()),
        fingerprint=asked_of(body).meaning,
        defaults_pin=body.defaults_version,
        tags=tuple(sorted(set(body.tags or ()))),
        **given | {"tolerance_s": tolerance_s},
    )
    return replace(new, own_policies=noted(new, said, base))


def change_of(job: Job, seen: Job, given: dict[str, Any]) -> Fingerprints:
    """What tells a change from others, made of the job as it was or of the job as it changed it: what the request for
    the whole would be with its tolerance spelt out, and what it keeps without showing it. A time in it is not judged:
    it may have passed since the change was made. None for what makes no job of this one: it has not made it."""
    try:
        body = _changed_body(job, seen, given)
    except (CallerError, Refused):
        return Fingerprints()
    schedule = schedule_meaning(body.schedule, job.job_id)
    tolerance_s = _default_tolerance_s(schedule) if body.tolerance_s is None else body.tolerance_s
    # Of overlap it says what it changes: versions that knew of none made their fingerprints without.
    overlap = ({"overlap": given["overlap"]},) if "overlap" in given else ()
    whole = body.model_copy(update={"tolerance_s": tolerance_s, "overlap": None})
    return asked_of(whole, *_kept(job, body, given), *overlap)


def _changed_body(job: Job, seen: Job, given: dict[str, Any]) -> JobIn:
    """The request for the whole. `seen`: the job by the defaults that are in force for it; what a change leaves out of
    a policy stays as its owner has seen it there."""
    as_seen = with_policies(job, seen, given.keys() & {RETRY, CATCH_UP})
    return validated(JobIn, _merged(_as_body(as_seen), unmasked(given, job.work)))


def _kept(job: Job, body: JobIn, given: dict[str, Any]) -> tuple[str | None, Mapping[str, str] | None]:
    """(payload kept apart, certificate) of the job that a change leaves as they are."""
    handler = PUSH_POOL if body.target.url else body.target.handler or job.name
    is_same_code = (handler, body.target.url or "") == (job.work.handler, job.work.url)
    certified = job.work.certificate if is_same_code and "certificate" not in given else None
    return None if "payload" in given else job.work.payload_id, certified


def changed_job(
    job: Job, seen: Job, given: dict[str, Any], layout: Layout, now_ms: int
) -> tuple[NewJob, Schedule | None]:
    """A registered job with the fields that a change gives, checked as a whole, and its schedule. A schedule that the
    change leaves alone is not read anew: its times may have passed, or it may be of a newer version (then None), and
    that is no fault of the change. One that it replaces need not be readable any more."""
    body = _changed_body(job, seen, given)
    if "schedule" in given:
        schedule: Schedule | None = parse_schedule(body.schedule, now_ms=now_ms, job_id=job.job_id)
    else:
        schedule = _as_stored(job)
    payload_id, certified = _kept(job, body, given)
    work = work_of(body, layout, job.name, certified)
    if "payload" not in given:
        work = replace(work, payload=job.work.payload, payload_id=payload_id)
    if keeps_some(given):
        _check_marks(job.work, work)
    if "unsafe_sign_off" not in given and work.is_unsafe:
        work = replace(work, sign_off=job.work.sign_off)
    said = ({*job.own_policies} | given.keys()) - {name for name, value in given.items() if value is None}
    new = _job_of(body, job.schedule if schedule is None else schedule.spec, work, said, job.defaults_base)
    new = _going_on_as_seen(new, job, seen, given)
    return replace(new, fingerprint=change_of(job, seen, given).meaning), schedule


def _going_on_as_seen(new: NewJob, job: Job, seen: Job, given: Mapping[str, Any]) -> NewJob:
    """A policy that follows the defaults, and that a change gives as its owner has seen it, goes on following them: a
    job that is sent back as it is shown says nothing new. To have them stay there is the pin."""
    follows = following(job, job.defaults_base) & {name for name, value in given.items() if value is not None}
    after, before = policies_of(new), policies_of(seen)
    same = {name for name in follows if after[name] == before[name]}
    own = tuple(name for name in new.own_policies if name not in same)
    return replace(with_policies(new, job, same), own_policies=own)


def _check_marks(before: Work, after: Work) -> None:
    """What was marked as secret does not come to light by a change of the marks: not of a payload that stays."""
    lost = sorted(set(before.secret_fields) - set(after.secret_fields))
    if lost and (after.payload, after.payload_id) != (None, None):
        raise InvalidField(
            f"the payload stays, and would be shown where it was secret: {lost[0]!r}",
            field="secret_fields",
            remedy="send the whole payload with the change, or leave the mark",
        )


def _as_stored(job: Job) -> Schedule | None:
    try:
        return schedule_from_spec(job.schedule)
    except BadSchedule:
        return None


def _as_body(job: Job) -> dict[str, Any]:
    """The request that would register the job as it is. A tolerance that is the default follows the schedule."""
    body: dict[str, Any] = json.loads(json.dumps(as_asked(job.work)))
    for kept_apart in ("payload_id", "certificate"):
        body.pop(kept_apart, None)
    body |= {"schedule": dict(job.schedule), "catch_up": catch_up_shown(job.catch_up)}
    plain = {name: value for name in PLAIN if (value := getattr(job, name)) != ""}
    plain = {name: value for name, value in plain.items() if value or name not in SAID_ABOVE_ZERO}
    if job.defaults_pin is not None:
        plain["defaults_version"] = job.defaults_pin
    if job.tags:
        plain["tags"] = list(job.tags)
    for name in following(job, job.defaults_base) & {TOLERANCE, OVERLAP}:  # it follows the schedule, too
        plain.pop(name, None)
    return body | plain


def _merged(body: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    merged = dict(body)
    for name, value in given.items():
        if value is None and name != "payload":
            merged.pop(name, None)
        elif name in ("retry_policy", "catch_up") or (name == "target" and not {"pool", "url"} & value.keys()):
            merged[name] = {part: one for part, one in (merged[name] | value).items() if one is not None}
        else:
            merged[name] = value
    if merged.get("overlap") != BUFFER_ALL:  # they go with the policy, unless the change names them
        merged = {name: value for name, value in merged.items() if name not in OF_BUFFERS or name in given}
    if given.get("catch_up") and given["catch_up"].get("policy", "last") != "last" and "last" not in given["catch_up"]:
        merged["catch_up"].pop("last", None)
    return merged
