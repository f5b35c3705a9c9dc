"""The worker's calls: start, heartbeat, complete, hand back. Each decides on the item as it stands, and writes
conditionally.

Protects one-attempt-running, one-owner-effect and cancelled-stays. A duplicate message dies in `start`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.core.access.masking import masked
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.work import ORDINARY, Work
from tickwork.core.ledger.writes import Committed, Refused
from tickwork.core.runs import attempts, endings, putting_off
from tickwork.core.runs.attempts import Declined, Granted, StartRequest, Try
from tickwork.core.runs.endings import Failure
from tickwork.core.runs.putting_off import PUT_OFF
from tickwork.core.runs.slots import NO_SLOT
from tickwork.flows.dispatch import creating, holding_back
from tickwork.flows.ledger import payloads, reading, versions
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import read_run
from tickwork.flows.runs import cancelled_starts, finishing, overlong, paused_starts, taking_slots
from tickwork.flows.runs.finishing import Ended
from tickwork.ports import Ports

DECIDE_TRIES_MAX = 4
"""Each lost race moves the run on; four in a row is a storm, and the message comes back anyway."""


NO_DEFINITION = "no_definition"
NOT_DUPLICATES = frozenset({NO_DEFINITION, NO_SLOT})
NO_PAYLOAD = "no_payload"
PAYLOAD_LOST = "PayloadLost"
"""The error class of a run whose payload is gone."""
NO_DEFINITION_RETRY_MS = 60_000
"""A limited run whose definition cannot be found is not started on a guess; its message waits."""


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


def start(ports: Ports, request: StartRequest, payload_id: str | None = None) -> Started | Declined:
    """Claim a run for one attempt. One claim per attempt passes; `Declined` says whether to discard the message."""
    now_ms = ports.clock.now_ms()
    early = attempts.too_early(request, now_ms)
    if early is not None:
        return early
    # Before the claim: while it cannot be read, nothing is decided.
    kept = payloads.read_payload(ports, request.key, payload_id)
    decision: Granted | Declined | Try
    looks = request.retry is not None or paused_starts.concerns(ports, request.key)
    decision = _decide(ports, request) if looks else Try((attempts.first_start(request, now_ms),))
    for _ in range(DECIDE_TRIES_MAX):
        if isinstance(decision, Granted):
            return _granted(ports, decision.run, payload_id, kept)
        if isinstance(decision, Declined):
            if decision.reason not in NOT_DUPLICATES:
                ports.signals.count("runs.duplicate_total", reason=decision.reason)
            return decision
        result = finishing.commit_end(ports, decision.writes)
        if isinstance(result, Committed) and decision.put_off is not None:
            return _put_off(ports, request.key, decision.put_off)
        if isinstance(result, Committed) and decision.ends:
            finishing.note_end(ports, request.key, decision.ends, decision.reason, now_ms)
            return Declined(decision.ends, discard=True)
        if isinstance(result, Committed) and result.item is not None:
            decision = Granted(Run.from_item(result.item))
        else:
            alone = isinstance(result, Refused) and len(decision.writes) == 1
            if alone and isinstance(result, Refused):
                standing = None if result.only is None else Run.from_item(result.only)
            else:
                standing = read_run(ports, request.key)
            decision = _decide_on(ports, request, standing)
    return Declined("contended", discard=False, retry_after_ms=SECOND_MS)


def _put_off(ports: Ports, key: LedgerKey, retry: LedgerKey) -> Declined:
    """It waits for the end of a freeze; its message is of no more use, the retry brings another."""
    holding_back.note_put_off(ports, key, retry)
    creating.follow_up(ports, [retry])
    return Declined(PUT_OFF, discard=True)


def _decide(ports: Ports, request: StartRequest) -> Granted | Declined | Try:
    return _decide_on(ports, request, read_run(ports, request.key))


def _decide_on(ports: Ports, request: StartRequest, run: Run | None) -> Granted | Declined | Try:
    now_ms, retention_s = ports.clock.now_ms(), ports.layout.retention_s
    is_lapsed = run is not None and run.status == lifecycle.RUNNING and run.lease_until_ms <= now_ms
    is_startable = run is not None and run.status in (lifecycle.PENDING, lifecycle.WAITING)
    work: Work | None = ORDINARY
    job: Job | None = None
    if run is not None and (is_lapsed or (is_startable and run.guarded)):
        job = reading.job_of_hard(ports, run)
        work = versions.work_of(ports, run) if job is None else versions.Versions(ports).work_of(job, run)
        if work is None and run.guarded:
            ports.signals.log("definition_missing", ref=request.key.ref)
            return Declined(NO_DEFINITION, discard=False, retry_after_ms=NO_DEFINITION_RETRY_MS)
    decision = attempts.decide_start(run, request, work or ORDINARY, now_ms, retention_s)
    if isinstance(decision, Declined) and decision.reason == attempts.SUPERSEDED and run is not None and run.put_off:
        finishing.see_to_retry(ports, run)  # perhaps by an earlier try of this very call, which came no further
    if isinstance(decision, Declined) and run is not None and run.ended:
        finishing.see_to_next(ports, run)  # it may have ended it, too
    if isinstance(decision, Try) and not decision.ends and run is not None and not run.attempt:
        decision = paused_starts.unless_paused(ports, run, request, decision)
        if isinstance(decision, Declined) or decision.put_off is not None or decision.ends:
            return decision
    if isinstance(decision, Try) and not decision.ends and run is not None and job is not None:
        decision = _unless_frozen(ports, run, request, job, work or ORDINARY, decision)
        if decision.put_off is not None:
            return decision
    if isinstance(decision, Try) and is_lapsed and run is not None and not run.is_handed_back:
        ports.signals.count("worker.lease_expired_while_running_total")
    if isinstance(decision, Try) and not decision.ends and run is not None and work is not None and work.resources:
        return taking_slots.take_slots(ports, run, work, decision, request.claim)
    return decision


def _unless_frozen(ports: Ports, run: Run, request: StartRequest, job: Job, work: Work, start: Try) -> Try:
    """The start; inside what a hard calendar of its job excludes, the wait for the end of that."""
    now_ms = ports.clock.now_ms()
    freeze = putting_off.freeze_for(run, job.calendars, request.retry, now_ms)
    if freeze is None:
        return start
    due_ms = putting_off.due_after(freeze, job.job_id, job.tolerance_s, now_ms)
    return putting_off.instead_of_start(run, request, work, freeze, due_ms, now_ms, ports.layout.retention_s)


def _granted(ports: Ports, run: Run, payload_id: str | None, kept: str | None) -> Started | Declined:
    """`kept`: the payload of the id that the message gives."""
    if (declined := cancelled_starts.unless_cancelled(ports, run)) is not None:
        return declined
    if run.attempt > 1:
        ports.signals.count("runs.attempts_gt_1_total", team=run.key.team)
    wanted = run.work.payload_id if run.work is not None else payload_id
    if wanted is None:
        return Started(run)
    payload = kept if wanted == payload_id else payloads.read_payload(ports, run.key, wanted)
    return _without_payload(ports, run, wanted) if payload is None else Started(run, payload)


def _without_payload(ports: Ports, run: Run, payload_id: str) -> Declined:
    """What the job is to be called with is gone: it is not called with nothing. The attempt ends as an error that says
    so, and the run is dead until somebody restores the payload, or replays it with another definition."""
    ports.signals.count("runs.payload_lost_total", team=run.key.team)
    ports.signals.log("payload_lost", ref=run.key.ref, payload_id=payload_id)
    failure = Failure(
        endings.FAILED, f"its payload {payload_id} is not there any more, or is no JSON", PAYLOAD_LOST, permanent=True
    )
    ended = _end_with(ports, run.key, run.token, failure)
    return ended if isinstance(ended, Declined) else Declined(NO_PAYLOAD, discard=True)


def heartbeat(ports: Ports, key: LedgerKey, token: int, lease_s: int) -> Beat | Declined:
    """Extend the lease of a running attempt; declined when it is not this token's any more, or has taken too long."""
    now_ms = ports.clock.now_ms()
    result = commit(ports, attempts.heartbeat(key, token, lease_s, now_ms))
    for _ in range(DECIDE_TRIES_MAX):
        if isinstance(result, Committed):
            assert result.item is not None, "a single update answers with the item"
            return _beat(ports, Run.from_item(result.item))
        run = None if result.only is None else Run.from_item(result.only)
        if run is not None and endings.recorded_outcome(run, token) == endings.TIMED_OUT:
            finishing.see_to_retry(ports, run)
            return _timed_out(run.status)
        if run is None or not endings.holds(run, token):
            return attempts.stale(run)
        if run.is_handed_back:
            left_ms = max(0, run.lease_until_ms - ports.clock.now_ms())
            return Declined(attempts.HANDED_BACK, discard=False, retry_after_ms=left_ms)
        if run.stop_at_ms and run.stop_at_ms <= ports.clock.now_ms():
            return _time_out(ports, key, token)
        if not attempts.is_longer(run, lease_s, now_ms):
            return _beat(ports, run)  # it lasts longer already: our own first try, or a faster clock's
        result = commit(ports, attempts.bounded_heartbeat(run, lease_s, now_ms))
    return Declined("contended", discard=False, retry_after_ms=SECOND_MS)


def _beat(ports: Ports, run: Run) -> Beat:
    overlong.tell(ports, run)
    return Beat(run.lease_until_ms, bool(run.cancel_requested))


def _time_out(ports: Ports, key: LedgerKey, token: int) -> Declined:
    """The attempt has taken as long as it may: it is ended, and the worker told to stop. Its lease has lapsed."""
    ended = _end_with(ports, key, token, endings.TOO_LONG)
    if isinstance(ended, Declined):
        return ended
    ports.signals.count("runs.timed_out_total", team=key.team)
    return _timed_out(ended.status)


def _timed_out(status: str) -> Declined:
    """The message may bring the run back yet when the next attempt took over a lapsed lease: it was delivered by a copy
    of this very message, and no other would be left if its worker died (W2)."""
    return Declined(endings.TIMED_OUT, discard=status != lifecycle.RUNNING)


def complete(ports: Ports, key: LedgerKey, token: int) -> Ended | Declined:
    """Record success; the message may be deleted once this is accepted. Repeating it is harmless."""
    retention_s, run = ports.layout.retention_s, None
    result = commit(ports, endings.succeed(key, token, ports.clock.now_ms(), retention_s))
    for _ in range(DECIDE_TRIES_MAX):
        if isinstance(result, Committed):
            # One that another version has put something unknown into has succeeded all the same: it is not read.
            started_at_ms = run.started_at_ms if run else (result.item or {}).get("started_at_ms", 0)
            finishing.note_outcome(ports, key, lifecycle.SUCCEEDED, ports.clock.now_ms(), started_at_ms)
            return Ended(lifecycle.SUCCEEDED)
        item = result.failed.get(0)
        run = None if item is None else Run.from_item(item)
        if run is not None and run.status == lifecycle.SUCCEEDED and run.token == token:
            finishing.note_standing(ports, run)
            return Ended(lifecycle.SUCCEEDED)  # accepted before; that reply was lost
        if run is None or not endings.holds(run, token):
            return _refuse(ports, run)
        result = finishing.commit_end(ports, endings.succeed_holding(run, ports.clock.now_ms(), retention_s))
    return Declined("contended", discard=False, retry_after_ms=SECOND_MS)


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
    return _end_with(ports, key, token, Failure(endings.FAILED, masked(error), error_class, retry_after_s, permanent))


def acknowledge_cancel(ports: Ports, key: LedgerKey, token: int, error: str = "") -> Ended | Declined:
    """The worker has stopped the run because it was asked to. Declined when nobody had asked."""
    return _end_with(ports, key, token, Failure(endings.CANCELLED, masked(error)))


def hand_back(ports: Ports, key: LedgerKey, token: int, stops_in_s: int = 0) -> Ended | Declined:
    """Take a run back from a worker that has to stop (W12). `stops_in_s`: its job may go on for so long, and nobody
    else starts the run before. Repeating it is harmless; one that was to be cancelled ends so."""
    stops_in_ms = stops_in_s * SECOND_MS
    for _ in range(DECIDE_TRIES_MAX):
        now_ms, run = ports.clock.now_ms(), read_run(ports, key)
        if run is None or not endings.holds(run, token):
            return _refuse(ports, run)
        if run.is_handed_back and run.lease_until_ms <= now_ms + stops_in_ms:
            return Ended(run.status)  # accepted before; that reply was lost
        if run.cancel_requested and not stops_in_ms:
            ended = finishing.end_attempt(ports, run, endings.HANDED_BACK)
            if ended is not None:
                return ended
        elif isinstance(finishing.commit_end(ports, attempts.hand_back(run, stops_in_ms, now_ms)), Committed):
            ports.signals.count("runs.handed_back_total", team=key.team)
            return Ended(run.status)
    return Declined("contended", discard=False, retry_after_ms=SECOND_MS)


def _end_with(ports: Ports, key: LedgerKey, token: int, failure: Failure) -> Ended | Declined:
    for _ in range(DECIDE_TRIES_MAX):
        run = read_run(ports, key)
        if run is None:
            return _refuse(ports, None)
        if endings.recorded_outcome(run, token) == failure.outcome:
            return finishing.see_to_retry(ports, run)
        if not endings.holds(run, token):
            return _refuse(ports, run)
        if failure.outcome == endings.CANCELLED and not run.cancel_requested:
            return Declined("not_cancelled", discard=False)
        ended = finishing.end_attempt(ports, run, failure)
        if ended is not None:
            return ended
    return Declined("contended", discard=False, retry_after_ms=SECOND_MS)


def _refuse(ports: Ports, run: Run | None) -> Declined:
    ports.signals.count("runs.stale_token_total")
    return attempts.stale(run)
