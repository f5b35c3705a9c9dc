"""Registered jobs: create, read, list, delete, preview.

A job and its first ledger item are written in one transaction (chain-unbroken from the first moment), and the
creator's rule is followed before the answer (no-lost-timer). Creating the same job twice is a no-op.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tickwork.core.errors import AlreadyExists, BadSchedule, Conflict, NotFound, Throttled
from tickwork.core.ids import job_id_of
from tickwork.core.instants import HOUR_MS, SECOND_MS
from tickwork.core.jobs import occurrences, versions
from tickwork.core.jobs.changes import as_read
from tickwork.core.jobs.defaults import BUILT_IN
from tickwork.core.jobs.definitions import ACTIVE, DELETED, Definition, Job, Next, next_attributes, registered
from tickwork.core.ledger import lifecycle, pending
from tickwork.core.ledger.groups import job_marks, jobs_partition
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import BY_TEAM, JOBS, JOBS_BY_GROUP
from tickwork.core.ledger.writes import Absent, Committed, Condition, Item, Put, Refused, Update, Write
from tickwork.core.schedule import schedule_from_spec, starting_after_ms
from tickwork.flows.access.quotas import not_counted
from tickwork.flows.access.recording_jobs import recorded_job
from tickwork.flows.dispatch import creating, freeing
from tickwork.flows.jobs import counting_jobs, switches
from tickwork.flows.ledger import groups, reading
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.payloads import keep_payload
from tickwork.flows.ledger.reading import job_from, read_job, read_many
from tickwork.ports import Ports

LIST_READS_MAX = 10
"""Reads of the index for one page: deleted jobs stay in it for the retention time, and may be many."""

CHANGE_TRIES_MAX = 5
"""A change of a job competes with its own firings only; each of those moves it at most once."""


NewJob = Definition
"""A job to register, or what a job is to become."""


def registered_before(ports: Ports, job_id: str, asked: Collection[str]) -> Job | None:
    """The job as it stands, where the same request (by any of its fingerprints) has made it what it is: asked before
    the time is judged, so a repeat is known however late it comes."""
    standing = read_job(ports, job_id)
    if standing is None or standing.status == DELETED or standing.fingerprint not in asked:
        return None
    if groups.group_that_cancelled(ports, standing) is not None:  # it is to be part of the group as it is now
        return None
    see_to_next(ports, standing)  # the first request may have died before it did
    return standing


def standing(ports: Ports, job_id: str) -> Job | None:
    """The job of a name; None where there is none, or it was deleted."""
    job = read_job(ports, job_id)
    return None if job is None or job.status == DELETED else job


def create_job(ports: Ports, new: NewJob, *, left_out: Collection[str] = ()) -> tuple[Job, bool]:
    """(job, whether it is new). AlreadyExists when the name is taken by other content. `left_out`: fields that the
    request says nothing of, and which an older version's job may have otherwise than a new one."""
    for _ in range(CHANGE_TRIES_MAX):
        standing = read_job(ports, job_id_of(new.team, new.name))
        if standing is not None and standing.status != DELETED:
            same = replace(new, **{name: getattr(standing, name) for name in left_out})
            return _same_job(ports, standing, same), False
        if standing is not None and standing.buffer is not None:  # what waited of the one before ends with it
            freeing.free_job(ports, standing.job_id)
            continue
        job = _compose(ports, new, standing)
        if _register(ports, job, standing):
            return job, True
    raise Conflict(f"job {new.team}:{new.name} was changed {CHANGE_TRIES_MAX} times meanwhile")


def _same_job(ports: Ports, standing: Job, new: NewJob) -> Job:
    check_same(standing, new)
    see_to_next(ports, standing)  # the first request may have died before it did
    return standing


def check_same(standing: Job, new: NewJob) -> None:
    """AlreadyExists where the job of a name has other content."""
    if standing.fingerprint != new.fingerprint and not standing.has_content_of(new):
        raise AlreadyExists(
            f"job {standing.job_id} exists with other content (version {standing.version})",
            field="name",
            remedy="choose another name, or change the job with PATCH /jobs/{id}",
        )


def _compose(ports: Ports, new: NewJob, standing: Job | None) -> Job:
    now_ms = ports.clock.now_ms()
    version = standing.version + 1 if standing else 1
    passed_ms = standing.fired_through_ms if standing else 0
    earlier_ms = versions.through_ms(standing) if standing else max(0, now_ms - versions.BEFORE_BIRTH_MS)
    standing_at = {"version": version, "defined_since": version, "created_at_ms": now_ms, "defaults_base": BUILT_IN}
    job = registered(new, **standing_at, fired_through_ms=passed_ms, earlier_through_ms=earlier_ms)
    if standing is not None:  # one stream, as long as the name is known; and whoever runs yet still holds the name
        job = replace(job, audit_head=standing.audit_head, holders=standing.holders)
    label = groups.label_of_job(job)
    job = replace(job, epoch=groups.epoch_of(groups.read_groups(ports, [label]), label))
    job = reading.to_plan(ports, job)
    job = replace(job, planned_with=occurrences.planned_with(job))
    first = first_occurrence(job, now_ms, ports.layout.shards)
    if first is None:
        raise nothing_due("give a later time, or a later end")
    return replace(switches.switched(ports, job), next=first, work=keep_payload(ports, job.work, job.job_id, version))


def nothing_due(remedy: str) -> BadSchedule:
    """The refusal of a schedule that would never be due."""
    return BadSchedule("the schedule has no occurrence in the future", field="schedule", remedy=remedy)


def first_occurrence(job: Job, now_ms: int, shards: int) -> Next | None:
    """The first occurrence to materialise: from now on, and never again what the job has passed. A single instant
    that has just passed (the parser allows a minute's grace) fires now, and so does the very first occurrence of a
    schedule that was made to begin now. Nor is a single instant looked for long before the job had it: one that is
    moved to a working day is found from nearby only."""
    schedule = schedule_from_spec(job.schedule)
    if schedule.is_recurring:
        since_ms = starting_after_ms(schedule, now_ms)
    else:
        since_ms = max(0, max(job.created_at_ms, job.scheduled_since_ms) - HOUR_MS)
    return occurrences.following(job, max(since_ms, job.fired_through_ms), shards)


def _register(ports: Ports, job: Job, standing: Job | None) -> bool:
    key, now_ms = job.next_key(ports.layout.home), ports.clock.now_ms()
    assert key is not None
    creating.prepare_slices(ports, [key])
    unchanged: Condition = Absent() if standing is None else as_read(standing)
    job, entry = recorded_job(ports, None, job, "created")
    writes: list[Write] = [Put(JOBS, job.to_item(), unchanged), occurrences.materialise(job, key, now_ms), entry]
    writes += switches.first_deadline(ports, job)
    if standing is not None and not standing.deleted_at_ms:  # an older version has deleted it, and kept no definition
        writes += versions.replaced(standing, job.work.payload_id, now_ms, ports.layout.retention_s)
    result = _counted(ports, job.team, writes)
    if isinstance(result, Committed):
        creating.follow_up(ports, [key])
        return True
    return False


def _counted(ports: Ports, team: str, writes: list[Write]) -> Committed | Refused:
    """Commit with what counts one job more of the team, if it has a quota. QuotaExceeded when that alone is refused; a
    counter that is too busy keeps no job out."""
    counter = counting_jobs.coming(ports, team)
    if counter is None:
        return commit(ports, *writes)
    try:
        result = commit(ports, *writes, counter)
    except (Throttled, Conflict) as error:
        not_counted(ports, team, error)
        return commit(ports, *writes)
    if isinstance(result, Refused) and set(result.failed) == {len(writes)}:
        raise counting_jobs.full(ports, team)
    return result


def see_to_next(ports: Ports, job: Job) -> None:
    """The creator's rule for a job's pending occurrence."""
    key = job.next_key(ports.layout.home)
    if key is not None:
        creating.follow_up(ports, [key])


def get_job(ports: Ports, job_id: str) -> Job:
    """The job, also one that has finished or shows an error; NotFound when there is none or it was deleted."""
    job = read_job(ports, job_id)
    if job is None or job.status == DELETED:
        raise NotFound(
            f"there is no job {job_id!r}", field="job_id", remedy="list the team's jobs with GET /jobs?team="
        )
    return job


def list_jobs(
    ports: Ports, team: str, *, limit: int, after: str | None, group: str = "", strict: bool = False
) -> tuple[list[Job], str | None]:
    """A page of a team's jobs (of one group) by name, and the cursor to go on after (a job id). Deleted ones are left
    out: a page among many of them may be short, or empty, and still have a cursor. So are those that cannot be read;
    `strict`: such a one, if it is not deleted, is Unreadable."""
    jobs: list[Job] = []
    position: Item | None = None if after is None else {"job_id": after, "team": team}
    if position is not None and group:
        position = {"job_id": after, **job_marks(team, group)}
    for _ in range(LIST_READS_MAX):
        keys, position = _keys(ports, team, group, limit - len(jobs), position)
        found = read_many(ports, JOBS, [{"job_id": key["job_id"]} for key in keys])
        if strict:
            jobs += [job_from(item) for item in found if item is not None and item.get("status") != DELETED]
        else:
            jobs += [job for item in found if (job := _readable(ports, item)) is not None and job.status != DELETED]
        if position is None or len(jobs) == limit:
            break
    return jobs, None if position is None else str(position["job_id"])


def _keys(ports: Ports, team: str, group: str, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
    if group:
        of_group = jobs_partition(team, group)
        return ports.store.query_index(JOBS, JOBS_BY_GROUP, of_group, limit=limit, after=after, descending=False)
    return ports.store.query_index(JOBS, BY_TEAM, team, limit=limit, after=after, descending=False)


def _readable(ports: Ports, item: Item | None) -> Job | None:
    """One definition that cannot be read must not hide the others."""
    try:
        return None if item is None else Job.from_item(item)
    except Unreadable as error:
        ports.signals.log("unreadable_in_list", why=str(error))
        return None


def delete_job(ports: Ports, job_id: str, reason: str = "") -> bool:
    """Delete a job, for a reason that its audit keeps, and cancel its pending occurrence, in one transaction. Again is
    a no-op (False). A run that was dispatched before goes on; the tombstone keeps its definition, when it was deleted,
    and that no passed occurrence ever comes back."""
    at_ms = 0
    for _ in range(CHANGE_TRIES_MAX):
        job = read_job(ports, job_id)
        if job is None:
            raise NotFound(f"there is no job {job_id!r}", field="job_id", remedy="check the id")
        if job.status == DELETED:
            return bool(at_ms) and job.deleted_at_ms == at_ms  # our own try, whose answer was lost
        at_ms = ports.clock.now_ms()
        if isinstance(commit(ports, *_deletion(ports, job, at_ms, reason)), Committed):
            counting_jobs.gone(ports, job.team)
            if job.buffer is not None:
                freeing.free_job(ports, job_id)
            return True
    raise Conflict(f"job {job_id} was changed {CHANGE_TRIES_MAX} times meanwhile")


def deleted_at_ms(ports: Ports, job_id: str) -> int:
    """When a job was deleted; 0 when nobody knows (an older version did it, or it was made anew)."""
    job = read_job(ports, job_id)
    return job.deleted_at_ms if job is not None and job.status == DELETED else 0


def _deletion(ports: Ports, job: Job, now_ms: int, reason: str) -> list[Write]:
    retention_s, facts = ports.layout.retention_s, {"reason": reason} if reason else {}
    gone, entry = recorded_job(ports, job, replace(job, status=DELETED, version=job.version + 1), "deleted", facts)
    tombstone = {
        "status": DELETED,
        "deleted_at_ms": now_ms,
        "version": gone.version,
        "earlier_through_ms": versions.through_ms(job),
        "expires_at_s": now_ms // SECOND_MS + retention_s,
        "audit_head": gone.audit_head,
    } | next_attributes(None)
    writes: list[Write] = [Update(JOBS, job.key(), as_read(job), set=tombstone), entry]
    writes += versions.replaced(job, None, now_ms, retention_s)
    key = job.next_key(ports.layout.home)
    if key is not None:
        writes.append(pending.end_pending(key, lifecycle.CANCEL, "the job was deleted", now_ms, retention_s))
    return writes


def replanned(job: Job, upcoming: Next | None) -> Update:
    """Give a job without a pending occurrence its next one again (the reconciler's repair)."""
    return Update(
        JOBS,
        job.key(),
        as_read(job),
        set=next_attributes(upcoming) | {"status": ACTIVE, "planned_with": occurrences.planned_with(job)},
        remove=("reason",),
    )
