"""What becomes of the oldest run that waits until its job is free: it goes on waiting, is dispatched, or is dropped.

Protects that nothing overlaps and nothing is overtaken (each write compares the whole of what the job says), and that
nothing starts where its schedule starts nothing: not where it is excluded or over, not in a pause, not later than the
job's catch-up policy or its own deadline has it. What is dropped is a recorded skip. Decision 147.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tickwork.core.dispatch import buffering
from tickwork.core.dispatch.chain import TOO_LATE
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs import overlap
from tickwork.core.jobs.changes import as_read
from tickwork.core.jobs.definitions import DELETED, Job
from tickwork.core.jobs.overlap import (
    BUFFER_ALL,
    BUFFER_NAMES,
    CANCEL_OTHER,
    OVERLAP,
    REPLACED,
    WAITED_TOO_LONG,
    Buffer,
    Holder,
    Holding,
)
from tickwork.core.jobs.pauses import skipping_at
from tickwork.core.ledger import deadlines, lifecycle
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.pending import end_buffered
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Is, Item, Update, Write, all_of
from tickwork.core.schedule import Schedule, schedule_from_spec, why_nothing_starts

RELEASE, DROP, FORGET = "release", "drop", "forget"
"""It is dispatched; it ends; it has ended already, or is gone, and only its job still names it."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is to become of the oldest that waits. `event` and `reason`: how it ends that is dropped."""

    does: str
    event: str = ""
    reason: str = ""


def head_of(job: Job, run: Run | None, holding: Holding | None, now_ms: int) -> Head | None:
    """What is due to `run`, the oldest that waits; None: it waits on. `holding`: None where runs may overlap, and then
    nobody holds it up. BadSchedule where what the schedule excludes cannot be read."""
    if run is None or run.status != lifecycle.BUFFERED:
        return Head(FORGET)
    if job.status == DELETED:
        return Head(DROP, lifecycle.CANCEL, "the job was deleted")
    if not job.may_overlap and not job.buffered_max:
        return Head(DROP, lifecycle.SKIP, OVERLAP)
    if why := _too_late(job, run, now_ms):
        return Head(DROP, lifecycle.SKIP, why)
    if job.overlap == CANCEL_OTHER and job.buffer is not None and job.buffer.count > 1:
        return Head(DROP, lifecycle.SKIP, REPLACED)
    if holding is not None and holding.by is not None:
        return None
    why = _not_now(job, run, now_ms)
    return Head(DROP, lifecycle.SKIP, why) if why else Head(RELEASE)


def _too_late(job: Job, run: Run, now_ms: int) -> str:
    """Why it can start no more, whoever may end."""
    bound_s = job.catch_up.max_lateness_s
    if bound_s and now_ms - run.key.fire_at_ms > bound_s * SECOND_MS:
        return TOO_LATE
    if job.overlap == BUFFER_ALL and job.buffer_age_s and now_ms - run.key.fire_at_ms > job.buffer_age_s * SECOND_MS:
        return WAITED_TOO_LONG
    return deadlines.why_too_late(run) if deadlines.is_too_late(run, now_ms) else ""


def _not_now(job: Job, run: Run, now_ms: int) -> str:
    """Why it may not start at this moment, when its job is free. What somebody has asked for is not the schedule's, and
    leaves a pause as it was; a freeze that is hard its start sees to."""
    if run.key.kind:
        return ""
    pause = skipping_at(job.pauses, now_ms)  # any other has it wait at its start
    if pause is not None:
        return pause.skip_reason
    schedule: Schedule = schedule_from_spec(job.schedule)
    return why_nothing_starts(schedule, run.key.scheduled_at_ms, now_ms, job.calendars)


def head_writes(job: Job, run: Run | None, head: Head, now_ms: int, retention_s: int) -> tuple[Write, ...]:
    """The transaction that carries it out: the job as it was read, without its oldest; that one; and the look at the
    one which is then the oldest."""
    assert job.buffer is not None
    rest = _rest(job.buffer, run)
    changes: Item = overlap.buffered(rest)
    if head.does == RELEASE and not job.may_overlap:
        changes |= overlap.written((Holder(job.buffer.first),))
        changes |= {"held_through_ms": job.fired_through_ms} if job.fired_through_ms else {}
    remove = () if rest else BUFFER_NAMES
    unmoved = all_of(as_read(job), *overlap.as_read(job.holders, job.held_through_ms, job.buffer))
    writes: list[Write] = [Update(JOBS, job.key(), unmoved, set=changes, remove=remove)]
    if head.does == RELEASE:
        writes.append(_released(job.buffer.first, now_ms))
    elif head.reason == REPLACED:
        writes.append(buffering.end_replaced(job.buffer.first, job.buffer.last, now_ms, retention_s))
    elif head.does == DROP:
        writes.append(end_buffered(job.buffer.first, head.event, head.reason, now_ms, retention_s))
    if rest is not None:
        writes.append(buffering.look_at(rest.first, now_ms))
    return tuple(writes)


def _released(key: LedgerKey, now_ms: int) -> Update:
    """It is what it was before it had to wait: due, and passed by its chain. Whoever meets it sends it."""
    status = lifecycle.after(lifecycle.BUFFERED, lifecycle.RELEASE)
    changes = {"status": status, "released_at_ms": now_ms}
    return Update(TIMERS, key.as_item(), Is("status", lifecycle.BUFFERED), set=changes, remove=("reason",))


def _rest(buffer: Buffer, run: Run | None) -> Buffer | None:
    """What waits behind the oldest. Where the record is gone that would say who is next, the last of them is."""
    if buffer.count <= 1:
        return None
    if run is None or not run.behind:
        return Buffer(buffer.last, buffer.last)
    return replace(buffer, first=parse_ref(run.behind), count=buffer.count - 1)
