"""The worker's calls: start, heartbeat, complete. Each decides on the item as it stands and writes conditionally.

Protects one-attempt-running, one-owner-effect and cancelled-stays. A duplicate message dies in `start`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.core import attempts, endings, lifecycle
from tickwork.core.attempts import Declined, Granted, StartRequest, Try
from tickwork.core.endings import Failure
from tickwork.core.instants import SECOND_MS
from tickwork.core.keys import LedgerKey
from tickwork.core.records import Run, Work
from tickwork.core.tables import JOBS, PAYLOADS, TIMERS
from tickwork.core.writes import Below, Committed, Is, Missing, Refused, Update, all_of, any_of
from tickwork.flows import creating, definitions
from tickwork.flows.commit import commit
from tickwork.ports import Ports

DECIDE_TRIES_MAX = 4
"""Each lost race moves the run on; four in a row is a storm, and the message comes back anyway."""


NO_DEFINITION_RETRY_MS = 60_000
"""A limited run whose definition can not be found is not started on a guess; its message waits."""


@dataclass(frozen=True, slots=True)
class Started:
    """A granted claim: the run as it now stands, and its payload when that is kept apart (JSON text)."""

    run: Run
    payload: str | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """An accepted heartbeat: the lease now lasts until this. `cancel`: stop, and complete it as cancelled."""

    lease_until_ms: int
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """An accepted completion: the status the run now has, and when a retry is due (0: none)."""

    status: str
    retry_at_ms: int = 0


def start(ports: Ports, request: StartRequest, payload_id: str | None = None) -> Started | Declined:
    """Claim a run for one attempt. One claim per attempt passes; `Declined` says whether to discard the message."""
    now_ms = ports.clock.now_ms()
    decision: Granted | Declined | Try
    decision = Try((attempts.first_start(request, now_ms),)) if request.retry is None else _decide(ports, request)
    for _ in range(DECIDE_TRIES_MAX):
        if isinstance(decision, Granted):
            return _granted(ports, decision.run, payload_id)
        if isinstance(decision, Declined):
            ports.signals.count("runs.duplicate_total", reason=decision.reason)
            return decision
        result = commit(ports, *decision.writes)
        if isinstance(result, Committed) and decision.ends:
            _note_end(ports, request.key, decision.ends, decision.reason, now_ms)
            return Declined(decision.ends, discard=True)
        if isinstance(result, Committed) and result.item is not None:
            decision = Granted(Run.from_item(result.item))
        else:
            standing = (
                result.only if isinstance(result, Refused) and len(decision.writes) == 1 else _read(ports, request.key)
            )
            decision = _decide_on(ports, request, standing)
    return Declined("contended", discard=False, retry_after_ms=SECOND_MS)


def _read(ports: Ports, key: LedgerKey) -> dict[str, object] | None:
    return ports.store.get(TIMERS, key.as_item())


def _decide(ports: Ports, request: StartRequest) -> Granted | Declined | Try:
    return _decide_on(ports, request, _read(ports, request.key))


def _decide_on(ports: Ports, request: StartRequest, item: dict[str, object] | None) -> Granted | Declined | Try:
    run = None if item is None else Run.from_item(item)
    is_lapsed = run is not None and run.status == lifecycle.RUNNING and run.claim != request.claim
    work: Work | None = definitions.ORDINARY
    if run is not None and not run.ended and (run.guarded or is_lapsed):
        work = definitions.work_of(ports, run)
        if work is None and run.guarded:
            ports.signals.log("definition_missing", ref=request.key.ref)
            return Declined("no_definition", discard=False, retry_after_ms=NO_DEFINITION_RETRY_MS)
    now_ms, retention_s = ports.clock.now_ms(), ports.layout.retention_s
    decision = attempts.decide_start(run, request, work or definitions.ORDINARY, now_ms, retention_s)
    if isinstance(decision, Try) and is_lapsed:
        ports.signals.count("worker.lease_expired_while_running_total")
    return decision


def _granted(ports: Ports, run: Run, payload_id: str | None) -> Started:
    if run.attempt > 1:
        ports.signals.count("runs.attempts_gt_1_total", team=run.key.team)
    wanted = run.work.payload_id if run.work is not None else payload_id
    if wanted is None or not wanted.startswith(f"{run.key.job_id}#"):
        return Started(run)
    item = ports.store.get(PAYLOADS, {"payload_id": wanted})
    return Started(run, None if item is None else str(item["payload"]))


def heartbeat(ports: Ports, key: LedgerKey, token: int, lease_s: int) -> Beat | Declined:
    """Extend the lease of a running attempt; declined when it is not this token's any more, or has taken too long."""
    now_ms = ports.clock.now_ms()
    result = commit(ports, attempts.heartbeat(key, token, lease_s, now_ms))
    for _ in range(DECIDE_TRIES_MAX):
        if isinstance(result, Committed):
            assert result.item is not None, "a single update answers with the item"
            return _beat(Run.from_item(result.item))
        run = None if result.only is None else Run.from_item(result.only)
        if run is not None and endings.recorded_outcome(run, token) == endings.TIMED_OUT:
            _failed_before(ports, run)
            return Declined(endings.TIMED_OUT, discard=True)
        if run is None or not endings.holds(run, token):
            return attempts.stale(run)
        if run.stop_at_ms and run.stop_at_ms <= ports.clock.now_ms():
            return _time_out(ports, run)
        if not attempts.is_longer(run, lease_s, now_ms):
            return _beat(run)  # it lasts longer already: our own first try, or a faster clock's
        result = commit(ports, attempts.bounded_heartbeat(run, lease_s, now_ms))
    return Declined("contended", discard=False, retry_after_ms=SECOND_MS)


def _beat(run: Run) -> Beat:
    return Beat(run.lease_until_ms, bool(run.cancel_requested))


def _time_out(ports: Ports, run: Run) -> Declined:
    """The attempt has taken as long as it may: it is ended, and the worker told to stop. Its lease has lapsed."""
    if _end_attempt(ports, run, endings.TOO_LONG) is None:
        return Declined("contended", discard=False, retry_after_ms=SECOND_MS)
    ports.signals.count("runs.timed_out_total", team=run.key.team)
    return Declined(endings.TIMED_OUT, discard=True)


def complete(ports: Ports, key: LedgerKey, token: int) -> Ended | Declined:
    """Record success; the message may be deleted once this is accepted. Repeating it is harmless."""
    now_ms = ports.clock.now_ms()
    result = commit(ports, endings.succeed(key, token, now_ms, ports.layout.retention_s))
    if isinstance(result, Committed):
        _note_outcome(ports, key, lifecycle.SUCCEEDED, now_ms)
        return Ended(lifecycle.SUCCEEDED)
    run = None if result.only is None else Run.from_item(result.only)
    if run is not None and run.status == lifecycle.SUCCEEDED and run.token == token:
        return Ended(lifecycle.SUCCEEDED)  # accepted before; that reply was lost
    return _refuse(ports, run)


def fail(
    ports: Ports,
    key: LedgerKey,
    token: int,
    error: str,
    *,
    permanent: bool,
    error_class: str = "",
    retry_after_s: int = 0,
) -> Ended | Declined:
    """Record a failed attempt: a retry timer with it in one transaction, or the end of the run."""
    return _end_with(ports, key, token, Failure(endings.FAILED, error, error_class, retry_after_s, permanent))


def acknowledge_cancel(ports: Ports, key: LedgerKey, token: int, error: str = "") -> Ended | Declined:
    """The worker has stopped the run because it was asked to. Declined when nobody had asked."""
    return _end_with(ports, key, token, Failure(endings.CANCELLED, error))


def _end_with(ports: Ports, key: LedgerKey, token: int, failure: Failure) -> Ended | Declined:
    for _ in range(DECIDE_TRIES_MAX):
        item = _read(ports, key)
        if item is None:
            return _refuse(ports, None)
        run = Run.from_item(item)
        if endings.recorded_outcome(run, token) == failure.outcome:
            return _failed_before(ports, run)
        if not endings.holds(run, token):
            return _refuse(ports, run)
        if failure.outcome == endings.CANCELLED and not run.cancel_requested:
            return Declined("not_cancelled", discard=False)
        ended = _end_attempt(ports, run, failure)
        if ended is not None:
            return ended
    return Declined("contended", discard=False, retry_after_ms=SECOND_MS)


def _end_attempt(ports: Ports, run: Run, failure: Failure) -> Ended | None:
    """Write the end of a running attempt, and see to its retry; None when the run has moved meanwhile."""
    now_ms = ports.clock.now_ms()
    verdict = endings.end_attempt(
        run, failure, definitions.work_of(ports, run) or definitions.ORDINARY, now_ms, ports.layout.retention_s
    )
    if not isinstance(commit(ports, *verdict.writes), Committed):
        return None
    if verdict.retry is None:
        _note_end(ports, run.key, verdict.status, verdict.reason, now_ms)
        return Ended(verdict.status)
    creating.follow_up(ports, [verdict.retry.key])
    return Ended(verdict.status, verdict.retry.key.fire_at_ms)


def _failed_before(ports: Ports, run: Run) -> Ended:
    """The failure was accepted, the reply was lost; what came after the write may not have happened: do it again."""
    if run.status != lifecycle.WAITING:
        return Ended(run.status)
    creating.follow_up(ports, [endings.retry_key(run.key, run.retry_at_ms, run.attempt + 1)])
    return Ended(run.status, run.retry_at_ms)


def _refuse(ports: Ports, run: Run | None) -> Declined:
    ports.signals.count("runs.stale_token_total")
    return attempts.stale(run)


def _note_end(ports: Ports, key: LedgerKey, status: str, reason: str, now_ms: int) -> None:
    """Count and note a run that has ended without success. An `unsafe` one alarms: it waits for a person."""
    if reason.endswith(endings.NOT_REPEATED):
        ports.signals.count("runs.unsafe_not_repeated_total", team=key.team)
        ports.signals.log("unsafe_run_not_repeated", ref=key.ref, reason=reason)
    if status == lifecycle.DEAD:
        ports.signals.count("runs.dead_lettered_total", team=key.team)
    _note_outcome(ports, key, status, now_ms)


def _note_outcome(ports: Ports, key: LedgerKey, status: str, now_ms: int) -> None:
    """The job's `last`: for people and for the dead-man's switch. A crash before it loses no run, the ledger has it."""
    if "~" in key.name:
        return
    newer = any_of(Missing("last_scheduled_at_ms"), Below("last_scheduled_at_ms", key.scheduled_at_ms))
    known = Is("name", key.name)
    last = {
        "run_id": key.run_id,
        "status": status,
        "scheduled_at_ms": key.scheduled_at_ms,
        "ended_at_ms": now_ms,
    }
    changes = {"last": last, "last_scheduled_at_ms": key.scheduled_at_ms}
    commit(ports, Update(JOBS, {"job_id": key.job_id}, all_of(known, newer), set=changes))
