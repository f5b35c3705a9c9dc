"""By when the next success of a job must have come (O2).

Owns that instant. Refuses to know the store, and what is done when it has passed. Protects: nobody is told of a job of
which nothing was to come; a pause that has an end stops the clock, and one without an end does not; what cannot be
worked out any more falls back on what was known when the deadline was put.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwork.core.errors import BadSchedule
from tickwork.core.instants import SECOND_MS, iso
from tickwork.core.jobs import contracts
from tickwork.core.jobs.contracts import Contract
from tickwork.core.jobs.definitions import CANCELLED, DELETED, FINISHED, Job
from tickwork.core.jobs.pauses import Pause, pause_in_force
from tickwork.core.ledger import lifecycle
from tickwork.core.schedule import next_after, schedule_from_spec

MISSED_MAX = 1_000
"""Of occurrences that are counted."""


@dataclass(frozen=True, slots=True)
class Expected:
    """That a success must come by an instant. `since_ms`: when the silence began."""

    since_ms: int
    by_ms: int
    silence_s: int

    def is_missed(self, now_ms: int) -> bool:
        return now_ms >= self.by_ms


def last_success_ms(job: Job) -> int:
    """When a scheduled run of it last succeeded; 0: it is not known to have. A version that did not note it has left
    the last run of all."""
    is_last = job.last is not None and job.last["status"] == lifecycle.SUCCEEDED
    return max(job.last_success_at_ms, job.last["ended_at_ms"] if job.last is not None and is_last else 0)


def began_ms(job: Job) -> int:
    """Since when its present schedule is in force, and its switch is on."""
    return max(job.created_at_ms, job.scheduled_since_ms, job.watched_since_ms)


def expected(job: Job, contract: Contract, pauses: Sequence[Pause], known_s: int, seen_ms: int = 0) -> Expected | None:
    """By when the job, whose calendars have been read, must succeed; None where nobody waits for it. `pauses`: its own
    and those of what it lies in; `known_s`: what its last deadline was put by; `seen_ms`: a success that the ledger
    has and the job has not."""
    if job.status in (DELETED, CANCELLED) or not contract.is_watched:
        return None
    success_ms = max(last_success_ms(job), seen_ms)
    if job.status == FINISHED and success_ms and _was_last(job):
        return None
    since_ms = max(success_ms, began_ms(job))
    try:
        since_ms, silence_s = _by_schedule(job, contract, since_ms, known_s)
    except BadSchedule:
        silence_s = contract.max_silence_s or known_s or contracts.MAX_SILENCE_S_MIN
    by_ms = since_ms + silence_s * SECOND_MS
    return Expected(since_ms, by_ms + paused_ms(pauses, since_ms, by_ms), silence_s)


def _was_last(job: Job) -> bool:
    """Whether the last occurrence that there was has succeeded."""
    return job.last is not None and job.last["status"] == lifecycle.SUCCEEDED


def _by_schedule(job: Job, contract: Contract, since_ms: int, known_s: int) -> tuple[int, int]:
    """(from when it is waited for, for how long). Nothing is waited for before it is due: what is due for the first
    time in a year, or once only, is waited for from then on."""
    gap_s = contracts.gap_s(job, since_ms)
    first_ms = next_after(schedule_from_spec(job.schedule), since_ms, job.calendars)
    silence_s = contract.max_silence_s or contracts.usual_silence_s(job, gap_s)
    if first_ms is None:  # its calendars exclude all that is to come, or it is over
        return since_ms, max(silence_s, known_s) if job.status != FINISHED else silence_s
    return max(since_ms, first_ms - gap_s * SECOND_MS), silence_s


def paused_ms(pauses: Sequence[Pause], since_ms: int, by_ms: int) -> int:
    """For how long pauses with an end have stopped the clock since then: each moves the deadline, and so may bring
    the next one into the time."""
    moved_ms, over_ms = 0, since_ms
    for pause in sorted((one for one in pauses if one.until_ms), key=lambda one: one.from_ms):
        from_ms = max(pause.from_ms, over_ms)
        if from_ms < by_ms + moved_ms and pause.until_ms > from_ms:
            moved_ms += pause.until_ms - from_ms
            over_ms = pause.until_ms
    return moved_ms


def missed_count(job: Job, since_ms: int, until_ms: int) -> int:
    """How many occurrences the schedule has after one instant and before another, up to `MISSED_MAX`; 0 where it cannot
    be read."""
    count = 0
    try:
        schedule, at_ms = schedule_from_spec(job.schedule), since_ms
        while count < MISSED_MAX:
            found = next_after(schedule, at_ms, job.calendars)
            if found is None or found >= until_ms:
                break
            count, at_ms = count + 1, found
    except BadSchedule:
        return 0
    return count


def why(job: Job, pauses: Sequence[Pause], now_ms: int) -> str:
    """What stands in the way of a success, as far as the definition says it."""
    pause = pause_in_force(pauses, now_ms)
    if pause is not None:
        return f"it is paused by {pause.by}: {pause.reason}"
    if job.reason:
        return f"it is {job.status}: {job.reason}"
    if job.last is None:
        return "no run of it has ended"
    return f"its last run, due {iso(job.last['scheduled_at_ms'])}, ended as {job.last['status']}"
