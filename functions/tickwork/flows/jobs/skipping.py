"""Skipping one coming occurrence of a job by its nominal instant, and taking that back (F12).

Protects cancelled-stays: who is told that an occurrence is skipped has moved the job's version before it was passed, so
that a step which was planned without it is refused. A crash before the write changes nothing; one after it leaves a
skip that the repeat finds.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.errors import Conflict, InvalidField, TooLate, TooMany
from tickwork.core.instants import iso
from tickwork.core.jobs import changes, occurrences, skips
from tickwork.core.jobs.definitions import ACTIVE, Job
from tickwork.core.jobs.skips import SKIPS_AHEAD_MAX, Skip
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.writes import Committed
from tickwork.core.schedule import next_after, prev_before, schedule_from_spec
from tickwork.flows.access.recording_jobs import recorded_job
from tickwork.flows.jobs.registering import CHANGE_TRIES_MAX, get_job
from tickwork.flows.ledger import reading
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.placing import places_of
from tickwork.flows.ledger.reading import read_run
from tickwork.ports import Ports

_FIELD = "scheduled_at"


def skip_occurrence(ports: Ports, job_id: str, at_ms: int, by: str, reason: str) -> Job:
    """Skip the job's occurrence of a nominal instant. One that is skipped already stays as the first has said it; a
    repeat that comes when it has passed is answered, too. InvalidField, naming the nearest, when the job has none of
    that instant; TooLate when it was dispatched, was cancelled, or has ended otherwise."""
    for _ in range(CHANGE_TRIES_MAX):
        job = reading.to_plan(ports, get_job(ports, job_id))
        new = Skip(at_ms, by, reason)
        if at_ms <= job.fired_through_ms:
            _check_repeat(ports, job, new)
            return job
        if skips.skip_at(job.skips, at_ms) is not None:
            return job
        _check_coming(job, at_ms, ports.layout.shards)
        left = skips.with_skip(job.skips, new, job.fired_through_ms)
        if len(left) > SKIPS_AHEAD_MAX:
            raise TooMany(
                f"{SKIPS_AHEAD_MAX} coming occurrences of {job_id} are skipped or were, as many as may be",
                field=_FIELD,
                remedy="pause the job until the first that is to run again",
            )
        if (changed := _set(ports, job, left, "occurrence_skipped", at_ms)) is not None:
            ports.signals.log("occurrence_skipped", job_id=job_id, at=iso(at_ms), by=by, reason=reason)
            return changed
    raise _contended(job_id)


def unskip_occurrence(ports: Ports, job_id: str, at_ms: int, by: str) -> tuple[Job, bool]:
    """(job, whether its occurrence was skipped until this person took that back, now or by an earlier request whose
    answer may have been lost). TooLate when it was skipped at its time."""
    for _ in range(CHANGE_TRIES_MAX):
        job = get_job(ports, job_id)
        if at_ms <= job.fired_through_ms:
            job = reading.to_plan(ports, job)
            run = _passed_run(ports, job, at_ms)
            if run is not None and run.status == lifecycle.SKIPPED:
                raise _too_late(at_ms, f"it was skipped at its time ({run.reason})")
            return job, False
        noted = skips.noted_at(job.skips, at_ms)
        if noted is None or noted.undone_by:
            return job, noted is not None and noted.undone_by == by
        left = skips.undone(job.skips, at_ms, by, job.fired_through_ms)
        if (changed := _set(ports, job, left, "occurrence_unskipped", at_ms)) is not None:
            ports.signals.log("occurrence_unskipped", job_id=job_id, at=iso(at_ms), by=by)
            return changed, True
    raise _contended(job_id)


def _set(ports: Ports, job: Job, left: tuple[Skip, ...], action: str, at_ms: int) -> Job | None:
    since = job.defined_since or job.version
    changed = replace(job, skips=left, version=job.version + 1, defined_since=since)
    changed, entry = recorded_job(ports, job, changed, action, {_FIELD: iso(at_ms)})
    return changed if isinstance(commit(ports, changes.skips_write(job, changed), entry), Committed) else None


def _check_coming(job: Job, at_ms: int, shards: int) -> None:
    """It is one of the occurrences that the job has to come."""
    if job.status != ACTIVE or job.next is None:
        raise _too_late(at_ms, f"job {job.job_id} is {job.status} and has no occurrence to come")
    if at_ms == job.next.scheduled_at_ms:
        return
    if at_ms in job.cancelled:
        raise _too_late(at_ms, "it is cancelled")
    planned = occurrences.following(job, at_ms - 1, shards) if at_ms > job.next.scheduled_at_ms else None
    if planned is None or planned.scheduled_at_ms != at_ms:
        raise InvalidField(
            f"job {job.job_id} has no occurrence at {iso(at_ms)}",
            field=_FIELD,
            remedy=f"the nearest to come: {_nearest(job, at_ms)}",
        )


def _nearest(job: Job, at_ms: int) -> str:
    """The occurrences to come just before and just after an instant that is none."""
    assert job.next is not None, "asked of a job that has one"
    first_ms = job.next.scheduled_at_ms
    schedule = schedule_from_spec(job.schedule)
    before = prev_before(schedule, at_ms, job.calendars) if at_ms > first_ms else None
    after = first_ms if at_ms < first_ms else next_after(schedule, at_ms, job.calendars)
    found = [max(before, first_ms)] if before is not None else []
    found += [after] if after is not None else []
    return " and ".join(iso(one) for one in found)


def _check_repeat(ports: Ports, job: Job, asked: Skip) -> None:
    """The instant is passed: it was skipped as is asked for, by the same request, or it is too late."""
    run = _passed_run(ports, job, asked.at_ms)
    if run is None:
        raise _too_late(asked.at_ms, "it has passed")
    if run.status != lifecycle.SKIPPED:
        raise _too_late(asked.at_ms, f"it was dispatched, and is {run.status}")
    if run.reason != asked.skip_reason:
        raise _too_late(asked.at_ms, f"it was skipped at its time ({run.reason})")


def _passed_run(ports: Ports, job: Job, at_ms: int) -> Run | None:
    """The run of an instant that the job has passed, where its schedule still says where that is; in any cell, for the
    job may have been placed elsewhere since."""
    planned = occurrences.following(job, at_ms - 1, ports.layout.shards)
    if planned is None or planned.scheduled_at_ms != at_ms:
        return None
    places = places_of(ports, job.job_id, job.occurrence_key(ports.layout.home, planned))
    return next((run for place in places if (run := read_run(ports, place)) is not None), None)


def _too_late(at_ms: int, why: str) -> TooLate:
    return TooLate(
        f"the occurrence of {iso(at_ms)} cannot be skipped any more, or not be skipped: {why}",
        field=_FIELD,
        remedy="see `tickwork jobs next` for those to come, and `tickwork runs list --job` for what became of it",
    )


def _contended(job_id: str) -> Conflict:
    return Conflict(f"job {job_id} was changed {CHANGE_TRIES_MAX} times meanwhile")
