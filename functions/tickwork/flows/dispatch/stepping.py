"""Moving the chains of recurring jobs on: many jobs to a transaction, those of a refused one each alone.

Protects chain-unbroken (the next item is written before the current one is sent). What fails for one job costs that job
only: a definition that cannot be read or computed, or that is changed faster than it can be stepped, is left, and the
others go on. A chain is stepped whatever state its due item is in: one that was started early is passed, not sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tickwork.core.dispatch import buffering, chain, set_aside
from tickwork.core.dispatch.group_ends import end_writes
from tickwork.core.errors import BadSchedule, InvariantViolated, WorldError
from tickwork.core.jobs.definitions import ACTIVE, ERROR, Job, Next, next_attributes
from tickwork.core.jobs.occurrences import ended_attributes
from tickwork.core.jobs.overlap import OVERLAP, Holding
from tickwork.core.jobs.skips import left_out_at
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.pending import end_pending
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import TRANSACTION_WRITES_MAX, Committed, Update, Write
from tickwork.flows.dispatch.as_planned import as_planned
from tickwork.flows.dispatch.cancelled_groups import as_it_fires
from tickwork.flows.dispatch.fencing import commit_fenced, leave_job, left_busy
from tickwork.flows.dispatch.fired import Fenced, Fired, Firing
from tickwork.flows.dispatch.overlapping import Unheard, holdings, is_overtaking
from tickwork.flows.ledger.platform_defaults import as_due
from tickwork.flows.ledger.reading import read_job_to_plan, read_many, read_run
from tickwork.flows.ledger.versions import Versions
from tickwork.ports import Ports

STEP_TRIES_MAX = 5
"""Each refusal means that the job was changed meanwhile; one that is changed faster than this is set aside."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A planned step: its writes (none: an earlier pass has done it already), what it means once committed."""

    run: Run
    job: Job
    writes: tuple[Write, ...]
    fires: bool
    skipped: int
    next: Next | None
    buffers: bool = False
    """It waits until its job is free. `look`: the look at it, where it is the first that does."""
    look: LedgerKey | None = None


def step_chains(
    ports: Ports, runs: Sequence[Run], jobs: dict[str, Job], firing: Firing, fired: Fired
) -> list[ReadyMessage]:
    """Move each job's chain on. The messages of the occurrences that fire."""
    messages: list[ReadyMessage] = []
    batch: list[_Step] = []
    passed: list[_Step] = []
    size = 0
    runs, jobs = as_planned(ports, runs, jobs, lambda key, error: leave_job(ports, key, error, fired))
    held = holdings(ports, {run.key.job_id: jobs[run.key.job_id] for run in runs}.values())
    for run in runs:
        step = _plan_or_leave(ports, jobs[run.key.job_id], run, held.get(run.key.job_id), firing, fired)
        if isinstance(step, Run):  # it is not the job's next any more: moved since it was read
            messages += _step_again(ports, run, firing, fired)
            continue
        if step is None:
            continue
        if not step.writes:
            passed.append(step)
            continue
        if batch and size + len(step.writes) > TRANSACTION_WRITES_MAX - 1:
            messages += _commit_batch(ports, batch, firing, fired)
            batch, size = [], 0
        batch.append(step)
        size += len(step.writes)
    messages += _fire_passed(ports, passed, firing, fired)
    return messages + (_commit_batch(ports, batch, firing, fired) if batch else [])


def _plan_or_leave(
    ports: Ports, job: Job, run: Run, holding: Holding | Unheard | None, firing: Firing, fired: Fired
) -> _Step | Run | None:
    """The step of a run; the run itself when it is not its job's next; None when there is nothing to do, or when no
    step can be computed: then the run is left, and costs its own job only."""
    if isinstance(holding, Unheard):
        leave_job(ports, run.key, holding.error, fired)
        return None
    if is_overtaking(job, run, holding):
        left_busy(ports, run.key, fired)
        return None
    try:
        step = _plan(ports, job, run, holding, has_waited=firing.has_waited)
    except InvariantViolated:
        raise
    except Exception as error:  # noqa: BLE001 - a stored schedule can be wrong in any way; no port is called here
        leave_job(ports, run.key, error, fired)
        return None
    if run.status != lifecycle.PENDING:
        return step if step is not None and step.writes else None
    return run if step is None else step


def _plan(ports: Ports, job: Job, run: Run, holding: Holding | None, *, has_waited: bool) -> _Step | None:
    """The step for a run of a job as both were read; None when the run is not (any more) the job's next."""
    key, now_ms = run.key, ports.clock.now_ms()
    if job.fired_through_ms >= key.scheduled_at_ms:
        return _Step(run, job, (), True, 0, job.next)
    if job.status != ACTIVE or job.next is None or job.next_key(ports.layout.home) != key:
        return None
    due = job.next
    if (group := job.cancelled_with) is not None:
        return _Step(run, job, end_writes(job, run, group, now_ms, ports.layout.retention_s), False, 0, None)
    try:
        if run.status == lifecycle.PENDING:
            step = chain.plan_step(job, due, now_ms, ports.layout.shards, holding, has_waited=has_waited)
        else:  # started before it was stepped: it has had its message
            step = chain.Step(False, (), chain.next_after(job, due, ports.layout.shards))
    except BadSchedule as error:
        return _parked(ports, job, run, holding, str(error))
    writes = chain.step_writes(job, key, step, now_ms, ports.layout.retention_s)
    if step.next is None and (why := ended_attributes(job, key.scheduled_at_ms).get("reason")):
        ports.signals.count("scheduler.jobs_parked_total")
        ports.signals.log("job_parked", job_id=job.job_id, why=why)
    look = buffering.look_among(writes) if step.buffers else None
    return _Step(run, job, writes, step.fires, len(step.skipped), step.next, step.buffers, look)


def _parked(ports: Ports, job: Job, run: Run, holding: Holding | None, why: str) -> _Step:
    """The last step of a job whose next occurrence cannot be computed: this one still fires, unless the job was paused
    then, another run holds it, or it was started before it was stepped. It holds up no other."""
    key = run.key
    park, pause = _park(ports, job, key, why), left_out_at(job.pauses, job.skips, key.scheduled_at_ms)
    by = holding.by if holding is not None else None
    if (pause is None and by is None) or run.status != lifecycle.PENDING:
        return _Step(run, job, (park,), run.status == lifecycle.PENDING, 0, None)
    now_ms, retention_s = ports.clock.now_ms(), ports.layout.retention_s
    reason = OVERLAP if pause is None else pause.skip_reason
    skip = end_pending(key, lifecycle.SKIP, reason, now_ms, retention_s)
    skip = replace(skip, set={**skip.set, "held_by": dict(by)}) if by and pause is None else skip
    return _Step(run, job, (park, skip), False, 1, None)


def _park(ports: Ports, job: Job, key: LedgerKey, why: str) -> Update:
    """The job shows its error, and the reconciler tries again."""
    ports.signals.count("scheduler.jobs_parked_total")
    ports.signals.log("job_parked", job_id=job.job_id, why=why)
    changes = {
        "status": ERROR,
        "reason": why[:300],
        "fired_through_ms": key.scheduled_at_ms,
    } | next_attributes(None)
    return Update(JOBS, job.key(), chain.chain_unmoved(job, key), set=changes)


def _commit_batch(ports: Ports, batch: Sequence[_Step], firing: Firing, fired: Fired) -> list[ReadyMessage]:
    if not firing.keep():
        raise Fenced
    try:
        result = commit_fenced(ports, [write for step in batch for write in step.writes], firing, fired)
    except WorldError:
        if len(batch) == 1:
            return left_busy(ports, batch[0].run.key, fired)
        result = None  # which of them is busy? the others are not to wait for it
    if isinstance(result, Committed):
        return [message for step in batch for message in _account(ports, step, firing, fired)]
    return [message for step in batch for message in _commit_alone(ports, step, firing, fired, tried=len(batch) == 1)]


def _commit_alone(ports: Ports, step: _Step, firing: Firing, fired: Fired, *, tried: bool) -> list[ReadyMessage]:
    """The step of a batch that was refused. `tried`: it was the whole batch."""
    try:
        if tried or not isinstance(commit_fenced(ports, step.writes, firing, fired), Committed):
            _note_look(step, fired)
            return _step_again(ports, step.run, firing, fired)
    except WorldError:
        return left_busy(ports, step.run.key, fired)
    return _account(ports, step, firing, fired)


def _fire_passed(ports: Ports, passed: Sequence[_Step], firing: Firing, fired: Fired) -> list[ReadyMessage]:
    """Occurrences that their jobs have passed. Each item is read again, after its job, all of them in one read: what is
    pending still was fired, not skipped, and its message may be missing; and so may what its step has written."""
    messages: list[ReadyMessage] = []
    try:
        items = read_many(ports, TIMERS, [step.run.key.as_item() for step in passed])
    except WorldError:
        for step in passed:
            left_busy(ports, step.run.key, fired)
        return []
    for step, item in zip(passed, items, strict=True):
        if item is None:
            continue
        if step.next is not None:
            fired.materialised.append(step.job.occurrence_key(ports.layout.home, step.next))
        if item.get("status") != lifecycle.PENDING:
            continue
        try:
            messages += _account(ports, step, firing, fired)
        except WorldError:
            messages += left_busy(ports, step.run.key, fired)
        except Unreadable as error:
            leave_job(ports, step.run.key, error, fired)
    return messages


def _step_again(ports: Ports, stale: Run, firing: Firing, fired: Fired) -> list[ReadyMessage]:
    """Somebody was there first. Read both sides again, the item last: if the job had passed it by then and it is
    pending still, it was fired, not skipped, and its message may be missing."""
    try:
        return _step_as_it_stands(ports, stale, firing, fired)
    except WorldError:
        return left_busy(ports, stale.key, fired)
    except Unreadable as error:
        leave_job(ports, stale.key, error, fired)
        return []


def _step_as_it_stands(ports: Ports, stale: Run, firing: Firing, fired: Fired) -> list[ReadyMessage]:
    for _ in range(STEP_TRIES_MAX):
        job, run = read_job_to_plan(ports, stale.key.job_id), read_run(ports, stale.key)
        if job is None or run is None:
            return []
        job = as_it_fires(ports, job, firing)
        upcoming = job.next_key(ports.layout.home)
        if upcoming is not None and job.fired_through_ms >= run.key.scheduled_at_ms:
            fired.materialised.append(upcoming)  # perhaps by our own commit, its reply lost: then it is ours to see to
        job = as_due(ports, job, run)
        step = _plan_or_leave(ports, job, run, holdings(ports, [job]).get(job.job_id), firing, fired)
        if step is None:
            return []
        if isinstance(step, Run):
            fired.set_aside += 1
            ports.signals.count("scheduler.set_aside_total")
            why = f"{run.key.ref}: pending, but its job ({job.status}) has another next occurrence"
            ports.signals.log("item_set_aside", why=why)
            return []
        if not step.writes or isinstance(commit_fenced(ports, step.writes, firing, fired), Committed):
            return _account(ports, step, firing, fired)
        _note_look(step, fired)
    fired.unsent += 1
    fired.leave(set_aside.job(stale.key.job_id), stale.key)
    ports.signals.count("scheduler.chains_contended_total")
    ports.signals.log("chain_contended", ref=stale.key.ref, tries=STEP_TRIES_MAX)
    return []


def _note_look(step: _Step, fired: Fired) -> None:
    """See to the look at what a step has kept back, and look again at its job: also where the step was refused, which
    may have been by our own commit, its reply lost. A look that is not there costs a tick."""
    if step.buffers:
        fired.buffered.add(step.job.job_id)
        fired.materialised += [step.look] if step.look else []


def _account(ports: Ports, step: _Step, firing: Firing, fired: Fired) -> list[ReadyMessage]:
    fired.skipped += step.skipped
    if step.next is not None and step.writes:
        fired.materialised.append(step.job.occurrence_key(ports.layout.home, step.next))
    if step.buffers:
        ports.signals.count("scheduler.buffered_total")
        _note_look(step, fired)
    if not step.fires:
        return []
    previous_ms = step.job.fired_through_ms if step.writes else 0
    # What an earlier pass has fired may be an earlier definition's: the job was changed meanwhile.
    work = step.job.work if step.writes else Versions(ports).work_of(step.job, step.run)
    if work is None:
        fired.set_aside += 1
        ports.signals.count("scheduler.set_aside_total")
        ports.signals.log("item_set_aside", why=f"{step.run.key.ref}: the definition it was fired by is gone")
        return []
    message = message_of(ports, step.run, work, firing)
    next_ms = step.next.scheduled_at_ms if step.next else 0
    return [replace(message, previous_at_ms=previous_ms, next_at_ms=next_ms)]


def message_of(ports: Ports, run: Run, work: Work, firing: Firing) -> ReadyMessage:
    return ReadyMessage(run.key, work, 1, ports.clock.now_ms(), firing.by)
