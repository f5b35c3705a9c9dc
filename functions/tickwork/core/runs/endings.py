"""How an attempt ends, and with it perhaps its run: what is written when it succeeded, failed, was lost, timed out
or was cancelled.

Protects one-owner-effect (every write is conditional on the token it was decided from), every-end-recorded (an
ended attempt leaves a retry item in the same transaction, or the run's end) and, for an `unsafe` job, that nothing
is started a second time. Whoever ends an attempt releases its slots in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tickwork.core.instants import ceil_to_second
from tickwork.core.ledger import kinds, lifecycle
from tickwork.core.ledger.ends import ended
from tickwork.core.ledger.keys import LedgerKey, parse_slot_name, resource_key
from tickwork.core.ledger.records import Retry, Run
from tickwork.core.ledger.tables import RESOURCES, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import (
    Absent,
    AllOf,
    Check,
    Condition,
    Delete,
    Is,
    Item,
    Missing,
    Put,
    Update,
    Write,
    all_of,
    any_of,
)
from tickwork.core.runs.retrying import asked_wait_ms, backoff_ms, is_worth_repeating

ERROR_CHARS_MAX = 200
"""Of an attempt's error in the ledger: the item stays under one write unit."""

FIRST_KEPT, LAST_KEPT = 3, 7
"""Of a run's attempts: how it began and how it goes on. Policies and replays allow for hundreds, and an item has a
limit. Each record has its attempt's number, and the run that of the last: how many are left out is known."""
ERRORS_BYTES_MAX = 2_000
"""Of all errors of a run: the last one in full, then the first, then the others from the last."""

FAILED, LOST, TIMED_OUT, CANCELLED = "failed", "lost", "timed_out", "cancelled"
INTERRUPTED = "interrupted"
INTERRUPTIONS_MAX = 10
"""So often a run's worker may have to stop without its costing an attempt (W12): a job that outlasts every grace
would else be begun for ever."""

NOT_REPEATED = "not repeated: unsafe"
"""Ends the reason of an `unsafe` run that did not succeed: nobody knows how far it came, and a person must look."""

IF_IT_RAN = "the lease lapsed; whether the job ran is not known: the answer to its start may have been lost"
"""What is recorded of a lost attempt of an `unsafe` run, which is the only one."""

_OF_THE_ATTEMPT = ("lease_until_ms", "claim", "stop_at_ms", "cancel_requested", "slots", "handed_back")
"""What a run carries for its current attempt only."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt ended that did not succeed. `permanent`: the worker says that no retry can help."""

    outcome: str
    error: str = ""
    error_class: str = ""
    retry_after_s: int = 0
    permanent: bool = False


TOO_LONG = Failure(TIMED_OUT, "it took longer than max_duration_s")
HANDED_BACK = Failure(INTERRUPTED, "its worker had to stop, and handed it back")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The writes that end an attempt (the run's own first), the status that leaves, and the retry item if any."""

    writes: tuple[Write, ...]
    status: str
    reason: str = ""
    retry: Retry | None = None


def succeed(key: LedgerKey, token: int, now_ms: int, retention_s: int) -> Update:
    """Complete the run: the common case, tried without reading. Its time to live begins here."""
    changes = ended(key, lifecycle.after(lifecycle.RUNNING, lifecycle.SUCCEED), "", now_ms, retention_s)
    bare = all_of(running_with(token), Missing("slots"))
    return Update(TIMERS, key.as_item(), bare, set=changes, remove=_OF_THE_ATTEMPT)


def succeed_holding(run: Run, now_ms: int, retention_s: int) -> tuple[Write, ...]:
    """Complete a run that holds slots, and free them."""
    bare = succeed(run.key, run.token, now_ms, retention_s)
    return replace(bare, condition=running_with(run.token)), *release(run)


def end_attempt(
    run: Run,
    failure: Failure,
    work: Work,
    now_ms: int,
    retention_s: int,
    cancel: str = "",
    *,
    not_before_ms: int = 0,
) -> Verdict:
    """End the attempt of a running run as it was read: a retry later, or the end of the run. One whose cancellation
    was asked for is not tried again, however its attempt ended (cancelled-stays)."""
    cancelled = run.cancel_requested or cancel
    if cancelled:
        return _end(run, lifecycle.CANCEL, failure, cancelled, now_ms, retention_s)
    why_not = why_no_retry(run, failure, work)
    if why_not is not None:
        if work.is_unsafe and failure.outcome == LOST:
            failure = replace(failure, error=IF_IT_RAN)
        return _end(run, lifecycle.BURY, failure, why_not, now_ms, retention_s)
    status = lifecycle.after(run.status, lifecycle.RETRY_LATER)
    due_ms = max(ceil_to_second(now_ms + _wait_ms(run, failure, work)), not_before_ms)
    retry = Retry(retry_key(run.key, due_ms, run.attempt + 1), run.key.ref, run.attempt + 1)
    waiting = Update(
        TIMERS,
        run.key.as_item(),
        as_read(run),
        set={"status": status, "retry_at_ms": due_ms},
        remove=_OF_THE_ATTEMPT,
    )
    waiting = with_record(waiting, run, failure, now_ms)
    writes = (waiting, Put(TIMERS, retry.to_item(), Absent()), *release(run))
    return Verdict(writes, status, retry=retry)


def why_no_retry(run: Run, failure: Failure, work: Work) -> str | None:
    """The reason to end the run with this attempt; None when it is tried again. A lost attempt counts as one, an
    interrupted one only when there were too many of them."""
    if failure.permanent:
        return "failed for good"
    if work.is_unsafe:
        return f"{failure.outcome}, {NOT_REPEATED}"
    if failure.outcome == FAILED and not is_worth_repeating(work.retry, failure.error_class):
        return f"failed for good: {failure.error_class[:80]} is not retried"
    if is_uncounted(run, failure):
        return None
    if run.attempt - run.uncounted >= work.retry.max_attempts:
        return f"out of attempts ({run.attempt})" if failure.outcome == FAILED else failure.outcome
    return None


def is_uncounted(run: Run, failure: Failure) -> bool:
    """Whether an attempt of the run that ends so is none to its policy (W12)."""
    return failure.outcome == INTERRUPTED and run.interrupted < INTERRUPTIONS_MAX


def _wait_ms(run: Run, failure: Failure, work: Work) -> int:
    if is_uncounted(run, failure):
        return 0
    backoff = backoff_ms(run.run_id, run.attempt, work.retry, since=run.uncounted)
    return max(backoff, asked_wait_ms(run.run_id, run.attempt, work.retry, failure.retry_after_s))


def _end(run: Run, event: str, failure: Failure, reason: str, now_ms: int, retention_s: int) -> Verdict:
    status = lifecycle.after(run.status, event)
    update = Update(
        TIMERS,
        run.key.as_item(),
        as_read(run),
        set=ended(run.key, status, reason, now_ms, retention_s),
        remove=_OF_THE_ATTEMPT,
    )
    return Verdict((with_record(update, run, failure, now_ms), *release(run)), status, reason)


def release(run: Run) -> tuple[Write, ...]:
    """Free the slots that the current attempt holds."""
    mine = all_of(Is("holder", run.key.ref), Is("token", run.token))
    return tuple(Delete(RESOURCES, slot_place(run, name), mine) for name in run.slots)


def slot_place(run: Run, name: str) -> Item:
    """The key of a slot from its name on the run's item. Resources are a team's own (tenant-wall)."""
    resource, number = parse_slot_name(name)
    return {"resource": resource_key(run.key.team, resource), "slot": number}


def retry_key(run: LedgerKey, due_ms: int, attempt: int) -> LedgerKey:
    kind = kinds.retry_of(run.kind, attempt)
    return LedgerKey(run.cell, run.shard, due_ms, run.team, run.name, run.scheduled_at_ms, kind)


def retry_again(run: Run) -> tuple[Write, ...]:
    """Give a waiting run, as it was read, the retry item that it has lost."""
    retry = Retry(retry_key(run.key, run.retry_at_ms, run.attempt + 1), run.key.ref, run.attempt + 1)
    gone = any_of(Absent(), Is("status", lifecycle.SPENT))
    return Check(TIMERS, run.key.as_item(), as_read(run)), Put(TIMERS, retry.to_item(), gone)


def with_record(update: Update, run: Run, failure: Failure, now_ms: int) -> Update:
    """The update of a run as it was read, with the record of its attempt that has ended. Mostly one more; where they
    become too many or too long, what is kept of all."""
    record = attempt_record(run, failure, now_ms)
    if is_uncounted(run, failure):
        update = replace(update, set={**update.set, "interrupted": run.interrupted + 1})
    every = [*run.attempts, record]
    if len(every) <= FIRST_KEPT + LAST_KEPT and sum(_error_bytes(one) for one in every) <= ERRORS_BYTES_MAX:
        return replace(update, append={"attempts": [record]})
    return replace(update, set={**update.set, "attempts": _kept(every)})


def _kept(every: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    middle = every[FIRST_KEPT:-LAST_KEPT] if len(every) > FIRST_KEPT + LAST_KEPT else []
    kept = [dict(one) for one in every if one not in middle]
    left = ERRORS_BYTES_MAX
    for record in (kept[-1], kept[0], *reversed(kept[1:-1])):
        record["error"] = str(record.get("error", "")).encode(errors="replace")[:left].decode(errors="ignore")
        left -= _error_bytes(record)
    return kept


def _error_bytes(record: Mapping[str, Any]) -> int:
    return len(str(record.get("error", "")).encode(errors="replace"))


def attempt_record(run: Run, failure: Failure, now_ms: int) -> Mapping[str, Any]:
    """An attempt that has ended, as it stands in the history."""
    record = {
        "attempt": run.attempt,
        "token": run.token,
        "worker": run.worker,
        "started_at_ms": run.started_at_ms,
        "ended_at_ms": now_ms,
        "outcome": failure.outcome,
        "error": failure.error[:ERROR_CHARS_MAX],
    }
    return record | ({"error_class": failure.error_class} if failure.error_class else {})


def recorded_outcome(run: Run, token: int) -> str | None:
    """How the attempt of this token ended, if that stands in the history already (our own lost reply, or not)."""
    return next((str(a.get("outcome")) for a in run.attempts if a.get("token") == token), None)


def holds(run: Run, token: int) -> bool:
    """Whether the attempt of this token is the run's current one."""
    return run.status == lifecycle.RUNNING and run.token == token


def running_with(token: int) -> AllOf:
    return all_of(Is("status", lifecycle.RUNNING), Is("token", token))


def as_read(run: Run) -> AllOf:
    """The run has not moved since it was read. While it runs, its lease has not been extended either."""
    same: list[Condition] = [Is("status", run.status), Is("token", run.token)]
    if run.status == lifecycle.RUNNING:
        same.append(Is("lease_until_ms", run.lease_until_ms))
        asked = run.cancel_requested
        same.append(Is("cancel_requested", asked) if asked else Missing("cancel_requested"))
    return all_of(*same)


def lapsed(run: Run) -> Failure:
    """What is recorded of an attempt whose lease lapsed. A lease never lasts beyond the attempt's own bound."""
    if run.is_handed_back:
        return HANDED_BACK
    if run.stop_at_ms and run.lease_until_ms >= run.stop_at_ms:
        return TOO_LONG
    return Failure(LOST, "the lease lapsed")
