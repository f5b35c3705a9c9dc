"""Firing ledger items that are due: move the chain of recurring jobs on, then send.

The scanner fires what its window read, under the fence of its lease; a creator fires a near item of its own, and
the reconciler an overdue one, without a fence, because they look at `closing` after each write (flows/creating).
Protects chain-unbroken (the next item is written before the current one is sent) and no-lost-timer (what could not
be sent is reported, and the caller then does not advance).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from tickwork.core.dispatch import chain
from tickwork.core.errors import BadSchedule
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.definitions import ACTIVE, ERROR, Job, Next, next_attributes
from tickwork.core.jobs.pauses import pause_at
from tickwork.core.ledger import lifecycle, pending
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.records import Retry, Run
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import TRANSACTION_WRITES_MAX, Check, Committed, Item, Refused, Update, Write
from tickwork.flows.dispatch.sending import send_ready
from tickwork.flows.dispatch.stopwatch import TRANSACT
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import read_job_to_plan, read_jobs_to_plan, read_many, read_run
from tickwork.ports import Ports

STEP_TRIES_MAX = 5
"""Each refusal means that the job was changed meanwhile; one that is changed faster than this waits for the audit."""


class Fenced(Exception):
    """The lease was lost: stop at once, send nothing more."""


@dataclass(slots=True)
class Fired:
    """What became of a batch. `materialised` are the next items this firing has written: the caller sees to those
    that are near."""

    sent: int = 0
    skipped: int = 0
    set_aside: int = 0
    unsent: int = 0
    materialised: list[LedgerKey] = field(default_factory=list)

    def add(self, other: Fired) -> None:
        self.sent += other.sent
        self.skipped += other.skipped
        self.set_aside += other.set_aside
        self.unsent += other.unsent


@dataclass(frozen=True, slots=True)
class Firing:
    """Who fires, and by what right. `keep` is asked before each batch and may renew the lease; `lap` hears of each
    step that is done (flows/stopwatch)."""

    by: str
    fence: Check | None = None
    keep: Callable[[], bool] = lambda: True
    lap: Callable[[str], None] = lambda _: None


def read_items(ports: Ports, items: Iterable[Item]) -> list[Run | Retry]:
    """The pending ones among ledger items; an item that cannot be read is set aside, loudly, and left in place."""
    found: list[Run | Retry] = []
    for item in items:
        if item.get("status") in lifecycle.MEANING and item["status"] != lifecycle.PENDING:
            continue
        try:
            found.append(Retry.from_item(item) if "run_ref" in item else Run.from_item(item))
        except Unreadable as error:
            _set_aside(ports, str(error))
    return found


def fire(ports: Ports, due: Sequence[Run | Retry], firing: Firing) -> Fired:
    """Fire pending items that are due. Raises Fenced when the lease was lost on the way."""
    fired = Fired()
    retries = [item for item in due if isinstance(item, Retry)]
    runs = [item for item in due if isinstance(item, Run)]
    retried = _runs_of(ports, retries) if retries else {}
    jobs = _read_jobs(ports, runs, retried.values())
    messages = [_message(ports, run, run.work, firing) for run in runs if run.work is not None]
    messages += _step_chains(ports, [run for run in runs if run.work is None], jobs, firing, fired)
    messages += _retry_messages(ports, retries, retried, jobs, firing, fired)
    firing.lap(TRANSACT)
    if messages:
        if not firing.keep():
            raise Fenced
        outcome = send_ready(ports, messages)
        fired.sent += outcome.sent
        fired.set_aside += outcome.set_aside
        fired.unsent += outcome.unsent
        _observe_lag(ports, messages)
    return fired


def _read_jobs(ports: Ports, runs: Sequence[Run], retried: Iterable[Run | None]) -> dict[str, Job]:
    wanted = {run.key.job_id for run in (*runs, *retried) if run is not None and run.work is None}
    return read_jobs_to_plan(ports, wanted, partial(_set_aside, ports))


# --- recurring jobs -------------------------------------------------------------------------------------------


def _step_chains(
    ports: Ports, runs: Sequence[Run], jobs: dict[str, Job], firing: Firing, fired: Fired
) -> list[ReadyMessage]:
    """Move each job's chain on, many jobs to a transaction; those of a refused batch one by one."""
    messages: list[ReadyMessage] = []
    batch: list[_Step] = []
    size = 0
    for run in runs:
        job = jobs.get(run.key.job_id)
        if job is None:
            fired.set_aside += 1
            _set_aside(ports, f"{run.key.ref}: its job is not in the jobs table, or cannot be read")
            continue
        step = _plan(ports, job, run)
        if step is None or not step.writes:
            # It is not the job's next any more: passed or moved since it was read. Its own state tells which.
            messages += _step_again(ports, run, firing, fired)
            continue
        if size + len(step.writes) > TRANSACTION_WRITES_MAX - 1:
            messages += _commit_batch(ports, batch, firing, fired)
            batch, size = [], 0
        batch.append(step)
        size += len(step.writes)
    return messages + (_commit_batch(ports, batch, firing, fired) if batch else [])


@dataclass(frozen=True, slots=True)
class _Step:
    """A planned step: its writes (none: an earlier pass has done it already), what it means once committed."""

    run: Run
    job: Job
    writes: tuple[Write, ...]
    fires: bool
    skipped: int
    next: Next | None


def _plan(ports: Ports, job: Job, run: Run) -> _Step | None:
    """The step for a pending run of a job as both were read; None when the run is not (any more) the job's next."""
    key, now_ms = run.key, ports.clock.now_ms()
    if job.fired_through_ms >= key.scheduled_at_ms:
        return _Step(run, job, (), True, 0, job.next)
    if job.status != ACTIVE or job.next_key(key.cell) != key:
        return None
    due = Next(key.scheduled_at_ms, key.fire_at_ms, key.shard)
    try:
        step = chain.plan_step(job, due, now_ms, ports.layout.shards)
    except BadSchedule as error:
        return _parked(ports, job, run, str(error))
    writes = chain.step_writes(job, key, step, now_ms, ports.layout.retention_s)
    return _Step(run, job, writes, step.fires, len(step.skipped), step.next)


def _parked(ports: Ports, job: Job, run: Run, why: str) -> _Step:
    """The last step of a job whose next occurrence cannot be computed: this one still fires, unless the job was paused
    then. It holds up no other."""
    key, now_ms = run.key, ports.clock.now_ms()
    park = _park(ports, job, key, why)
    pause = pause_at(job.pauses, key.scheduled_at_ms)
    if pause is None:
        return _Step(run, job, (park,), True, 0, None)
    skip = pending.end_pending(key, lifecycle.SKIP, pause.skip_reason, now_ms, ports.layout.retention_s)
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
    result = _commit_fenced(ports, [write for step in batch for write in step.writes], firing)
    if isinstance(result, Committed):
        return [message for step in batch for message in _account(ports, step, firing, fired)]
    messages: list[ReadyMessage] = []
    for step in batch:
        if len(batch) == 1 or not isinstance(_commit_fenced(ports, step.writes, firing), Committed):
            messages += _step_again(ports, step.run, firing, fired)
        else:
            messages += _account(ports, step, firing, fired)
    return messages


def _commit_fenced(ports: Ports, writes: Sequence[Write], firing: Firing) -> Committed | Refused:
    if firing.fence is None:
        return commit(ports, *writes)
    result = commit(ports, firing.fence, *writes)
    if isinstance(result, Refused) and 0 in result.failed:
        ports.signals.count("scheduler.dispatch_rejected_stale_token_total")
        raise Fenced
    return result


def _step_again(ports: Ports, stale: Run, firing: Firing, fired: Fired) -> list[ReadyMessage]:
    """Somebody was there first. Read both sides again, the item last: if the job had passed it by then and it is
    pending still, it was fired, not skipped, and its message may be missing."""
    for _ in range(STEP_TRIES_MAX):
        try:
            job, run = read_job_to_plan(ports, stale.key.job_id), read_run(ports, stale.key)
        except Unreadable as error:
            fired.set_aside += 1
            _set_aside(ports, str(error))
            return []
        if job is None or run is None:
            return []
        upcoming = job.next_key(run.key.cell)
        if upcoming is not None and job.fired_through_ms >= run.key.scheduled_at_ms:
            fired.materialised.append(upcoming)  # perhaps by our own commit, its reply lost: then it is ours to see to
        if run.status != lifecycle.PENDING:
            return []
        step = _plan(ports, job, run)
        if step is None:
            fired.set_aside += 1
            _set_aside(ports, f"{run.key.ref}: pending, but its job ({job.status}) has another next occurrence")
            return []
        if not step.writes or isinstance(_commit_fenced(ports, step.writes, firing), Committed):
            return _account(ports, step, firing, fired)
    fired.unsent += 1
    ports.signals.log("chain_contended", ref=stale.key.ref, tries=STEP_TRIES_MAX)
    return []


def _account(ports: Ports, step: _Step, firing: Firing, fired: Fired) -> list[ReadyMessage]:
    fired.skipped += step.skipped
    if step.next is not None and step.writes:
        fired.materialised.append(step.job.occurrence_key(step.run.key.cell, step.next))
    if not step.fires:
        return []
    previous_ms = step.job.fired_through_ms if step.writes else 0
    message = _message(ports, step.run, step.job.work, firing)
    next_ms = step.next.scheduled_at_ms if step.next else 0
    return [_with_neighbours(message, previous_ms, next_ms)]


# --- messages -------------------------------------------------------------------------------------------------


def _message(ports: Ports, run: Run, work: Work, firing: Firing) -> ReadyMessage:
    return ReadyMessage(run.key, work, 1, ports.clock.now_ms(), firing.by)


def _with_neighbours(message: ReadyMessage, previous_ms: int, next_ms: int) -> ReadyMessage:
    return ReadyMessage(
        message.key,
        message.work,
        message.attempt,
        message.dispatched_at_ms,
        message.dispatched_by,
        previous_at_ms=previous_ms,
        next_at_ms=next_ms,
    )


def _runs_of(ports: Ports, retries: Sequence[Retry]) -> dict[str, Run | None]:
    """The runs to retry, by ref; one that cannot be read is left out, and so is set aside with its retry."""
    refs = sorted({retry.run_ref for retry in retries})
    runs: dict[str, Run | None] = {}
    for ref, item in zip(refs, read_many(ports, TIMERS, [parse_ref(ref).as_item() for ref in refs]), strict=True):
        try:
            runs[ref] = None if item is None else Run.from_item(item)
        except Unreadable as error:
            _set_aside(ports, str(error))
    return runs


def _retry_messages(
    ports: Ports,
    retries: Sequence[Retry],
    runs: dict[str, Run | None],
    jobs: dict[str, Job],
    firing: Firing,
    fired: Fired,
) -> list[ReadyMessage]:
    """Messages for due retries whose run still waits for them; the others are spent."""
    messages = []
    now_ms = ports.clock.now_ms()
    for retry in retries:
        if retry.run_ref not in runs:
            fired.set_aside += 1
            continue
        run = runs[retry.run_ref]
        if run is None or run.status != lifecycle.WAITING or run.attempt + 1 != retry.attempt:
            commit(
                ports,
                pending.end_pending(retry.key, lifecycle.SPEND, "no longer wanted", now_ms, ports.layout.retention_s),
            )
            continue
        job = jobs.get(run.key.job_id)
        work = run.work or (job.work if job else None)
        if work is None:
            fired.set_aside += 1
            _set_aside(ports, f"{retry.key.ref}: the job of the run to retry cannot be read")
            continue
        messages.append(ReadyMessage(run.key, work, retry.attempt, now_ms, firing.by, retry_ref=retry.key.ref))
    return messages


def _observe_lag(ports: Ports, messages: Sequence[ReadyMessage]) -> None:
    for message in messages:
        lag_s = max(0, message.dispatched_at_ms - message.due_ms) / SECOND_MS
        ports.signals.observe("scheduler.fire_lag_seconds", lag_s)


def _set_aside(ports: Ports, why: str) -> None:
    ports.signals.count("scheduler.set_aside_total")
    ports.signals.log("item_set_aside", why=why)
