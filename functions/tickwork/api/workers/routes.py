"""The worker's calls, batched: start, heartbeat, complete, release. Each entry is answered on its own.

The wire protocol, for implementers in other languages, is docs/worker-protocol.md.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, cast

from tickwork.api.fields import NoQuery
from tickwork.api.places import key_of
from tickwork.api.routing import Call, PathPart, Route
from tickwork.api.workers.answers import (
    CompleteAnswer,
    CountedRun,
    EndedRun,
    ExtendedLease,
    GrantedRun,
    HeartbeatAnswer,
    LeaseAnswer,
    LeasedRun,
    ReleaseAnswer,
    ReleasedRun,
    StartAnswer,
    UnhandledAnswer,
)
from tickwork.api.workers.bodies import (
    BeatIn,
    BeatOneIn,
    CompleteIn,
    CompleteOneIn,
    LeaseIn,
    ReleaseIn,
    ReleaseOneIn,
    StartIn,
    StartOneIn,
    UnhandledIn,
    UnhandledOneIn,
)
from tickwork.api.workers.entries import each
from tickwork.core.access.pools import is_pool_id
from tickwork.core.errors import InvalidField, NotFound
from tickwork.core.instants import SECOND_MS, iso, iso_ms
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.kinds import points
from tickwork.core.ledger.messages import is_retry_of
from tickwork.core.ledger.records import Run
from tickwork.core.runs.attempts import HANDED_BACK, Declined, StartRequest
from tickwork.flows.runs import isolating, pulling, worker_calls
from tickwork.flows.runs.finishing import Ended
from tickwork.flows.runs.pulling import Asking, Leased
from tickwork.ports import PUSH_POOL, Layout, Ports


def start_runs(call: Call[StartIn, NoQuery]) -> tuple[int, StartAnswer]:
    """Claim runs: of each, one worker passes and gets a lease and a fencing token."""
    ports, body = call.ports, call.body
    return 200, {"runs": each(ports, body, body.runs, partial(_start_request, body.worker), partial(_start, ports))}


def heartbeat_runs(call: Call[BeatIn, NoQuery]) -> tuple[int, HeartbeatAnswer]:
    """Extend the leases of runs, and hear which of them are to stop."""
    return 200, {"runs": each(call.ports, call.body, call.body.runs, _key_of, partial(_beat, call.ports))}


def complete_runs(call: Call[CompleteIn, NoQuery]) -> tuple[int, CompleteAnswer]:
    """Say how runs ended. Of a claim that is held no more nothing is taken."""
    return 200, {"runs": each(call.ports, call.body, call.body.runs, _key_of, partial(_end, call.ports))}


def release_runs(call: Call[ReleaseIn, NoQuery]) -> tuple[int, ReleaseAnswer]:
    """Give runs back, for the worker has to stop: others may start them at once."""
    return 200, {"runs": each(call.ports, call.body, call.body.runs, _key_of, partial(_release, call.ports))}


def count_unhandled_runs(call: Call[UnhandledIn, NoQuery]) -> tuple[int, UnhandledAnswer]:
    """Say which runs were left to other workers, for this one lacks their handler. Nothing is written."""
    body = call.body
    return 200, {"runs": each(call.ports, body, body.runs, _key_of, partial(_count_unhandled, call))}


def _count_unhandled(call: Call[UnhandledIn, NoQuery], one: UnhandledOneIn, key: LedgerKey) -> CountedRun:
    if not call.actor.reaches(key.team):
        raise NotFound("there is no such run", field="ref")
    pulling.tell_unhandled(call.ports, one.ref, one.handler, call.body.worker)
    return {"ref": one.ref, "accepted": True}


def lease_runs(call: Call[LeaseIn, NoQuery]) -> tuple[int, LeaseAnswer]:
    """Take started runs from a pool, without access to its queue."""
    ports, body = call.ports, call.body
    asked_ms = ports.clock.monotonic_ms()
    handlers = None if body.handlers is None else frozenset(body.handlers)
    asked = Asking(body.worker, body.max, body.lease_s, body.wait_s, handlers, call.actor.reaches)
    lease = pulling.lease_runs(ports, call.path["pool"], asked)
    # Read before what is left of the leases: the worker adds the two up, and may not come to more than there is.
    waited_ms = ports.clock.monotonic_ms() - asked_ms
    runs = [told for one in lease.runs if (told := _leased(ports, one)) is not None]
    answer: LeaseAnswer = {"runs": runs, "waited_ms": waited_ms}
    if lease.retry_after_s:
        answer["retry_after_s"] = lease.retry_after_s
    return 200, answer


def _leased(ports: Ports, one: Leased) -> LeasedRun | None:
    """A started run: the fields of its message, what the start granted, and the receipt to hand back. None when its
    payload is none: its lease lapses, and is recorded as lost."""
    try:
        granted = _granted(ports, one.run, one.payload)
    except ValueError as error:
        isolating.tell(ports, one.run.key.ref, error)
        return None
    return cast("LeasedRun", {**one.message, **granted, "receipt": one.receipt})


def _start(ports: Ports, one: StartOneIn, request: StartRequest) -> GrantedRun | Declined:
    result = worker_calls.start(ports, request, one.payload_id)
    if isinstance(result, Declined):
        return result
    return cast("GrantedRun", {"ref": one.ref, "granted": True, **_granted(ports, result.run, result.payload)})


def _granted(ports: Ports, run: Run, payload: str | None) -> dict[str, Any]:
    granted = {
        "token": run.token,
        "attempt": run.attempt,
        "lease_until": iso_ms(run.lease_until_ms),
        "lease_ms": _lease_ms(ports, run.lease_until_ms),
    }
    return granted | ({"payload": json.loads(payload)} if payload is not None else {})


def _beat(ports: Ports, one: BeatOneIn, key: LedgerKey) -> ExtendedLease | Declined:
    # Hidden before the lease is written, for as long as it may come to be: a release that comes between the two shows
    # the message after that, and one that came before is met here.
    hidden_s = one.lease_s + 1
    if one.receipt:
        pulling.hide(ports, one.receipt, hidden_s)
    result = worker_calls.heartbeat(ports, key, one.token, one.lease_s)
    if isinstance(result, Declined):
        if one.receipt and result.reason == HANDED_BACK:
            pulling.hide(ports, one.receipt, -(-result.retry_after_ms // SECOND_MS))
        return result
    left_s = _seconds_left(ports, result.lease_until_ms) + 1
    if one.receipt and left_s < hidden_s:  # near its bound; a release just here is seen when that would have come
        pulling.hide(ports, one.receipt, left_s)
    extended: ExtendedLease = {
        "ref": one.ref,
        "accepted": True,
        "lease_until": iso_ms(result.lease_until_ms),
        "lease_ms": _lease_ms(ports, result.lease_until_ms),
    }
    if result.cancel:
        extended["cancel"] = True
    return extended


def _end(ports: Ports, one: CompleteOneIn, key: LedgerKey) -> EndedRun | Declined:
    result = _ended(ports, one, key)
    if one.receipt and (isinstance(result, Ended) or result.discard):
        pulling.discard(ports, one.receipt)
    if isinstance(result, Declined):
        return result
    ended: EndedRun = {"ref": one.ref, "accepted": True, "status": result.status}
    if result.retry_at_ms:
        ended["retry_at"] = iso(result.retry_at_ms)
    return ended


def _ended(ports: Ports, one: CompleteOneIn, key: LedgerKey) -> Ended | Declined:
    if one.outcome == "succeeded":
        return worker_calls.complete(ports, key, one.token)
    if one.outcome == "cancelled":
        return worker_calls.acknowledge_cancel(ports, key, one.token, one.error)
    return worker_calls.fail(
        ports,
        key,
        one.token,
        one.error,
        permanent=one.outcome == "failed_permanent",
        error_class=one.error_class,
        retry_after_s=one.retry_after_s,
    )


def _lease_ms(ports: Ports, until_ms: int) -> int:
    """How long a lease lasts from now, for a worker whose clock is another (W14)."""
    return max(0, until_ms - ports.clock.now_ms())


def _seconds_left(ports: Ports, until_ms: int) -> int:
    return max(0, -(-(until_ms - ports.clock.now_ms()) // SECOND_MS))


def _release(ports: Ports, one: ReleaseOneIn, key: LedgerKey) -> ReleasedRun | Declined:
    result = worker_calls.hand_back(ports, key, one.token, one.stops_in_s)
    if isinstance(result, Declined):
        return result
    if one.receipt:
        pulling.hide(ports, one.receipt, one.stops_in_s)
    return {"ref": one.ref, "accepted": True, "status": result.status}


def _key_of(one: BeatOneIn | CompleteOneIn | ReleaseOneIn | UnhandledOneIn, where: str) -> LedgerKey:
    return key_of(one.ref, f"{where}ref")


def _start_request(worker: str, one: StartOneIn, where: str) -> StartRequest:
    key = key_of(one.ref, f"{where}ref")
    retry = key_of(one.retry_ref, f"{where}retry_ref") if one.retry_ref else None
    if points(key.kind) or (retry is not None and not is_retry_of(retry, key)):
        raise InvalidField(
            "it does not belong to this run", field=f"{where}retry_ref", remedy="hand back the refs of the message"
        )
    return StartRequest(
        key, one.claim, worker, one.lease_s, one.attempt, retry, one.dispatched_at_ms, one.dispatched_by
    )


def _check_pool(pool: str, layout: Layout) -> None:
    pools = [name for name in layout.pools if name != PUSH_POOL]
    if pool not in pools and not is_pool_id(pool):
        raise NotFound(
            f"there is no pool {pool[:80]!r} for workers here",
            field="pool",
            remedy=f"pools of this environment: {', '.join(pools)}",
        )


_POOL = PathPart("pool", "A pool of workers", "payments", _check_pool)

ROUTES = (
    Route("POST", "/runs:start", start_runs, StartIn, NoQuery, StartAnswer),
    Route("POST", "/runs:heartbeat", heartbeat_runs, BeatIn, NoQuery, HeartbeatAnswer),
    Route("POST", "/runs:complete", complete_runs, CompleteIn, NoQuery, CompleteAnswer),
    Route("POST", "/runs:release", release_runs, ReleaseIn, NoQuery, ReleaseAnswer),
    Route("POST", "/runs:unhandled", count_unhandled_runs, UnhandledIn, NoQuery, UnhandledAnswer),
    Route("POST", "/pools/{pool}:lease", lease_runs, LeaseIn, NoQuery, LeaseAnswer, at=(_POOL,), errors=(NotFound,)),
)
