"""Ending the wait of runs that are buffered: whoever meets a job of which one waits looks whether it may go.

A scanner does, by the right of its lease, before it decides on what is due now, which would else overtake. So do,
without a fence, whoever has buffered one, whoever has ended a run, and the `look` within a minute. All do the same:
read the job, then the runs that hold it and the one that waits, then write on condition that the job is as it was read,
then send. A look is spent when its run was sent, or has ended: a crash anywhere before leaves it, and it comes again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tickwork.core.dispatch import buffering, releasing, set_aside
from tickwork.core.dispatch.releasing import DROP, RELEASE, Head
from tickwork.core.errors import InvariantViolated, WorldError
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.overlap import OVERLAP, Holding
from tickwork.core.ledger import lifecycle, pending
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.records import Look, Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Committed, Write
from tickwork.flows.dispatch.cancelled_groups import as_it_fires
from tickwork.flows.dispatch.fencing import commit_fenced, leave_job, left_busy
from tickwork.flows.dispatch.fired import Fenced, Fired, Firing
from tickwork.flows.dispatch.giving_way import ask_to_end
from tickwork.flows.dispatch.overlapping import holding_of
from tickwork.flows.dispatch.stepping import message_of
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.platform_defaults import as_due
from tickwork.flows.ledger.reading import read_job_to_plan, read_many, read_run
from tickwork.flows.ledger.versions import Versions
from tickwork.ports import Ports

TRIES_MAX = 5
"""Each refusal means that the job was moved on meanwhile. One that is moved faster is looked at again in a minute."""

HEADS_MAX = 200
"""Of one job at a time, each a transaction: beyond it the look goes on."""

LOOK_KEPT_S = 2 * 86_400
"""A look that is spent says nothing any more: it stays until the audit of its day has passed it."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A look that is due, and the run that it is about, as it stood afterwards."""

    look: Look
    run: Run | None


def free(
    ports: Ports, jobs: dict[str, Job], due: Mapping[str, Sequence[LedgerKey]], firing: Firing, fired: Fired
) -> tuple[list[ReadyMessage], set[str]]:
    """See to what waits of the jobs of what is due, until the oldest has to wait on. The messages of what may go; the
    jobs stand in `jobs` as they are then. Also those that could not be seen to: what is due of them is left, for
    nothing of them may be fired that is newer."""
    messages: list[ReadyMessage] = []
    stuck: set[str] = set()
    for job_id, keys in due.items():
        job = jobs.get(job_id)
        if job is None or job.buffer is None:
            continue
        # Each is left by itself. Whether a pause keeps it is asked of what is released.
        takes = [firing.takes(key, job.work, job.group, fired, moved=job.version > 1, starts=False) for key in keys]
        if not all(takes):
            stuck.add(job_id)
            continue
        try:
            jobs[job_id] = _free(ports, job, firing, fired, messages)
        except (WorldError, Unreadable) as error:
            stuck.add(job_id)
            for key in keys:
                leave_job(ports, key, error, fired)
    return messages, stuck


def look_again(ports: Ports, job_ids: Collection[str], firing: Firing, fired: Fired) -> list[ReadyMessage]:
    """Who has just buffered a run looks whether what held it has ended meanwhile, for then nobody else may have seen
    that it waits. That is for promptness only: the look at it stands."""
    messages: list[ReadyMessage] = []
    for job_id in sorted(job_ids):
        try:
            job = read_job_to_plan(ports, job_id)
            if job is not None:
                _free(ports, firing.paused.applied_to(job), firing, fired, messages)
        except (WorldError, Unreadable) as error:
            ports.signals.log("buffered_left", job_id=job_id, error=repr(error))
    return messages


def _free(ports: Ports, job: Job, firing: Firing, fired: Fired, messages: list[ReadyMessage]) -> Job:
    """The job as it is then. Raises what keeps it from being read or written."""
    refused = 0
    for _ in range(HEADS_MAX):
        if job.buffer is None or refused >= TRIES_MAX:
            break
        run = read_run(ports, job.buffer.first)
        planned = _as_planned(ports, job, run)
        holding = holding_of(ports, planned)
        head = _head(ports, planned, run, holding)
        if head is None and not ask_to_end(ports, planned, holding, firing, fired):
            break
        if head is None or not _carry_out(ports, planned, run, head, firing, fired):
            refused += 1
        else:
            messages += _told(ports, job, run, head, firing)
        again = read_job_to_plan(ports, job.job_id)
        if again is None:
            break
        job = as_it_fires(ports, again, firing)
    return job


def _carry_out(ports: Ports, job: Job, run: Run | None, head: Head, firing: Firing, fired: Fired) -> bool:
    writes = releasing.head_writes(job, run, head, ports.clock.now_ms(), ports.layout.retention_s)
    if not firing.keep():
        raise Fenced
    fired.materialised += _look_in(writes)  # before: a refusal may be of our own write, whose reply was lost
    return isinstance(commit_fenced(ports, writes, firing, fired), Committed)


def _as_planned(ports: Ports, job: Job, run: Run | None) -> Job:
    """What waits goes by what it was planned by; but where the job's runs may overlap by now, nobody need wait."""
    return job if run is None or job.may_overlap else as_due(ports, job, run)


def _head(ports: Ports, job: Job, run: Run | None, holding: Holding | None) -> Head | None:
    try:
        return releasing.head_of(job, run, holding, ports.clock.now_ms())
    except InvariantViolated:
        raise
    except Exception as error:  # a stored schedule can be wrong in any way; no port is called here
        raise Unreadable(f"job {job.job_id}: what it excludes: {error!r}") from error


def _look_in(writes: Sequence[Write]) -> list[LedgerKey]:
    """The look among some writes: whoever has put one sees to it."""
    key = buffering.look_among(writes)
    return [] if key is None else [key]


def _told(ports: Ports, job: Job, run: Run | None, head: Head, firing: Firing) -> list[ReadyMessage]:
    """Say what became of the oldest that waited, and its message where it goes."""
    assert job.buffer is not None
    ports.signals.count("scheduler.buffered_ended_total", how=head.does)
    ports.signals.log("buffered_run", ref=job.buffer.first.ref, how=head.does, why=head.reason)
    if head.does != RELEASE or run is None:
        return []
    return _message(ports, job, run, firing)


def _message(ports: Ports, job: Job, run: Run, firing: Firing) -> list[ReadyMessage]:
    """By the definition that it would have been fired by when it was due."""
    work = Versions(ports).work_of(job, run)
    if work is None:
        ports.signals.count("scheduler.set_aside_total")
        ports.signals.log("item_set_aside", why=f"{run.key.ref}: the definition it was due by is gone")
        return []
    next_ms = job.next.scheduled_at_ms if job.next and run.is_recurring else 0
    return [replace(message_of(ports, run, work, firing), next_at_ms=next_ms)]


def leaving(looks: Sequence[Look], stuck: Collection[str], fired: Fired) -> list[Look]:
    """The looks that may be served now: those of a job that is left wait with it, for whatever it is left."""
    for one in looks:
        if set_aside.job(one.key.job_id) in fired.left:
            fired.leave(set_aside.job(one.key.job_id), one.key)
    held = {who.name for who in fired.left if who.kind == set_aside.JOB}
    return [one for one in looks if one.key.job_id not in held | set(stuck)]


# --- the look -------------------------------------------------------------------------------------------------


def look(
    ports: Ports, looks: Sequence[Look], jobs: Mapping[str, Job], sent: Collection[str], firing: Firing, fired: Fired
) -> tuple[list[Looked], list[ReadyMessage]]:
    """The looks that are due, each with its run as it stands after `free`; and the messages of runs that were let go
    before and may not have been sent. `sent`: the refs of those that go now."""
    looked: list[Looked] = []
    messages: list[ReadyMessage] = []
    try:
        items = read_many(ports, TIMERS, [parse_ref(one.run_ref).as_item() for one in looks])
    except WorldError:
        for one in looks:
            left_busy(ports, one.key, fired)
        return [], []
    for one, item in zip(looks, items, strict=True):
        try:
            run, job = None if item is None else Run.from_item(item), jobs.get(one.key.job_id)
            if job is not None and run is not None and run.key.ref not in sent and _is_dispatched(job, run):
                messages += _message(ports, job, run, firing)
        except Unreadable as error:
            leave_job(ports, one.key, error, fired)
        except WorldError:
            left_busy(ports, one.key, fired)
        else:
            looked.append(Looked(one, run))
    return looked, messages


def _is_dispatched(job: Job, run: Run) -> bool:
    """Whether it was let go, and nobody has started it."""
    is_passed = bool(run.key.kind) or run.key.scheduled_at_ms <= job.fired_through_ms
    return run.status == lifecycle.PENDING and is_passed


def close(ports: Ports, looked: Sequence[Looked], jobs: Mapping[str, Job], firing: Firing, fired: Fired) -> None:
    """What becomes of the looks: one whose run waits on moves on, one whose message could not be sent stays, and is
    left; the others are spent."""
    for one in looked:
        key, run, job = one.look.key, one.run, jobs.get(one.look.key.job_id)
        if one.look.run_ref in fired.unsent_looks:
            continue
        try:
            if run is None or run.status != lifecycle.BUFFERED:
                commit(ports, _spent(ports, key))
            elif job is None or job.buffer is None:
                end_unnamed(ports, run.key)
                commit(ports, _spent(ports, key))
            else:
                _move_on(ports, run, key, firing, fired)
        except WorldError:
            left_busy(ports, key, fired)


def _move_on(ports: Ports, run: Run, key: LedgerKey, firing: Firing, fired: Fired) -> None:
    # A cursor may be ahead of our clock, by another's: the look was served before its time, and the next comes later.
    put = buffering.look_at(run.key, max(ports.clock.now_ms(), key.fire_at_ms))
    if not firing.keep():
        raise Fenced
    commit_fenced(ports, [_spent(ports, key), put], firing, fired)
    fired.materialised += _look_in([put])  # refused: our own commit, its reply lost, or somebody else's


def end_unnamed(ports: Ports, key: LedgerKey) -> None:
    """It waits, and its job does not know of it: nobody would let it go. Only a hand, or a restore, can do that."""
    now_ms = ports.clock.now_ms()
    commit(ports, pending.end_buffered(key, lifecycle.SKIP, OVERLAP, now_ms, ports.layout.retention_s))
    ports.signals.count("scheduler.buffered_ended_total", how=DROP)
    ports.signals.log("buffered_run", ref=key.ref, how=DROP, why="its job does not name it")


def _spent(ports: Ports, key: LedgerKey) -> Write:
    kept_s = min(LOOK_KEPT_S, ports.layout.retention_s)
    return pending.end_pending(key, lifecycle.SPEND, "looked", ports.clock.now_ms(), kept_s)


def due_by_job(runs: Sequence[Run], looks: Sequence[Look]) -> dict[str, list[LedgerKey]]:
    """What is due of jobs, by job."""
    due: dict[str, list[LedgerKey]] = {}
    for key in (*(run.key for run in runs if run.work is None), *(one.key for one in looks)):
        due.setdefault(key.job_id, []).append(key)
    return due
