"""The reconciler: what should be true is checked against the tables every five minutes, repaired, and counted (O1).

- Each active recurring job has its next timer (chain-unbroken). A missing or ended one is replaced, one that has
  fallen behind the cursor is fired.
- A job whose schedule could not be read is tried again; it was never deleted.
- Every second of the ledger is read again some minutes, an hour and a day later: a pending item that was passed is
  sent again, a run whose lease lapsed long ago gets a new message, so that the next start records the loss
  (no-lost-timer).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tickwork.core.dispatch import backlog, slices
from tickwork.core.errors import BadSchedule, Unsent
from tickwork.core.instants import SECOND_MS, iso, second_of
from tickwork.core.jobs import occurrences
from tickwork.core.jobs.definitions import ACTIVE, ERROR, FINISHED, Job
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import BUCKET_S, LedgerKey, bucket_of, partition_of, second_range
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Committed, Delete, Is, Item, Write
from tickwork.core.schedule import replan, schedule_from_spec
from tickwork.flows.dispatch import creating, leasing
from tickwork.flows.dispatch.firing import read_items
from tickwork.flows.dispatch.sending import Sent, send_ready
from tickwork.flows.jobs import registering
from tickwork.flows.ledger import reading
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import pages, read_job, read_job_to_plan, read_status, scan_pages
from tickwork.ports import Ports

JOBS_PAGE = 100
AUDITS = {"audited": 300, "audited_hour": 3_600, "audited_day": 86_400}
"""How long after its second a bucket is read again, by the cursor that says how far that was done. The first is longer
than a window's retries and shorter than anybody's patience; the later ones find what was alive then and died since."""

AUDIT_BUCKETS_MAX = 720
"""Minutes audited in one pass: after an outage of days the audit catches up at 144 times real time."""

LAPSED_FOR_MS = 120_000
"""A running attempt whose lease lapsed this long ago has no message left that would come back by itself."""

_LEDGER_PAGE = 500


@dataclass(slots=True)
class Repairs:
    """What a pass found. `without_next` is the metric `scheduler.definitions_without_next_timer`."""

    jobs_checked: int = 0
    without_next: int = 0
    overdue: int = 0
    unparked: int = 0
    replanned: int = 0
    unsent: int = 0
    audited: int = 0
    resent: int = 0


def reconcile(ports: Ports) -> Repairs:
    """One pass over the definitions and over what the ledger audit has not read yet."""
    repairs = Repairs()
    for items in scan_pages(ports, JOBS, limit=JOBS_PAGE):
        for item in items:
            _check(ports, item, repairs)
    for slice_no in range(ports.layout.slices):
        for cursor in AUDITS:
            _audit(ports, slice_no, cursor, repairs)
    ports.signals.observe("scheduler.definitions_without_next_timer", repairs.without_next)
    ports.signals.log("reconciled", **{name: getattr(repairs, name) for name in Repairs.__slots__})
    if repairs.unsent:
        raise Unsent(f"{repairs.unsent} overdue occurrences could not be sent: the ledger audit finds them")
    return repairs


# --- definitions ----------------------------------------------------------------------------------------------


def _check(ports: Ports, item: Item, repairs: Repairs) -> None:
    repairs.jobs_checked += 1
    try:
        (job,) = reading.with_calendars(ports, [Job.from_item(item)])
        if job.status == ERROR:
            repairs.unparked += _replan(ports, job)
        elif job.status == ACTIVE:
            _check_next(ports, job, repairs)
    except (Unreadable, BadSchedule) as error:
        # One definition must not stop the pass; it is kept as it is, and alarmed.
        ports.signals.count("scheduler.definitions_unreadable")
        ports.signals.log("definition_unreadable", job_id=str(item.get("job_id")), why=str(error))


def _check_next(ports: Ports, job: Job, repairs: Repairs) -> None:
    key = job.next_key(ports.layout.cell)
    standing = None if key is None else read_status(ports, key)
    if key is None or standing != lifecycle.PENDING:
        repairs.without_next += _replace_next(ports, job)
    elif _is_overdue(ports, key):
        repairs.overdue += 1
        ports.signals.log("timer_overdue", ref=key.ref)
        try:
            creating.follow_up(ports, [key], by="reconciler")
        except Unsent as error:  # the other definitions first; then the pass ends as failed
            repairs.unsent += 1
            ports.signals.log("overdue_unsent", ref=key.ref, why=str(error))
    elif job.planned_with != occurrences.planned_with(job):
        repairs.replanned += _plan_anew(ports, job, key)


def _replace_next(ports: Ports, read: Job) -> int:
    """1 when the job (read again, consistently: the scan may be behind) has no pending next item."""
    job = read_job_to_plan(ports, read.job_id)
    if job is None:
        return 0
    key = job.next_key(ports.layout.cell)
    standing = None if key is None else read_status(ports, key)
    if job.status != ACTIVE or standing == lifecycle.PENDING:
        return 0
    ports.signals.log("next_timer_missing", job_id=job.job_id, found=standing or "nothing")
    # An item that has vanished is put back where it was, also when that is overdue: late beats lost. One that has
    # ended was fired; the chain goes on after it.
    if key is not None and standing is None:
        _put_next(ports, job, replace(job, next=job.next))
    else:
        passed_ms = max(job.fired_through_ms, job.next.scheduled_at_ms if job.next else 0)
        _replan(ports, replace(job, fired_through_ms=passed_ms))
    return 1


def _plan_anew(ports: Ports, job: Job, pending: LedgerKey) -> int:
    """Zone data or a calendar has changed since the pending occurrence was planned: 1 when it was moved or dropped.

    The old item is removed in the transaction that puts the new one; what is due already is kept, for it may be on
    its way.
    """
    decision = replan(
        schedule_from_spec(job.schedule),
        pending.scheduled_at_ms,
        ports.clock.now_ms(),
        last_scheduled_at_ms=job.fired_through_ms or None,
        since_ms=max(job.created_at_ms, job.scheduled_since_ms),
        calendars=job.calendars,
    )
    upcoming = None
    if decision.scheduled_at_ms is not None:
        upcoming = occurrences.following(job, decision.scheduled_at_ms - 1, ports.layout.shards)
    # What keeps its nominal time may have to be fired at another: a freeze begins sooner than it did.
    if decision.action == "keep" and (decision.is_due or upcoming == job.next):
        commit(ports, registering.replanned(job, job.next))
        return 0
    ports.signals.log(
        "replanned",
        job_id=job.job_id,
        planned_with=occurrences.planned_with(job),
        before=iso(pending.scheduled_at_ms),
        after=upcoming and iso(upcoming.scheduled_at_ms),
    )
    removal = Delete(TIMERS, pending.as_item(), Is("status", lifecycle.PENDING))
    return _put_next(ports, job, replace(job, next=upcoming), removal)


def _replan(ports: Ports, job: Job) -> int:
    """Give the job its first occurrence from now on; 1 when it has one again."""
    upcoming = registering.first_occurrence(job, ports.clock.now_ms(), ports.layout.shards)
    return _put_next(ports, job, replace(job, next=upcoming))


def _put_next(ports: Ports, job: Job, planned: Job, *also: Write) -> int:
    key = planned.next_key(ports.layout.cell)
    update = registering.replanned(job, planned.next)
    if key is None:
        finished = replace(update, set={**update.set, "status": FINISHED})
        return 1 if isinstance(commit(ports, finished, *also), Committed) else 0
    creating.prepare_slices(ports, [key])
    result = commit(ports, update, occurrences.materialise(planned, key, ports.clock.now_ms()), *also)
    if not isinstance(result, Committed) and not _is_next(ports, planned):
        return 0  # somebody changed the job meanwhile; the next pass looks again
    creating.follow_up(ports, [key], by="reconciler")
    return 1


def _is_next(ports: Ports, planned: Job) -> bool:
    """Whether a refused plan stands all the same: our own first try, its reply lost, has written it."""
    standing = read_job(ports, planned.job_id)
    return standing is not None and (standing.version, standing.next) == (planned.version, planned.next)


def _is_overdue(ports: Ports, key: LedgerKey) -> bool:
    if key.fire_at_ms > ports.clock.now_ms():
        return False
    lease = leasing.read_lease(ports, ports.layout.slice_of(key.shard))
    return lease is not None and backlog.has_passed(lease, key)


# --- ledger audit ---------------------------------------------------------------------------------------------


def _audit(ports: Ports, slice_no: int, cursor: str, repairs: Repairs) -> None:
    lease = leasing.read_lease(ports, slice_no)
    if lease is None:
        return
    last = min(second_of(ports.clock.now_ms()) - AUDITS[cursor], backlog.passed_through(lease))
    first = getattr(lease, cursor) + 1
    last = min(last, first + AUDIT_BUCKETS_MAX * BUCKET_S)
    if last < first:
        return  # a pass that comes twice finds nothing new, and the store refuses a range that ends before it begins
    for bucket in range(bucket_of(first), bucket_of(last) + 1):
        begin, end = max(first, bucket * BUCKET_S), min(last, bucket * BUCKET_S + BUCKET_S - 1)
        partitions = [partition_of(ports.layout.cell, shard, bucket) for shard in ports.layout.shards_of(slice_no)]
        if not all(_audit_range(ports, partition, begin, end, repairs) for partition in partitions):
            last = begin - 1  # the queue took nothing: this bucket is the next pass's to repair
            break
    if last >= first:
        commit(ports, slices.audit_done(lease, cursor, last))


def _audit_range(ports: Ports, partition: str, begin: int, end: int, repairs: Repairs) -> bool:
    """Read a range again and repair it; False when something is to be sent again and could not be."""
    low, high = second_range(begin, end)
    for page in pages(ports, TIMERS, partition, low, high, limit=_LEDGER_PAGE):
        repairs.audited += len(page.items)
        fired = creating.fire_overdue(ports, read_items(ports, page.items), "audit")
        woken = _wake_lapsed(ports, [item for item in page.items if _has_lapsed(ports, item)])
        repairs.resent += fired.sent + woken.sent
        if fired.unsent or woken.unsent:
            return False
    return True


def _has_lapsed(ports: Ports, item: Item) -> bool:
    return (
        item.get("status") == lifecycle.RUNNING and item.get("lease_until_ms", 0) + LAPSED_FOR_MS < ports.clock.now_ms()
    )


def _wake_lapsed(ports: Ports, items: list[Item]) -> Sent:
    """Send a run whose worker and message are both gone again: its start records the attempt as lost."""
    messages = []
    for item in items:
        try:
            run = Run.from_item(item)
            work = reading.work_of(ports, run)
        except Unreadable as error:
            # One item must not stop the audit of all that come after it.
            ports.signals.count("scheduler.set_aside_total")
            ports.signals.log("item_set_aside", why=str(error))
            continue
        if work is not None:
            messages.append(ReadyMessage(run.key, work, run.attempt + 1, ports.clock.now_ms(), "audit"))
    return send_ready(ports, messages)


def lag_s(ports: Ports, slice_no: int) -> float:
    """How far a slice's cursor is behind the wall clock, in seconds."""
    lease = leasing.read_lease(ports, slice_no)
    return 0.0 if lease is None else max(0, ports.clock.now_ms() - lease.done * SECOND_MS) / SECOND_MS
