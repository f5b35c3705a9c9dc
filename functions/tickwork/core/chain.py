"""The chain of a recurring job: what becomes of the occurrence that is due, and which one is next.

Protects chain-unbroken, one-run and every-end-recorded. The next item is written in the same transaction that
moves the job's `next` (a compare-and-set), before the current one is passed: a crash anywhere repeats, never skips.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.core import lifecycle
from tickwork.core.ids import shard_of
from tickwork.core.instants import LATEST_INSTANT_MS, SECOND_MS
from tickwork.core.keys import LedgerKey
from tickwork.core.pauses import pause_at
from tickwork.core.records import ACTIVE, FINISHED, CatchUp, Job, Next, Run, next_attributes
from tickwork.core.schedule import TZDATA_VERSION, fire_at_ms, next_after, schedule_from_spec
from tickwork.core.tables import JOBS, TIMERS
from tickwork.core.writes import Absent, AllOf, Is, Missing, Put, Update, Write, all_of, any_of

OUTAGE_AFTER_MS = 60_000
"""An occurrence later than this was missed in an outage, and the job's catch-up policy decides. Up to here it is
only late, and fires: otherwise a job of every second would lose runs to each small lag."""

SKIPS_PER_STEP_MAX = 40
"""Missed occurrences recorded by one transaction (of at most 100 writes); a longer outage takes more steps."""

LAST_N_MAX = 100

SKIPPED_OUTAGE = "skipped_outage"
TOO_LATE = "too_late"

UNSTARTED = any_of(
    Absent(), all_of(Is("status", lifecycle.CANCELLED), Missing("attempt")), Is("status", lifecycle.PENDING)
)
"""An occurrence may be materialised where there is none, or over one that was cancelled and never started."""


@dataclass(frozen=True, slots=True)
class Skipped:
    at: Next
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step along the chain: the occurrences that are skipped (the due one first), whether the due one fires,
    and the one that is pending afterwards (None: the schedule is exhausted)."""

    fires: bool
    skipped: tuple[Skipped, ...]
    next: Next | None


def following(job: Job, after_scheduled_ms: int, shards: int) -> Next | None:
    """The occurrence after a nominal instant, with its jittered fire time and the shard it belongs to.

    Raises BadSchedule when the stored schedule can not be read.
    """
    schedule = schedule_from_spec(job.schedule)
    if schedule.is_recurring:
        # What was kept from before a change is not followed by what the new schedule never had.
        after_scheduled_ms = max(after_scheduled_ms, job.scheduled_since_ms)
    scheduled_at_ms = next_after(schedule, after_scheduled_ms, job.calendars)
    if scheduled_at_ms is None or scheduled_at_ms >= LATEST_INSTANT_MS:
        return None
    fires_at_ms = scheduled_at_ms
    if job.tolerance_s:
        beyond = next_after(schedule, scheduled_at_ms, job.calendars)
        fires_at_ms = fire_at_ms(job.job_id, scheduled_at_ms, job.tolerance_s, beyond)
    return Next(scheduled_at_ms, fires_at_ms, shard_of(job.job_id, shards))


def named_calendars(job: Job) -> list[str]:
    """The ids of the calendars that the job's schedule excludes by: `name` is one of the job's own team."""
    named = job.schedule.get("calendars")
    return list(named["exclude"]) if named else []


def planned_with(job: Job) -> str:
    """What the job's occurrences are computed from beside its schedule: zone data, and versions of calendars."""
    versions = [f"{name}@{calendar.version}" for name, calendar in sorted(job.calendars.items())]
    return " ".join([TZDATA_VERSION, *versions])


def plan_step(job: Job, due: Next, now_ms: int, shards: int) -> Step:
    """What becomes of `due`: fire it; or skip it, and those after it that are due too, because the job was paused then
    or because its catch-up policy says so."""
    is_late = now_ms - due.fire_at_ms > OUTAGE_AFTER_MS
    skipped: list[Skipped] = []
    current: Next | None = due
    while current is not None and len(skipped) < SKIPS_PER_STEP_MAX and (not skipped or current.fire_at_ms <= now_ms):
        pause = pause_at(job.pauses, current.scheduled_at_ms)
        if pause is not None:
            reason: str | None = pause.skip_reason
        else:
            reason = _why_skip(job, current, now_ms, shards) if is_late else None
        if reason is None:
            break
        skipped.append(Skipped(current, reason))
        current = following(job, current.scheduled_at_ms, shards)
    if not skipped:
        return Step(True, (), following(job, due.scheduled_at_ms, shards))
    return Step(False, tuple(skipped), current)


def _why_skip(job: Job, missed: Next, now_ms: int, shards: int) -> str | None:
    policy: CatchUp = job.catch_up
    if policy.max_lateness_s and now_ms - missed.fire_at_ms > policy.max_lateness_s * SECOND_MS:
        return TOO_LATE
    if policy.policy == "all":
        return None
    if policy.policy == "none":
        return SKIPPED_OUTAGE
    newest = 1 if policy.policy == "latest" else policy.last
    return SKIPPED_OUTAGE if _has_due_successors(job, missed, newest, now_ms, shards) else None


def _has_due_successors(job: Job, missed: Next, count: int, now_ms: int, shards: int) -> bool:
    current = missed
    for _ in range(min(count, LAST_N_MAX)):
        successor = _following_unpaused(job, current, shards)
        if successor is None or successor.fire_at_ms > now_ms:
            return False
        current = successor
    return True


def _following_unpaused(job: Job, current: Next, shards: int) -> Next | None:
    """The occurrence after one, leaving out those that a pause covers: each pause is stepped over at once."""
    successor = following(job, current.scheduled_at_ms, shards)
    while successor is not None and (pause := pause_at(job.pauses, successor.scheduled_at_ms)) is not None:
        if not pause.until_ms:
            return None
        successor = following(job, pause.until_ms - 1, shards)
    return successor


def step_writes(job: Job, due: LedgerKey, step: Step, now_ms: int, retention_s: int) -> tuple[Write, ...]:
    """The transaction of a step: the job's `next` (compare-and-set), the records of what is skipped, the next item."""
    passed = step.skipped[-1].at.scheduled_at_ms if step.skipped else due.scheduled_at_ms
    changes = next_attributes(step.next) | {"fired_through_ms": passed, "planned_with": planned_with(job)}
    if step.next is None:
        changes["status"] = FINISHED
    writes: list[Write] = [Update(JOBS, job.key(), chain_unmoved(job, due), set=changes)]
    for skipped in step.skipped:
        key = job.occurrence_key(due.cell, skipped.at)
        if key == due:
            writes.append(end_pending(key, lifecycle.SKIP, skipped.reason, now_ms, retention_s))
        else:
            record = Run(key, lifecycle.SKIPPED, ended_at_ms=now_ms, reason=skipped.reason).to_item()
            record["expires_at_s"] = now_ms // SECOND_MS + retention_s
            writes.append(Put(TIMERS, record, UNSTARTED))
    if step.next is not None:
        writes.append(materialise(job, job.occurrence_key(due.cell, step.next), now_ms))
    return tuple(writes)


def cancel_next(
    job: Job, due: LedgerKey, following_next: Next | None, reason: str, now_ms: int, retention_s: int
) -> tuple[Write, ...]:
    """The transaction that cancels a job's pending occurrence and moves its chain on (chain-unbroken)."""
    changes = next_attributes(following_next) | {"fired_through_ms": due.scheduled_at_ms}
    if following_next is None:
        changes["status"] = FINISHED
    move = Update(JOBS, job.key(), chain_unmoved(job, due), set=changes)
    cancel = end_pending(due, lifecycle.CANCEL, reason, now_ms, retention_s)
    if following_next is None:
        return move, cancel
    return move, cancel, materialise(job, job.occurrence_key(due.cell, following_next), now_ms)


def chain_unmoved(job: Job, due: LedgerKey) -> AllOf:
    """The job is as it was read, and the occurrence is still its next."""
    return all_of(
        Is("version", job.version),
        Is("status", ACTIVE),
        Is("next_scheduled_at_ms", due.scheduled_at_ms),
        Is("next_fire_at_ms", due.fire_at_ms),
    )


def materialise(job: Job, key: LedgerKey, now_ms: int) -> Put:
    """The pending item of a recurring job's occurrence. It has no time to live while it is pending.

    It carries whether the definition limits its start: a change of the job that adds a limit writes its pending
    item anew.
    """
    return Put(TIMERS, Run(key, created_at_ms=now_ms, guarded=job.work.is_guarded).to_item(), UNSTARTED)


def end_pending(key: LedgerKey, event: str, reason: str, now_ms: int, retention_s: int) -> Update:
    """End an item that has not started: skip, cancel or spend it."""
    return Update(
        TIMERS,
        key.as_item(),
        Is("status", lifecycle.PENDING),
        set={
            "status": lifecycle.after(lifecycle.PENDING, event),
            "reason": reason,
            "ended_at_ms": now_ms,
            "expires_at_s": now_ms // SECOND_MS + retention_s,
        },
    )
