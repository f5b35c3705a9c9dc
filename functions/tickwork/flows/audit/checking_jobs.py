"""The walk over the definitions: each active recurring job has its next timer (chain-unbroken). A missing or ended one
is replaced, one that has fallen behind the cursor is fired, one that was planned with other zone data or calendars is
planned anew. A job whose schedule could not be read is tried again; it was never deleted.

A page of definitions costs one scan and one batch read of their next items. The walk keeps its place when its time is
up, and after each two thousand definitions, should the function die.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tickwork.core.audit import passes
from tickwork.core.dispatch import backlog, set_aside
from tickwork.core.dispatch.set_aside import SetAside
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import BadSchedule, Unsent, WorldError
from tickwork.core.instants import iso
from tickwork.core.jobs import occurrences
from tickwork.core.jobs.definitions import ACTIVE, ERROR, Job
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, PASSES, TIMERS
from tickwork.core.ledger.writes import Committed, Delete, Is, Item, Update, Write
from tickwork.core.schedule import replan, schedule_from_spec
from tickwork.flows.access import registry
from tickwork.flows.audit.repairs import Deadline, Repairs
from tickwork.flows.dispatch import creating, leasing
from tickwork.flows.jobs import registering, switches
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import (
    calendars_changed_ms,
    read_job,
    read_job_to_plan,
    read_many,
    read_status,
    to_plan,
)
from tickwork.ports import Ports

JOBS_PAGE = 100
"""As many next items as one batch read takes."""

PAGES_PER_PLACE = 20
"""Two thousand definitions are some seconds of work: a walk that dies repeats no more."""

FAILURES_MAX = 20
"""Definitions that a busy store fails in one run, each after seconds of patience: beyond it, the walk makes way."""

ROUNDS_MAX = 2
"""A walk that began in the middle goes on from the beginning, once."""


def check_jobs(ports: Ports, repairs: Repairs, end: Deadline) -> None:
    """Walk from where the last run stopped, to the end and once from the beginning, until time is up."""
    kept = ports.store.get(PASSES, passes.walk_key(ports.layout.home))
    began: Item | None = kept["after"] if kept else None
    position, failed_before = began, repairs.failed
    for _ in range(ROUNDS_MAX if began else 1):
        pages = 0
        while True:
            items, position = ports.store.scan(JOBS, limit=JOBS_PAGE, after=position)
            _check_page(ports, items, repairs)
            pages += 1
            if position is None:
                break
            if end.is_over or repairs.failed - failed_before >= FAILURES_MAX:
                repairs.unfinished += 1
                commit(ports, passes.put_place(ports.layout.home, position))
                return
            if pages % PAGES_PER_PLACE == 0:
                commit(ports, passes.put_place(ports.layout.home, position))
                kept = position
        if end.is_over:
            break
    if kept:
        commit(ports, passes.forget_place(ports.layout.home))


def _check_page(ports: Ports, items: list[Item], repairs: Repairs) -> None:
    repairs.jobs_checked += len(items)
    jobs = [job for item in items if (job := _read(ports, item)) is not None]
    registry.note_unregistered(ports, {job.team for job in jobs if job.status == ACTIVE})
    keys = [key for job in jobs if job.status == ACTIVE and (key := job.next_key(ports.layout.home)) is not None]
    found = read_many(ports, TIMERS, [key.as_item() for key in keys])
    standing = {key: str(item["status"]) for key, item in zip(keys, found, strict=True) if item is not None}
    leases = Leases(ports)
    for job in jobs:
        key = job.next_key(ports.layout.home)
        _check(ports, job, standing.get(key) if key else None, leases, repairs)


def _read(ports: Ports, item: Item) -> Job | None:
    try:
        return Job.from_item(item)
    except Unreadable as error:
        _unreadable(ports, str(item.get("job_id")), error)
        return None


def _unreadable(ports: Ports, job_id: str, error: Exception) -> None:
    """One definition must not stop the walk; it is kept as it is, and alarmed."""
    ports.signals.count("scheduler.definitions_unreadable")
    ports.signals.log("definition_unreadable", job_id=job_id, why=str(error))


def _check(ports: Ports, job: Job, standing: str | None, leases: Leases, repairs: Repairs) -> None:
    try:
        if job.status == ERROR:
            repairs.unparked += _replan(ports, to_plan(ports, job))
        elif job.status == ACTIVE:
            _check_next(ports, to_plan(ports, job), standing, leases, repairs)
            switches.enrol(ports, job)
    except (Unreadable, BadSchedule) as error:
        _unreadable(ports, job.job_id, error)
    except WorldError as error:
        repairs.failed += 1
        ports.signals.log("definition_not_checked", job_id=job.job_id, error=repr(error))


@dataclass(slots=True)
class Leases:
    """The leases of slices for as long as a page takes: a herd's overdue items would read the same one each."""

    ports: Ports
    read: dict[tuple[str, int], SliceLease | None] = field(default_factory=dict)
    rows: dict[tuple[str, int], tuple[SetAside, ...]] = field(default_factory=dict)
    """What windows have set aside, of the slices that have such rows."""

    def has_passed(self, key: LedgerKey) -> bool:
        """Whether a pending item is overdue: its slice's cursors have passed it."""
        if key.fire_at_ms > self.ports.clock.now_ms():
            return False
        ports = self.ports.in_cell(key.cell)
        place = (key.cell, ports.layout.slice_of(key.shard))
        if place not in self.read:
            self.read[place] = leasing.read_lease(ports, place[1])
        lease = self.read[place]
        if lease is None or not backlog.has_passed(lease, key):
            return False
        if lease.aside_s and place not in self.rows:
            self.rows[place] = tuple(leasing.read_aside(ports, lease.slice).values())
        return not set_aside.any_covers(self.rows.get(place, ()), key)


def _check_next(ports: Ports, job: Job, standing: str | None, leases: Leases, repairs: Repairs) -> None:
    key = job.next_key(ports.layout.home)
    if key is None or standing != lifecycle.PENDING:
        repairs.without_next += _replace_next(ports, job)
    elif leases.has_passed(key):
        repairs.overdue += 1
        ports.signals.count("scheduler.overdue_total")
        ports.signals.log("timer_overdue", ref=key.ref)
        try:
            creating.follow_up(ports, [key], by="reconciler")
        except Unsent as error:  # the ledger audit tries again; the other definitions go on
            repairs.unsent += 1
            ports.signals.log("overdue_unsent", ref=key.ref, why=str(error))
    elif job.planned_with != occurrences.planned_with(job):
        repairs.replanned += _plan_anew(ports, job, key)


def _replace_next(ports: Ports, read: Job) -> int:
    """1 when the job (read again, consistently: the scan may be behind) had no pending next item, and has one again, or
    is known to be finished. 0 where somebody has moved it meanwhile: it was just being fired."""
    job = read_job_to_plan(ports, read.job_id)
    if job is None:
        return 0
    key = job.next_key(ports.layout.home)
    standing = None if key is None else read_status(ports, key)
    if job.status != ACTIVE or standing == lifecycle.PENDING:
        return 0
    ports.signals.log("next_timer_missing", job_id=job.job_id, found=standing or "nothing")
    # An item that has vanished is put back where it was, also when that is overdue: late beats lost. One that has
    # ended was fired; the chain goes on after it.
    if key is not None and standing is None:
        return _put_next(ports, job, replace(job, next=job.next))
    passed_ms = max(job.fired_through_ms, job.next.scheduled_at_ms if job.next else 0)
    return _replan(ports, replace(job, fired_through_ms=passed_ms))


def _plan_anew(ports: Ports, job: Job, pending: LedgerKey) -> int:
    """Zone data or a calendar has changed since the pending occurrence was planned: 1 when it was moved or dropped.

    The old item is removed in the transaction that puts the new one; what is due already is kept, for it may be on
    its way.
    """
    decision = replan(
        schedule_from_spec(job.schedule),
        pending.scheduled_at_ms,
        ports.clock.now_ms(),
        last_scheduled_at_ms=_passed_before(job, pending) or None,
        since_ms=max(job.created_at_ms, job.scheduled_since_ms),
        recalled_ms=calendars_changed_ms(ports, job, occurrences.calendars_since(job)),
        calendars=job.calendars,
    )
    upcoming = None
    if decision.scheduled_at_ms is not None:
        upcoming = occurrences.following(job, decision.scheduled_at_ms - 1, ports.layout.shards)
    # What keeps its nominal time may have to be fired at another: a freeze begins sooner than it did.
    if decision.action == "keep" and (decision.is_due or upcoming == job.next):
        marked = [occurrences.mark_hard(pending)] if job.is_hard else []
        commit(ports, registering.replanned(job, job.next), *marked)
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


def _passed_before(job: Job, pending: LedgerKey) -> int:
    """The nominal instant that came before a pending one: it was fired, or was cancelled ahead of its time."""
    return max([job.fired_through_ms, *(at_ms for at_ms in job.cancelled if at_ms < pending.scheduled_at_ms)])


def _replan(ports: Ports, job: Job) -> int:
    """Give the job the occurrence after the last that it has passed; 1 when it has one again. What was due meanwhile is
    late, or missed in an outage, and its policies say what becomes of it (F8); what a calendar left out is neither."""
    if job.fired_through_ms:
        left_out_ms = 0
        if job.reason == occurrences.ALL_EXCLUDED and schedule_from_spec(job.schedule).leaves_out:
            left_out_ms = calendars_changed_ms(ports, job, occurrences.calendars_since(job))
        upcoming = occurrences.following(job, max(job.fired_through_ms, left_out_ms), ports.layout.shards)
    else:
        upcoming = registering.first_occurrence(job, ports.clock.now_ms(), ports.layout.shards)
    return _put_next(ports, job, replace(job, next=upcoming))


def _put_next(ports: Ports, job: Job, planned: Job, *also: Write) -> int:
    key = planned.next_key(ports.layout.home)
    update = registering.replanned(job, planned.next)
    if key is None:
        return _end(ports, job, update, *also)
    creating.prepare_slices(ports, [key])
    result = commit(ports, update, occurrences.materialise(planned, key, ports.clock.now_ms()), *also)
    if not isinstance(result, Committed) and not _is_next(ports, planned):
        return 0  # somebody changed the job meanwhile; the next pass looks again
    creating.follow_up(ports, [key], by="reconciler")
    return 1


def _end(ports: Ports, job: Job, update: Update, *also: Write) -> int:
    """Nothing is to come: 1 when that is written. One that waits for its calendars goes on waiting."""
    ended = occurrences.ended_attributes(job, job.fired_through_ms)
    if (job.status, job.reason) == (ended["status"], ended.get("reason")):
        return 0
    remove = tuple(name for name in update.remove if name not in ended)
    result = commit(ports, replace(update, set={**update.set, **ended}, remove=remove), *also)
    if ended["status"] == ERROR:
        ports.signals.count("scheduler.jobs_parked_total")
        ports.signals.log("job_parked", job_id=job.job_id, why=ended["reason"])
    return int(isinstance(result, Committed))


def _is_next(ports: Ports, planned: Job) -> bool:
    """Whether a refused plan stands all the same: our own first try, its reply lost, has written it. Somebody may have
    changed the job since, and left its next where it is: its item is ours to see to."""
    standing = read_job(ports, planned.job_id)
    return standing is not None and standing.next == planned.next
