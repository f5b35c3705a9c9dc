"""What a worker's call means: may this attempt start, what does its end write.

Protects one-attempt-running, one-owner-effect (of a run) and cancelled-stays. Each decision takes the item as it
stands and returns either the writes to try or the answer to give; every write is conditional on what it was
decided from, so losing a race means deciding again, never overwriting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tickwork.core import lifecycle
from tickwork.core.chain import end_pending
from tickwork.core.ids import stable_hash
from tickwork.core.instants import SECOND_MS, ceil_to_second
from tickwork.core.keys import LedgerKey
from tickwork.core.records import Retry, RetryPolicy, Run
from tickwork.core.tables import TIMERS
from tickwork.core.writes import Absent, AllOf, Below, Is, Put, Update, Write, all_of

LEASE_S_MIN, LEASE_S_MAX = 30, 900
ERROR_CHARS_MAX = 200
"""Of an attempt's error in the ledger: the item stays under one write unit."""

_DOUBLINGS_MAX = 40


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
    """Attempt these writes; refused means decide again. `buried` says that they end the run instead of starting it."""

    writes: tuple[Write, ...]
    buried: bool = False


def first_start(request: StartRequest, now_ms: int) -> Update:
    """The common case, tried without reading: the run is pending."""
    return Update(
        TIMERS,
        request.key.as_item(),
        Is("status", lifecycle.PENDING),
        set=_started(request, 1, 1, now_ms),
    )


def decide_start(
    run: Run | None, request: StartRequest, max_attempts: int, now_ms: int, retention_s: int
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
    return _reclaim(run, request, max_attempts, now_ms, retention_s)


def _start_retry(run: Run, request: StartRequest, now_ms: int, retention_s: int) -> Declined | Try:
    if request.retry is None or request.attempt != run.attempt + 1:
        return Declined("superseded", discard=True)
    changes = _started(request, run.attempt + 1, run.token + 1, now_ms)
    start = Update(TIMERS, run.key.as_item(), _as_read(run), set=changes)
    return Try((start, end_pending(request.retry, lifecycle.SPEND, "started", now_ms, retention_s)))


def _reclaim(run: Run, request: StartRequest, max_attempts: int, now_ms: int, retention_s: int) -> Try:
    lost = attempt_record(run, "lost", now_ms, "the lease lapsed")
    unchanged = all_of(_as_read(run), Is("lease_until_ms", run.lease_until_ms))
    if run.attempt >= max_attempts:
        return Try((_bury(run, unchanged, lost, "lost", now_ms, retention_s),), buried=True)
    changes = _started(request, run.attempt + 1, run.token + 1, now_ms)
    return Try((Update(TIMERS, run.key.as_item(), unchanged, set=changes, append={"attempts": [lost]}),))


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


def succeed(key: LedgerKey, token: int, now_ms: int, retention_s: int) -> Update:
    """Complete the run. Its time to live begins here."""
    changes = {
        "status": lifecycle.SUCCEEDED,
        "ended_at_ms": now_ms,
        "expires_at_s": now_ms // SECOND_MS + retention_s,
    }
    return Update(TIMERS, key.as_item(), running_with(token), set=changes, remove=("lease_until_ms", "claim"))


def decide_failure(
    run: Run, token: int, error: str, policy: RetryPolicy, now_ms: int, retention_s: int, *, permanent: bool
) -> Declined | tuple[tuple[Write, ...], Retry | None]:
    """What a failed attempt writes: the retry item with the run in one transaction, or the end of the run."""
    if run.status != lifecycle.RUNNING or run.token != token:
        return stale(run)
    record = attempt_record(run, "failed", now_ms, error)
    if permanent or run.attempt >= policy.max_attempts:
        reason = "failed for good" if permanent else f"out of attempts ({run.attempt})"
        return (_bury(run, running_with(token), record, reason, now_ms, retention_s),), None
    due_ms = ceil_to_second(now_ms + backoff_ms(run.run_id, run.attempt, policy))
    key = retry_key(run.key, due_ms, run.attempt + 1)
    retry = Retry(key, run.key.ref, run.attempt + 1)
    waiting = Update(
        TIMERS,
        run.key.as_item(),
        running_with(token),
        set={"status": lifecycle.WAITING, "retry_at_ms": due_ms},
        remove=("lease_until_ms", "claim"),
        append={"attempts": [record]},
    )
    return (waiting, Put(TIMERS, retry.to_item(), Absent())), retry


def retry_key(run: LedgerKey, due_ms: int, attempt: int) -> LedgerKey:
    return LedgerKey(run.cell, run.shard, due_ms, run.team, run.name, run.scheduled_at_ms, f"retry.{attempt}")


def stale(run: Run | None) -> Declined:
    """The answer to a call whose token is not (or no longer) the run's."""
    if run is None:
        return Declined("unknown", discard=True)
    return Declined(run.status if run.ended else "stale_token", discard=run.ended)


def backoff_ms(run_id: str, attempt: int, policy: RetryPolicy) -> int:
    """`min(base * 2^attempt, cap) * uniform(0.8, 1.2)` (spec W5). The draw is a hash of the run and the attempt:
    the same retry is always as late, and a herd of failures is spread."""
    whole_ms = min(policy.base_s << min(attempt, _DOUBLINGS_MAX), policy.cap_s) * SECOND_MS
    permille = 800 + stable_hash(f"{run_id}|{attempt}") % 401
    return whole_ms * permille // 1000


def attempt_record(run: Run, outcome: str, now_ms: int, error: str) -> Mapping[str, Any]:
    """An attempt that has ended, as it stands in the history."""
    return {
        "attempt": run.attempt,
        "token": run.token,
        "worker": run.worker,
        "started_at_ms": run.started_at_ms,
        "ended_at_ms": now_ms,
        "outcome": outcome,
        "error": error[:ERROR_CHARS_MAX],
    }


def running_with(token: int) -> AllOf:
    return all_of(Is("status", lifecycle.RUNNING), Is("token", token))


def _as_read(run: Run) -> Any:
    return all_of(Is("status", run.status), Is("token", run.token))


def _bury(run: Run, condition: Any, record: Mapping[str, Any], reason: str, now_ms: int, retention_s: int) -> Update:
    changes = {
        "status": lifecycle.after(run.status, lifecycle.BURY),
        "reason": reason,
        "ended_at_ms": now_ms,
        "expires_at_s": now_ms // SECOND_MS + retention_s,
    }
    remove = ("lease_until_ms", "claim")
    return Update(TIMERS, run.key.as_item(), condition, set=changes, remove=remove, append={"attempts": [record]})
