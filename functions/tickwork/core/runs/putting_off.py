"""Putting a start off to the end of a freeze: what a calendar with `hard: true` asks of what is late or tried again.

A run whose start is put off waits for a retry item, as it would after a failed attempt; only that no attempt was made.
So whatever sees to retries (window, audit, cancelling, replays) sees to it. Protects no-lost-timer: the retry is
written with the run's new state, in one transaction, and the item that it takes the place of is spent in it. Owns when
that retry is due; refuses to know what a calendar excludes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tickwork.core.instants import LATEST_INSTANT_MS, SECOND_MS
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.pending import end_pending
from tickwork.core.ledger.records import PutOffRecord, Retry, Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Absent, Is, Put, Update, Write, any_of
from tickwork.core.runs import endings
from tickwork.core.runs.attempts import StartRequest, Try
from tickwork.core.runs.endings import as_read, retry_key
from tickwork.core.schedule import Calendar, Freeze, fire_at_ms, hard_freeze

PUT_OFF = "put_off"
"""Why a start is declined that has been put off."""
STARTED_LATER = "its start was put off"

LOOK_AGAIN_MS = 86_400_000
"""A start is put off by a day at most, and then looked at again: a freeze that has no end that anybody can find, or
one that was a mistake and is mended, keeps no run for longer than it lasts, and none out of sight."""

FIRST_KEPT, LAST_KEPT = 1, 4
"""Of the times that a run was put off: the item stays small however often that happens."""


@dataclass(frozen=True, slots=True)
class PutOff:
    """The writes that have a run wait for the end of a freeze, and the retry that it waits for."""

    writes: tuple[Write, ...]
    retry: LedgerKey


def due_after(freeze: Freeze, job_id: str, tolerance_s: int, now_ms: int) -> int:
    """When to try again: at the end of the freeze, spread over the job's tolerance like any occurrence of it. All that
    a freeze has held back would else come in one second."""
    end_ms = min(freeze.until_ms, LATEST_INSTANT_MS)
    spread_ms = fire_at_ms(job_id, end_ms, tolerance_s, LATEST_INSTANT_MS)
    return min(spread_ms, (now_ms + LOOK_AGAIN_MS) // SECOND_MS * SECOND_MS)


def freeze_for(run: Run, calendars: Mapping[str, Calendar], retry: LedgerKey | None, now_ms: int) -> Freeze | None:
    """What a start now has to wait for. Who is due when a freeze ends is not held back by a clock that is late."""
    due_ms = 0 if run.status == lifecycle.RUNNING else (retry or run.key).fire_at_ms
    return hard_freeze(calendars, max(now_ms, due_ms))


def put_off_pending(run: Run, freeze: Freeze, due_ms: int, now_ms: int) -> PutOff:
    """A run that nobody has started."""
    return _waiting(run, Is("status", lifecycle.PENDING), freeze, due_ms, now_ms)


def put_off_retry(run: Run, retry: LedgerKey, freeze: Freeze, due_ms: int, now_ms: int, retention_s: int) -> PutOff:
    """A run that waits for an attempt, whose retry item is due. Its next one is later, by whatever clock: as the same
    item it could not be spent and put in one."""
    moved = _waiting(run, as_read(run), freeze, max(due_ms, retry.fire_at_ms + SECOND_MS), now_ms)
    spent = end_pending(retry, lifecycle.SPEND, STARTED_LATER, now_ms, retention_s)
    return replace(moved, writes=(*moved.writes, spent))


def _waiting(run: Run, condition: Any, freeze: Freeze, due_ms: int, now_ms: int) -> PutOff:
    changes = {
        "status": lifecycle.after(run.status, lifecycle.PUT_OFF),
        "token": run.token + 1,  # what was decided on the run as it was before is refused
        "retry_at_ms": due_ms,
        "put_off": _with(run, freeze, now_ms),
    }
    retry = Retry(retry_key(run.key, due_ms, run.attempt + 1), run.key.ref, run.attempt + 1)
    # An occurrence that was cancelled and comes again may find the retry that it had before: it says the same.
    same = any_of(Absent(), Is("status", lifecycle.SPENT), Is("status", lifecycle.PENDING))
    writes = (Update(TIMERS, run.key.as_item(), condition, set=changes), Put(TIMERS, retry.to_item(), same))
    return PutOff(writes, retry.key)


def _with(run: Run, freeze: Freeze, now_ms: int) -> Sequence[PutOffRecord]:
    """The run's record of such waits with this one; one that goes on stands there already."""
    attempt, until_ms = run.attempt + 1, min(freeze.until_ms, LATEST_INSTANT_MS)
    standing = list(run.put_off)
    if standing and (standing[-1]["attempt"], standing[-1]["until_ms"]) == (attempt, until_ms):
        return standing
    if len(standing) >= FIRST_KEPT + LAST_KEPT:
        standing = [*standing[:FIRST_KEPT], *standing[1 - LAST_KEPT :]]
    return [*standing, {"attempt": attempt, "calendar": freeze.calendar, "since_ms": now_ms, "until_ms": until_ms}]


def instead_of_start(
    run: Run, request: StartRequest, work: Work, freeze: Freeze, due_ms: int, now_ms: int, retention_s: int
) -> Try:
    """What a worker's start becomes that would be granted now, inside a freeze. An attempt that has lapsed ends there,
    and what is tried again in its place waits."""
    if run.status == lifecycle.PENDING:
        moved = put_off_pending(run, freeze, due_ms, now_ms)
        return Try(moved.writes, put_off=moved.retry)
    if run.status == lifecycle.WAITING:
        assert request.retry is not None, "a start that would be granted names the retry"
        moved = put_off_retry(run, request.retry, freeze, due_ms, now_ms, retention_s)
        return Try(moved.writes, put_off=moved.retry)
    verdict = endings.end_attempt(run, endings.lapsed(run), work, now_ms, retention_s, not_before_ms=due_ms)
    if verdict.retry is None:
        return Try(verdict.writes, ends=verdict.status, reason=verdict.reason)
    ended, *others = verdict.writes
    assert isinstance(ended, Update), "the run's own comes first"
    ended = replace(ended, set={**ended.set, "put_off": _with(run, freeze, now_ms)})
    return Try((ended, *others), put_off=verdict.retry.key)
