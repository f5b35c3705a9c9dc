"""What a worker's call means: may this attempt start, does it go on. How it ends is in `endings`.

Protects one-attempt-running, one-owner-effect (of a run) and cancelled-stays. Each decision takes the item as it
stands and returns either the writes to try or the answer to give; every write is conditional on what it was
decided from, so losing a race means deciding again, never overwriting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import deadlines, lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.pending import end_pending
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Below, Condition, Is, Missing, Update, Write, all_of
from tickwork.core.runs import endings
from tickwork.core.runs.endings import as_read, release, running_with, with_record

LEASE_S_MIN, LEASE_S_MAX = 30, 900


NOT_DUE, SUPERSEDED, HANDED_BACK = "not_due", "superseded", "handed_back"
EARLY_MS_MAX = 2_000
"""How far the clocks of a scanner, which sends no message early, and of the API may differ. No more: a run that is
started before its window has seen it may end before, too."""


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
    """The run cannot be started, completed or extended by this claim. `discard`: its message is of no more use
    (the run has ended, or another message carries on); else leave the message to become visible again."""

    reason: str
    discard: bool
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Try:
    """Attempt these writes; refused means decide again. `ends` is the status in which they end the run, `put_off` the
    retry that they have it wait for, when they do not start it."""

    writes: tuple[Write, ...]
    ends: str = ""
    reason: str = ""
    put_off: LedgerKey | None = None


def too_early(request: StartRequest, now_ms: int) -> Declined | None:
    """A run that is not due, by more than clocks may differ, is not started: nobody has sent its message, and a
    recurring job's chain has not moved on yet (no-early-fire, chain-unbroken)."""
    early_ms = request.key.fire_at_ms - now_ms
    return Declined(NOT_DUE, discard=False, retry_after_ms=early_ms) if early_ms > EARLY_MS_MAX else None


def first_start(request: StartRequest, now_ms: int) -> Update:
    """The common case, tried without reading: the run is pending, in time, and nothing limits its start."""
    pending = all_of(Is("status", lifecycle.PENDING), Missing("guarded"), deadlines.in_time(now_ms))
    return Update(TIMERS, request.key.as_item(), pending, set=_started(lifecycle.PENDING, request, 1, 1, now_ms, 0))


def decide_start(
    run: Run | None, request: StartRequest, work: Work, now_ms: int, retention_s: int
) -> Granted | Declined | Try:
    """May this claim start the run as it stands?"""
    if run is None:
        return Declined("unknown", discard=True)
    if run.ended:
        return Declined(run.status, discard=True)
    if run.status == lifecycle.BUFFERED:  # nobody has sent it, and once its job is free it is sent anew
        return Declined(run.status, discard=True)
    if run.status == lifecycle.PENDING:
        return _start_first(run, request, work, now_ms, retention_s)
    if run.status == lifecycle.WAITING:
        return _start_retry(run, request, work, now_ms, retention_s)
    if run.is_handed_back and run.claim == request.claim:
        # An early try that comes late, of the worker that has stopped: granted, it would be nobody's.
        return Declined(HANDED_BACK, discard=False, retry_after_ms=max(SECOND_MS, run.lease_until_ms - now_ms))
    if run.lease_until_ms > now_ms:
        if run.claim == request.claim:  # asked again: the answer was lost
            return Granted(run)
        return Declined("held", discard=False, retry_after_ms=run.lease_until_ms - now_ms)
    return _reclaim(run, request, work, now_ms, retention_s)


def _start_first(run: Run, request: StartRequest, work: Work, now_ms: int, retention_s: int) -> Try:
    if deadlines.is_too_late(run, now_ms):
        return _expired(run, now_ms, retention_s)
    changes = _started(run.status, request, 1, 1, now_ms, work.max_duration_s)
    pending = all_of(Is("status", lifecycle.PENDING), deadlines.in_time(now_ms))
    return Try((Update(TIMERS, run.key.as_item(), pending, set=changes),))


def _expired(run: Run, now_ms: int, retention_s: int, *also: Write) -> Try:
    """Its deadline has passed: it ends here, and its message with it."""
    why = deadlines.why_too_late(run)
    return Try((deadlines.expire(run, why, now_ms, retention_s), *also), ends=lifecycle.EXPIRED, reason=why)


def _start_retry(run: Run, request: StartRequest, work: Work, now_ms: int, retention_s: int) -> Declined | Try:
    if request.retry is None or request.attempt != run.attempt + 1 or _was_put_off(run, request.retry):
        return Declined(SUPERSEDED, discard=True)
    if deadlines.is_too_late(run, now_ms):  # it was put off, and has not been started yet
        spent = end_pending(request.retry, lifecycle.SPEND, "not started in time", now_ms, retention_s)
        return _expired(run, now_ms, retention_s, spent)
    changes = _started(run.status, request, run.attempt + 1, run.token + 1, now_ms, work.max_duration_s)
    changes |= _first_dispatch(run)
    start = Update(TIMERS, run.key.as_item(), as_read(run), set=changes)
    return Try((start, end_pending(request.retry, lifecycle.SPEND, "started", now_ms, retention_s)))


def _was_put_off(run: Run, retry: LedgerKey) -> bool:
    """Whether the attempt has another retry item by now: this one's start was put off."""
    return bool(run.put_off) and retry != endings.retry_key(run.key, run.retry_at_ms, run.attempt + 1)


def _reclaim(run: Run, request: StartRequest, work: Work, now_ms: int, retention_s: int) -> Try:
    """The holder let its lease lapse, or handed the run back: that attempt is recorded, and this claim has the next one
    at once. A run that was to be cancelled, or is out of attempts, ends here instead."""
    lost = endings.lapsed(run)
    if run.cancel_requested or endings.why_no_retry(run, lost, work) is not None:
        verdict = endings.end_attempt(run, lost, work, now_ms, retention_s)
        return Try(verdict.writes, ends=verdict.status, reason=verdict.reason)
    changes = _started(run.status, request, run.attempt + 1, run.token + 1, now_ms, work.max_duration_s)
    changes |= _first_dispatch(run)
    update = Update(
        TIMERS,
        run.key.as_item(),
        as_read(run),
        set=changes,
        remove=("slots", "handed_back", *(() if "stop_at_ms" in changes else ("stop_at_ms",))),
    )
    return Try((with_record(update, run, lost, now_ms), *release(run)))


def _started(
    status: str, request: StartRequest, attempt: int, token: int, now_ms: int, max_duration_s: int
) -> dict[str, Any]:
    """What a start writes on a run of this status; on a running one it takes a lapsed lease over."""
    event = lifecycle.RECLAIM if status == lifecycle.RUNNING else lifecycle.START
    stop_at_ms = now_ms + max_duration_s * SECOND_MS if max_duration_s else 0
    optional = {
        "dispatched_at_ms": request.dispatched_at_ms,
        "dispatched_by": request.dispatched_by,
        "stop_at_ms": stop_at_ms,
    }
    return {
        "status": lifecycle.after(status, event),
        "attempt": attempt,
        "token": token,
        "claim": request.claim,
        "worker": request.worker,
        "started_at_ms": now_ms,
        "lease_until_ms": _bounded(now_ms + request.lease_s * SECOND_MS, stop_at_ms),
        **{name: value for name, value in optional.items() if value},
    }


def _first_dispatch(run: Run) -> dict[str, Any]:
    """What a further attempt keeps of the first one's dispatch, whose instant its own takes the place of."""
    first_at_ms = run.dispatched_first_at_ms
    return {"first_dispatched_at_ms": first_at_ms} if first_at_ms else {}


def _bounded(lease_until_ms: int, stop_at_ms: int) -> int:
    return min(lease_until_ms, stop_at_ms) if stop_at_ms else lease_until_ms


def heartbeat(key: LedgerKey, token: int, lease_s: int, now_ms: int) -> Update:
    """Extend the lease of a running attempt: the common case, tried without reading. Never shorten it: an earlier
    heartbeat whose reply was lost may arrive after a later one, and the worker trusts the answer to the later."""
    _check_goes_on()
    until_ms = now_ms + lease_s * SECOND_MS
    held = all_of(running_with(token), Missing("handed_back"))
    unbounded = all_of(held, Missing("stop_at_ms"), Below("lease_until_ms", until_ms))
    return Update(TIMERS, key.as_item(), unbounded, set={"lease_until_ms": until_ms})


def bounded_heartbeat(run: Run, lease_s: int, now_ms: int) -> Update:
    """Extend the lease of an attempt that may not take for ever, never beyond its bound."""
    _check_goes_on()
    until_ms = _bounded(now_ms + lease_s * SECOND_MS, run.stop_at_ms)
    longer = all_of(running_with(run.token), _not_given_since(run), Below("lease_until_ms", until_ms))
    return Update(TIMERS, run.key.as_item(), longer, set={"lease_until_ms": until_ms})


def _not_given_since(run: Run) -> Condition:
    """The run has not been handed back since it was read: a heartbeat that comes after that must not revive a lease
    which nobody keeps."""
    return Is("handed_back", run.handed_back) if run.handed_back else Missing("handed_back")


def hand_back(run: Run, stops_in_ms: int, now_ms: int) -> tuple[Write, ...]:
    """Give a running run back: whoever starts it next records this attempt as interrupted (W12). Its lease is over by
    every clock, and its slots are free, unless its job may go on for a moment: then the lease is cut to that."""
    assert lifecycle.after(run.status, lifecycle.HAND_BACK) == run.status
    until_ms = min(run.lease_until_ms, now_ms + stops_in_ms if stops_in_ms else now_ms - EARLY_MS_MAX)
    changes = {"handed_back": run.token, "lease_until_ms": until_ms}
    freed: tuple[Write, ...] = () if stops_in_ms else release(run)
    give = Update(TIMERS, run.key.as_item(), as_read(run), set=changes, remove=("slots",) if freed else ())
    return give, *freed


def _check_goes_on() -> None:
    """A heartbeat writes no status, for it leaves the run in the one that it asks for."""
    assert lifecycle.after(lifecycle.RUNNING, lifecycle.HEARTBEAT) == lifecycle.RUNNING


def is_longer(run: Run, lease_s: int, now_ms: int) -> bool:
    """Whether a heartbeat of now would make the lease last longer than it does."""
    return run.lease_until_ms < _bounded(now_ms + lease_s * SECOND_MS, run.stop_at_ms)


def stale(run: Run | None) -> Declined:
    """The answer to a call whose token is not (or no longer) the run's."""
    if run is None:
        return Declined("unknown", discard=True)
    return Declined(run.status if run.ended else "stale_token", discard=run.ended)
