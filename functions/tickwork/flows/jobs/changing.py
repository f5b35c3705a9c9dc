"""Changing a registered job while it runs: its definition, and whether it is paused.

A change goes by the version that the caller has read, so two of them never overwrite each other unseen. It follows the
creator's rule for an occurrence that it moves (no-lost-timer): a crash before the write changes nothing, one after it
leaves a next item that the next try of the same call, or the ledger audit, sees to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from tickwork.core.errors import BadSchedule, Conflict, InvalidField, TooLate, VersionConflict
from tickwork.core.ids import job_id_of
from tickwork.core.instants import iso
from tickwork.core.jobs import changes, occurrences, versions
from tickwork.core.jobs.definitions import ACTIVE, ERROR, FINISHED, Job, Next
from tickwork.core.jobs.pauses import (
    KEEPS_MAX_MS,
    SKIP,
    Pause,
    end_pause,
    is_last,
    is_repeat,
    is_same,
    may_become,
    not_before_ms,
    pause_in_force,
    resumed,
    was_resumed,
    with_pause,
)
from tickwork.core.ledger.epochs import Label
from tickwork.core.ledger.writes import Committed
from tickwork.core.schedule import schedule_from_spec
from tickwork.flows.access.recording_jobs import recorded_job
from tickwork.flows.dispatch import creating, freeing
from tickwork.flows.jobs import resuming, switches
from tickwork.flows.jobs.registering import (
    CHANGE_TRIES_MAX,
    NewJob,
    check_same,
    create_job,
    first_occurrence,
    get_job,
    nothing_due,
    see_to_next,
)
from tickwork.flows.jobs.registering import standing as standing_job
from tickwork.flows.jobs.resuming import Starting
from tickwork.flows.ledger import groups, reading
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.payloads import as_kept, keep_payload
from tickwork.ports import Ports


def update_job(
    ports: Ports,
    job_id: str,
    version: int,
    revise: Callable[[Job], NewJob],
    known_by: Callable[[Job], Collection[str]] | None = None,
) -> Job:
    """Give the job of that version the definition that `revise` makes of it. Where it says that already, nothing is
    written, and the version stays. Again, at any later time, is a no-op: `known_by` gives the fingerprints of this
    change, made of a job, without judging the time (None: that of `revise`).

    Its pending occurrence moves with the schedule, unless its time has come: that one runs, with the new definition.
    Raises NotFound, VersionConflict, and what `revise` raises; BadSchedule when nothing would ever be due again.
    """
    known_by = known_by or (lambda job: (revise(job).fingerprint,))
    for _ in range(CHANGE_TRIES_MAX):
        job = get_job(ports, job_id)
        if job.version > version and job.fingerprint in known_by(job):
            # Our own earlier try, whose answer was lost. Others may have paused it since, or changed it and back.
            see_to_next(ports, job)
            return job
        if job.version != version:
            raise VersionConflict(
                f"job {job_id} is at version {job.version}, not {version}",
                field="version",
                remedy="read the job again, and send its version with the change",
            )
        new = _with_kept_payload(ports, job, revise(job))
        if job.status != ERROR and job.has_content_of(job.defined_as(new)):
            see_to_next(ports, job)
            return job
        if (changed := _change(ports, job, new)) is not None:
            return changed
    raise _contended(job_id)


def create_or_rejoin(ports: Ports, new: NewJob, *, left_out: Collection[str] = ()) -> tuple[Job, bool]:
    """`registering.create_job`; a job that was cancelled with its group, asked for again with the same content, becomes
    part of the group as it is now. What of it was cancelled stays so."""
    if not new.group:
        return create_job(ports, new, left_out=left_out)
    job_id = job_id_of(new.team, new.name)
    for _ in range(CHANGE_TRIES_MAX):
        job = standing_job(ports, job_id)
        if job is None or groups.group_that_cancelled(ports, job) is None:
            return create_job(ports, new, left_out=left_out)
        same = replace(new, **{name: getattr(job, name) for name in left_out})
        check_same(job, same)
        if (changed := _change(ports, job, _with_kept_payload(ports, job, same))) is not None:
            return changed, True
    raise _contended(job_id)


def _with_kept_payload(ports: Ports, job: Job, new: NewJob) -> NewJob:
    """With the payload as the job keeps it apart, where it is the same."""
    return replace(new, work=as_kept(ports, new.work, job.work))


def _change(ports: Ports, job: Job, new: NewJob) -> Job | None:
    """The job as changed; None when somebody has moved it meanwhile."""
    now_ms, layout = ports.clock.now_ms(), ports.layout
    label = Label(job.team, new.group)
    known = groups.read_groups(ports, {groups.label_of_job(job), label})
    changed = replace(
        job.defined_as(new),
        epoch=groups.epoch_of(known, label),
        version=job.version + 1,
        defined_since=job.version + 1,
        earlier_through_ms=versions.through_ms(job),
        scheduled_since_ms=now_ms if new.schedule != job.schedule else job.scheduled_since_ms,
        status=ACTIVE,
        reason=None,
    )
    changed = switches.switched(ports, reading.to_plan(ports, changed), job)
    is_gone = groups.cancelled_job(known, job) is not None  # what is due of it does not run
    kept = None if is_gone else changes.occurrence_kept(job, now_ms)
    first = _first(job, changed, now_ms, layout.shards)  # also where one is kept: it refuses what has no calendar
    upcoming = kept or first
    if upcoming is None and (job.status != FINISHED or new.schedule != job.schedule):
        if changed.cancelled and first_occurrence(replace(changed, cancelled=()), now_ms, layout.shards):
            raise BadSchedule(
                "all that the schedule has to come was cancelled",
                field="schedule",
                remedy="give another time; or delete the job, and register it anew",
            )
        raise nothing_due("give a later time, or a later end; or delete the job")
    changed = replace(
        changed,
        work=keep_payload(ports, changed.work, job.job_id, changed.version),  # not of a change that is refused
        next=upcoming,
        status=ACTIVE if upcoming else FINISHED,
        planned_with=occurrences.planned_with(changed),
    )
    key = changed.next_key(layout.home)
    creating.prepare_slices(ports, [key] if key else [])
    changed, entry = recorded_job(ports, job, changed, "changed")
    writes = changes.change_writes(job, changed, layout.home, now_ms, layout.retention_s)
    if not isinstance(commit(ports, *writes, entry, *switches.first_deadline(ports, changed)), Committed):
        return None
    ports.signals.log("job_changed", job_id=job.job_id, version=changed.version)
    see_to_next(ports, changed)
    if changed.buffer is not None:  # another policy may have it go, or end
        freeing.free_job(ports, job.job_id)
    return changed


def _first(job: Job, changed: Job, now_ms: int, shards: int) -> Next | None:
    """The next occurrence of the changed job. Where the change leaves a schedule alone that this version cannot read, a
    newer one has planned what comes next, and that stays."""
    try:
        return first_occurrence(changed, now_ms, shards)
    except BadSchedule:
        if job.next is None or changed.schedule != job.schedule:
            raise
        return job.next


def pause_job(ports: Ports, job_id: str, by: str, reason: str, until_ms: int = 0, at_resume: str = SKIP) -> Job:
    """Skip the job's occurrences from now on, until a time (0: until it is resumed); or, as `at_resume` says, keep them
    for then. Again with the same words is a no-op, also when its time is over; with others the pause in force ends and
    the new one begins. TooLate when nothing is left to pause, InvalidField when the end has passed.

    Once somebody has resumed the job, the same words are a new wish, for they cannot be told from one. So they are
    where the job has finished since: the pause is written, and holds should somebody revive it."""
    for _ in range(CHANGE_TRIES_MAX):
        job, now_ms = get_job(ports, job_id), ports.clock.now_ms()
        has_passed = bool(until_ms) and until_ms <= now_ms
        if has_passed and is_repeat(job.pauses, by, reason, until_ms):
            return job
        if has_passed:
            raise InvalidField("it has passed", field="until", remedy="give a later time, or leave it out")
        if job.status == FINISHED and is_last(job.pauses, by, reason, until_ms):
            return job
        if job.status == FINISHED and not was_resumed(job.pauses, by, reason):
            raise TooLate(
                f"job {job_id} has finished", field="job_id", remedy="it has no occurrences left that could be paused"
            )
        standing = pause_in_force(job.pauses, now_ms)
        if standing is not None and is_same(standing, by, reason, until_ms, at_resume):
            if standing.parks:
                see_to_next(ports, job)  # whoever has paused it may have died before that
            return job
        new = _composed(standing, Pause(by, reason, now_ms, until_ms, at_resume=at_resume))
        pauses = with_pause(job.pauses, new, job.fired_through_ms)
        if (paused := _set_pauses(ports, job, pauses, "paused")) is not None:
            ports.signals.log("job_paused", job_id=job_id, by=by, reason=reason, until_ms=until_ms)
            return paused
    raise _contended(job_id)


def _composed(standing: Pause | None, new: Pause) -> Pause:
    """A new pause of a job. One that keeps what it covers has an end; and what the one in force has kept goes on
    waiting, so that a pause which keeps nothing cannot follow it."""
    kept = standing if standing is not None and standing.parks else None
    if new.at_resume == SKIP and kept is not None:
        raise InvalidField(
            "the pause in force keeps what is due, and this one would not",
            field="at_resume",
            remedy="give `latest` or `all`; or resume the job first, with what is to become of what waits",
        )
    if new.at_resume == SKIP:
        return new
    last_ms = new.from_ms + KEEPS_MAX_MS
    if new.until_ms > last_ms:
        raise InvalidField(
            "what is due is kept for 366 days at the most", field="until", remedy=f"give a time before {iso(last_ms)}"
        )
    keeping = replace(new, until_ms=new.until_ms or last_ms, parks=True)
    if kept is None:
        return keeping
    # It goes on, in the words of this one, with whatever a newer version has noted of it.
    said = replace(kept, by=new.by, reason=new.reason, at_resume=new.at_resume)
    return replace(said, until_ms=keeping.until_ms, resumed_by="")


def resume_job(
    ports: Ports, job_id: str, by: str, at_resume: str = "", starting: Starting | None = None
) -> tuple[Job, bool]:
    """(job, whether it was paused until this person resumed it, now or by an earlier request whose answer may have
    been lost). Occurrences run again from then on; those of the pause stay skipped, or become what was said then, or
    what `at_resume` says. InvalidField where they were skipped already. `starting` is told what that starts."""
    for _ in range(CHANGE_TRIES_MAX):
        job, now_ms = get_job(ports, job_id), ports.clock.now_ms()
        if (standing := pause_in_force(job.pauses, now_ms)) is None:
            last = resumed(job.pauses)
            if last is not None and last.parks:
                see_to_next(ports, job)  # whoever has resumed it may have died before that
            return job, last is not None and last.resumed_by == by
        if not may_become(standing, at_resume):
            raise InvalidField(
                "what was due meanwhile is skipped, and recorded so",
                field="at_resume",
                remedy="leave it out, and have it run again: `tickwork backfills create`",
            )
        ended = end_pause(job.pauses, now_ms, by, at_resume)
        if starting is not None and standing.parks:
            resuming.starting_of(ports, replace(job, pauses=ended), now_ms, starting)
        if (changed := _set_pauses(ports, job, ended, "resumed")) is not None:
            ports.signals.log("job_resumed", job_id=job_id, by=by)
            return changed, True
    raise _contended(job_id)


def _set_pauses(ports: Ports, job: Job, pauses: tuple[Pause, ...], action: str) -> Job | None:
    since = job.defined_since or job.version
    changed = replace(job, pauses=pauses, version=job.version + 1, defined_since=since)
    changed, now_ms = replace(changed, next=_moved(ports, job, changed)), ports.clock.now_ms()
    key = changed.next_key(ports.layout.home)
    creating.prepare_slices(ports, [key] if key and changed.next != job.next else [])
    changed, entry = recorded_job(ports, job, changed, action)
    moved = changes.moved_writes(job, changed, ports.layout.home, now_ms, ports.layout.retention_s)
    if not isinstance(commit(ports, changes.pause_write(job, changed), entry, *moved), Committed):
        return None
    if moved:
        see_to_next(ports, changed)
    return changed


def _moved(ports: Ports, job: Job, changed: Job) -> Next | None:
    """The pending occurrence where it is to be with the job's new pauses: one that a pause keeps, or has kept, fires
    when that ends. What neither keeps is left where it is, whatever its schedule has become."""
    if job.next is None or job.status != ACTIVE:
        return job.next
    at_ms = job.next.scheduled_at_ms
    if not (not_before_ms(job.pauses, at_ms) or not_before_ms(changed.pauses, at_ms)):
        return job.next
    planned = reading.to_plan(ports, changed)
    return replace(job.next, fire_at_ms=occurrences.fire_time_ms(planned, schedule_from_spec(job.schedule), at_ms))


def _contended(job_id: str) -> Conflict:
    return Conflict(f"job {job_id} was changed {CHANGE_TRIES_MAX} times meanwhile")
