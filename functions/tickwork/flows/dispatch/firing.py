"""Firing ledger items that are due: move the chain of recurring jobs on, then send.

The scanner fires what its window read, under the fence of its lease; a creator fires a near item of its own, and
the reconciler an overdue one, without a fence, because they look at `closing` after each write (flows/creating).
Protects no-lost-timer: what could not be fired is left, by whom it waits for (a pool, a job), and the caller does not
pass it without setting it aside. What fails for one costs that one only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tickwork.core.dispatch import set_aside
from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.skips import left_out_at
from tickwork.core.ledger import lifecycle, pending
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.records import Due, Look, Retry, Run, due_from
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.dispatch import releasing
from tickwork.flows.dispatch.cancelled_groups import marked, pass_cancelled
from tickwork.flows.dispatch.fencing import leave_job
from tickwork.flows.dispatch.fired import Fenced, Fired, Firing
from tickwork.flows.dispatch.holding_back import hold_back
from tickwork.flows.dispatch.keeping_out import keep_out
from tickwork.flows.dispatch.releasing import Looked
from tickwork.flows.dispatch.sending import send_ready
from tickwork.flows.dispatch.stepping import message_of, step_chains
from tickwork.flows.dispatch.stopwatch import TRANSACT
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import read_jobs_to_plan, read_many
from tickwork.flows.ledger.versions import Versions
from tickwork.ports import Ports


def read_items(ports: Ports, items: Iterable[Item], *, started: bool = False) -> list[Due]:
    """The pending ones among ledger items; an item that cannot be read is set aside, loudly, and left in place.

    `started`: and the occurrences of jobs that were started, whatever has become of them, for their chains may wait.
    """
    found: list[Due] = []
    for item in items:
        is_pending = item.get("status") == lifecycle.PENDING
        if item.get("status") in lifecycle.MEANING and not is_pending and not (started and _is_of_job(item)):
            continue
        try:
            found.append(due_from(item))
        except Unreadable as error:
            if is_pending or item.get("status") not in lifecycle.MEANING:
                _set_aside(ports, str(error))
    return found


def _is_of_job(item: Item) -> bool:
    """An occurrence that was started, or whose start was put off."""
    was_met = bool(item.get("attempt")) or item.get("status") == lifecycle.WAITING
    return "work" not in item and "run_ref" not in item and was_met


def fire(ports: Ports, due: Sequence[Due], firing: Firing) -> Fired:
    """Fire items that are due. Raises Fenced when the lease was lost on the way."""
    fired = Fired()
    retries = [item for item in due if isinstance(item, Retry)]
    looks = [item for item in due if isinstance(item, Look)]
    runs = pass_cancelled(ports, [item for item in due if isinstance(item, Run)], firing)
    alone = [run for run in runs if run.work is not None and firing.takes(run.key, run.work, run.group, fired)]
    messages = [message_of(ports, run, run.work, firing) for run in alone if run.work is not None]
    retried = _runs_of(ports, retries, fired)
    jobs = _read_jobs(ports, runs, looks, retries, retried, firing, fired)
    looked: list[Looked] = []
    if jobs is not None:
        jobs = marked(ports, {job_id: firing.paused.applied_to(job) for job_id, job in jobs.items()}, firing)
        freed, stuck = releasing.free(ports, jobs, releasing.due_by_job(runs, looks), firing, fired)
        steps = [run for run in _to_step(ports, runs, jobs, firing, fired) if run.key.job_id not in stuck]
        messages += step_chains(ports, steps, jobs, firing, fired)
        freed += releasing.look_again(ports, fired.buffered, firing, fired)
        looks = releasing.leaving(looks, stuck, fired)
        looked, again = releasing.look(ports, looks, jobs, {one.key.ref for one in freed}, firing, fired)
        fired.released |= {message.key.ref for message in (*freed, *again)}
        messages += [*freed, *again]
    messages += _retry_messages(ports, retries, retried, jobs or {}, firing, fired)
    send_all(ports, messages, jobs or {}, retried, looked, firing, fired)
    return fired


def send_all(
    ports: Ports,
    messages: Sequence[ReadyMessage],
    jobs: dict[str, Job],
    retried: dict[str, Run | None],
    looked: Sequence[Looked],
    firing: Firing,
    fired: Fired,
) -> None:
    """Send what is to go, but for what a freeze holds back, or a pool keeps out; and then close the looks."""
    if jobs:
        messages = hold_back(ports, messages, jobs, retried, firing, fired)
    messages = keep_out(ports, messages, retried, firing, fired)
    firing.lap(TRANSACT)
    if messages:
        if not firing.keep():
            raise Fenced
        _send(ports, messages, looked, firing, fired)
    releasing.close(ports, looked, jobs, firing, fired)


def _send(
    ports: Ports, messages: Sequence[ReadyMessage], looked: Sequence[Looked], firing: Firing, fired: Fired
) -> None:
    outcome = send_ready(ports, messages, firing.send_tries_max, firing.is_crowd)
    fired.sent += outcome.sent
    fired.set_aside += outcome.set_aside
    fired.unsent += outcome.unsent
    looks = {one.look.run_ref: one.look.key for one in looked}
    for message in outcome.left:
        key = parse_ref(message.retry_ref) if message.retry_ref else message.key
        if message.key.ref in fired.released:  # the look at it stands: it is that which is left, where it is due
            fired.unsent_looks.add(message.key.ref)
            if message.key.ref not in looks:
                continue
            key = looks[message.key.ref]
        fired.leave(set_aside.pool(message.work.pool), key)
    punctual = [m for m in messages if m.key.ref not in fired.released and not firing.has_waited]
    fired.lag_ms = max(fired.lag_ms, _observe_lag(ports, punctual))


def _read_jobs(
    ports: Ports,
    runs: Sequence[Run],
    looks: Sequence[Look],
    retries: Sequence[Retry],
    retried: dict[str, Run | None],
    firing: Firing,
    fired: Fired,
) -> dict[str, Job] | None:
    """The definitions of what is due. A job that cannot be read is left; when none can, all that need theirs are, and
    the answer is None."""
    waiting: dict[str, list[LedgerKey]] = {}
    for run in runs:
        if run.work is None:
            waiting.setdefault(run.key.job_id, []).append(run.key)
    for look in looks:
        waiting.setdefault(look.key.job_id, []).append(look.key)
    for retry in retries:
        of = retried.get(retry.run_ref)
        if of is not None and of.work is None:
            waiting.setdefault(of.key.job_id, []).append(retry.key)
    for job_id in [job_id for job_id in waiting if set_aside.job(job_id) in firing.held]:
        for key in waiting.pop(job_id):
            fired.leave(set_aside.job(job_id), key)
    try:
        if set_aside.ALL_JOBS not in firing.held:
            return read_jobs_to_plan(ports, waiting, partial(_leave_unreadable, ports, waiting, fired))
    except WorldError as error:
        ports.signals.count("scheduler.definitions_unread_total")
        ports.signals.log("definitions_unread", jobs=len(waiting), why=repr(error))
        fired.unsent += len(waiting)
    for key in (key for keys in waiting.values() for key in keys):
        fired.leave(set_aside.ALL_JOBS, key)
    return None


def _leave_unreadable(
    ports: Ports, waiting: dict[str, list[LedgerKey]], fired: Fired, job_id: str, error: Unreadable | WorldError
) -> None:
    for key in waiting.pop(job_id):
        leave_job(ports, key, error, fired)


def _to_step(ports: Ports, runs: Sequence[Run], jobs: dict[str, Job], firing: Firing, fired: Fired) -> list[Run]:
    """The occurrences whose chains are to be stepped now."""
    due: list[Run] = []
    for run in runs:
        if run.work is not None:
            continue
        job = jobs.get(run.key.job_id)
        if job is None:
            is_left = set_aside.job(run.key.job_id) in fired.left
            if run.status == lifecycle.PENDING and not is_left:
                fired.set_aside += 1
                _set_aside(ports, f"{run.key.ref}: its job is not in the jobs table")
            continue
        # What its job has not passed is nobody else's to see to, whichever pool the job is in by now.
        moved = job.version > 1 or job.next_key(ports.layout.home) == run.key
        if firing.takes(run.key, job.work, job.group, fired, moved=moved, starts=_may_start(run, job)):
            due.append(run)
    return due


def _may_start(run: Run, job: Job) -> bool:
    """Whether firing an occurrence would start it, as far as pauses go: one that was started, or that somebody has
    skipped, by a pause or alone, is only stepped."""
    return run.status == lifecycle.PENDING and left_out_at(job.pauses, job.skips, run.key.scheduled_at_ms) is None


# --- retries --------------------------------------------------------------------------------------------------


def _runs_of(ports: Ports, retries: Sequence[Retry], fired: Fired) -> dict[str, Run | None]:
    """The runs to retry, by ref; one that cannot be read is left out, and so is set aside with its retry."""
    refs = sorted({retry.run_ref for retry in retries})
    runs: dict[str, Run | None] = {}
    try:
        items = read_many(ports, TIMERS, [parse_ref(ref).as_item() for ref in refs])
    except WorldError as error:
        ports.signals.log("definitions_unread", jobs=len(refs), why=repr(error))
        fired.unsent += len(retries)
        return {}
    for ref, item in zip(refs, items, strict=True):
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
    now_ms, versions = ports.clock.now_ms(), Versions(ports)
    for retry in retries:
        if retry.run_ref not in runs:
            fired.set_aside += 1
            fired.leave(set_aside.job(retry.key.job_id), retry.key)
            continue
        run = runs[retry.run_ref]
        if run is None or run.status != lifecycle.WAITING or run.attempt + 1 != retry.attempt:
            _spend(ports, retry, fired)
            continue
        job = jobs.get(run.key.job_id)
        if run.work is None and job is None and {set_aside.job(run.key.job_id), set_aside.ALL_JOBS} & fired.left.keys():
            continue
        try:
            work = run.work or versions.work_of(job, run)
        except (Unreadable, WorldError) as error:
            leave_job(ports, retry.key, error, fired)
            continue
        if work is None:
            fired.set_aside += 1
            _set_aside(ports, f"{retry.key.ref}: the definition of the run to retry is gone")
            continue
        # A retry goes on with what was started; an attempt that was put off is a start yet.
        moved = job is not None and job.version > 1
        if firing.takes(retry.key, work, run.group, fired, moved=moved, starts=not run.attempt):
            messages.append(ReadyMessage(run.key, work, retry.attempt, now_ms, firing.by, retry_ref=retry.key.ref))
    return messages


def _spend(ports: Ports, retry: Retry, fired: Fired) -> None:
    write = pending.end_pending(
        retry.key, lifecycle.SPEND, "no longer wanted", ports.clock.now_ms(), ports.layout.retention_s
    )
    try:
        commit(ports, write)
    except WorldError:
        fired.unsent += 1
        fired.leave(set_aside.job(retry.key.job_id), retry.key)


def _observe_lag(ports: Ports, messages: Sequence[ReadyMessage]) -> int:
    """The longest, in milliseconds."""
    lags_ms = [max(0, message.dispatched_at_ms - message.due_ms) for message in messages]
    for lag_ms in lags_ms:
        ports.signals.observe("scheduler.fire_lag_seconds", lag_ms / SECOND_MS)
    return max(lags_ms, default=0)


def _set_aside(ports: Ports, why: str) -> None:
    ports.signals.count("scheduler.set_aside_total")
    ports.signals.log("item_set_aside", why=why)
