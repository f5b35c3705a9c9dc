"""What a worker's call means: may this attempt start, does it go on. How it ends is in `endings`.

Protects one-attempt-running, one-owner-effect (of a run) and cancelled-stays. Each decision takes the item as it
stands and returns either the writes to try or the answer to give; every write is conditional on what it was
decided from, so losing a race means deciding again, never overwriting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tickwork.core import endings, lifecycle
from tickwork.core.chain import end_pending
from tickwork.core.endings import LOST, Failure, as_read, attempt_record, running_with
from tickwork.core.instants import SECOND_MS
from tickwork.core.keys import LedgerKey
from tickwork.core.records import Run, Work
from tickwork.core.tables import TIMERS
from tickwork.core.writes import Below, Is, Update, Write, all_of

LEASE_S_MIN, LEASE_S_MAX = 30, 900


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A worker asks to start the run of a message. `claim` is new for every try to start, so that a repeated
    request is known again; `attempt` and `retry` are those of the message."""

    key: LedgerKey
    claim: str
    worker: str
    lease_s: int
    attempt: int = 1
    retry: LedgerKey | None = None
    dispatched_at_ms: int = 0
    dispatched_by: str = ""


@dataclass(frozen=True, slots=True)
class Granted:
    """The claim holds the run."""

    run: Run


@dataclass(frozen=True, slots=True)
class Declined:
    """The run can not be started, completed or extended by this claim. `discard`: its message is of no more use
    (the run has ended, or another message carries on); else leave the message to become visible again."""

    reason: str
    discard: bool
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Try:
    """Attempt these writes; refused means decide again. `ends` is the status in which they end the run, when they
    do not start it."""

    writes: tuple[Write, ...]
    ends: str = ""
    reason: str = ""


def first_start(request: StartRequest, now_ms: int) -> Update:
    """The common case, tried without reading: the run is pending."""
    return Update(
        TIMERS,
        request.key.as_item(),
        Is("status", lifecycle.PENDING),
        set=_started(request, 1, 1, now_ms),
    )


def decide_start(
    run: Run | None, request: StartRequest, work: Work, now_ms: int, retention_s: int
) -> Granted | Declined | Try:
    """May this claim start the run as it stands?"""
    if run is None:
        return Declined("unknown", discard=True)
    if run.ended:
        return Declined(run.status, discard=True)
    if run.status == lifecycle.PENDING:
        return Try((first_start(request, now_ms),))
    if run.status == lifecycle.WAITING:
        return _start_retry(run, request, now_ms, retention_s)
    if run.claim == request.claim:
        return Granted(run)
    if run.lease_until_ms > now_ms:
        return Declined("held", discard=False, retry_after_ms=run.lease_until_ms - now_ms)
    return _reclaim(run, request, work, now_ms, retention_s)


def _start_retry(run: Run, request: StartRequest, now_ms: int, retention_s: int) -> Declined | Try:
    if request.retry is None or request.attempt != run.attempt + 1:
        return Declined("superseded", discard=True)
    changes = _started(request, run.attempt + 1, run.token + 1, now_ms)
    start = Update(TIMERS, run.key.as_item(), as_read(run), set=changes)
    return Try((start, end_pending(request.retry, lifecycle.SPEND, "started", now_ms, retention_s)))


def _reclaim(run: Run, request: StartRequest, work: Work, now_ms: int, retention_s: int) -> Try:
    """The holder let its lease lapse: that attempt is recorded as lost, and this claim has the next one at once."""
    lost = Failure(LOST, "the lease lapsed")
    if endings.why_no_retry(run, lost, work) is not None:
        verdict = endings.end_attempt(run, lost, work, now_ms, retention_s)
        return Try(verdict.writes, ends=verdict.status, reason=verdict.reason)
    changes = _started(request, run.attempt + 1, run.token + 1, now_ms)
    record = attempt_record(run, lost, now_ms)
    return Try((Update(TIMERS, run.key.as_item(), as_read(run), set=changes, append={"attempts": [record]}),))


def _started(request: StartRequest, attempt: int, token: int, now_ms: int) -> dict[str, Any]:
    dispatched = {"dispatched_at_ms": request.dispatched_at_ms, "dispatched_by": request.dispatched_by}
    return {
        "status": lifecycle.RUNNING,
        "attempt": attempt,
        "token": token,
        "claim": request.claim,
        "worker": request.worker,
        "started_at_ms": now_ms,
        "lease_until_ms": now_ms + request.lease_s * SECOND_MS,
        **{name: value for name, value in dispatched.items() if value},
    }


def heartbeat(key: LedgerKey, token: int, lease_s: int, now_ms: int) -> Update:
    """Extend the lease of a running attempt. Never shorten it: an earlier heartbeat whose reply was lost may arrive
    after a later one, and the worker trusts the answer to the later."""
    until_ms = now_ms + lease_s * SECOND_MS
    longer = all_of(*running_with(token).conditions, Below("lease_until_ms", until_ms))
    return Update(TIMERS, key.as_item(), longer, set={"lease_until_ms": until_ms})


def stale(run: Run | None) -> Declined:
    """The answer to a call whose token is not (or no longer) the run's."""
    if run is None:
        return Declined("unknown", discard=True)
    return Declined(run.status if run.ended else "stale_token", discard=run.ended)
