"""The worker's calls, batched: start, heartbeat, complete. Each entry is answered on its own.

The wire protocol, for implementers in other languages, is docs/worker-protocol.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from tickwork.api.models import BeatIn, BeatOneIn, CompleteIn, CompleteOneIn, LeaseIn, StartIn, StartOneIn
from tickwork.api.requests import body_of, json_response, key_of
from tickwork.core.errors import InvalidField, NotFound, WorldError
from tickwork.core.instants import SECOND_MS, iso, iso_ms
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.runs.attempts import Declined, StartRequest
from tickwork.flows.runs import isolating, pulling, worker_calls
from tickwork.flows.runs.finishing import Ended
from tickwork.flows.runs.pulling import Leased
from tickwork.ports import PUSH_POOL, Ports


def add_worker_routes(app: APIGatewayHttpResolver, ports: Ports) -> None:
    def answers(entries: list[tuple[str, Callable[[], dict[str, Any]]]]) -> Response[str]:
        return json_response({"runs": [_answer(ports, ref, call) for ref, call in entries]})

    @app.post("/runs:start")
    def start_runs() -> Response[str]:
        body = body_of(app, StartIn)
        asked = [(one, _start_request(one, body.worker, f"runs.{i}.")) for i, one in enumerate(body.runs)]
        return answers([(one.ref, _bind(_start, ports, one, request)) for one, request in asked])

    @app.post("/runs:heartbeat")
    def heartbeat_runs() -> Response[str]:
        asked = [(one, key_of(one.ref, f"runs.{i}.ref")) for i, one in enumerate(body_of(app, BeatIn).runs)]
        return answers([(one.ref, _bind(_beat, ports, one, key)) for one, key in asked])

    @app.post("/runs:complete")
    def complete_runs() -> Response[str]:
        asked = [(one, key_of(one.ref, f"runs.{i}.ref")) for i, one in enumerate(body_of(app, CompleteIn).runs)]
        return answers([(one.ref, _bind(_end, ports, one, key)) for one, key in asked])

    @app.post("/pools/<pool>:lease")
    def lease_runs(pool: str) -> Response[str]:
        pools = [name for name in ports.layout.pools if name != PUSH_POOL]
        if pool not in pools:
            raise NotFound(
                f"there is no pool {pool[:80]!r} for workers here",
                field="pool",
                remedy=f"pools of this environment: {', '.join(pools)}",
            )
        body = body_of(app, LeaseIn)
        asked_ms = ports.clock.monotonic_ms()
        leased = pulling.lease_runs(ports, pool, body.worker, limit=body.max, lease_s=body.lease_s, wait_s=body.wait_s)
        # Read before what is left of the leases: the worker adds the two up, and may not come to more than there is.
        waited_ms = ports.clock.monotonic_ms() - asked_ms
        runs = [told for one in leased if (told := _leased(ports, one)) is not None]
        return json_response({"runs": runs, "waited_ms": waited_ms})


def _leased(ports: Ports, one: Leased) -> dict[str, Any] | None:
    """A started run: the fields of its message, what the start granted, and the receipt to hand back. None when its
    payload is none: its lease lapses, and is recorded as lost."""
    try:
        granted = _granted(ports, one.run, one.payload)
    except ValueError as error:
        isolating.tell(ports, one.run.key.ref, error)
        return None
    return {**one.message, **granted, "receipt": one.receipt}


def _bind(call: Callable[..., dict[str, Any]], *arguments: object) -> Callable[[], dict[str, Any]]:
    return lambda: call(*arguments)


def _answer(ports: Ports, ref: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """One entry of a batch; whatever fails, fails this entry and not its neighbours (F14)."""
    try:
        return {"ref": ref, **call()}
    except WorldError as error:
        ports.signals.log("run_call_busy", ref=ref, error=repr(error))
        return {"ref": ref, "granted": False, "accepted": False, "reason": "busy", "discard": False}
    except Exception as error:  # noqa: BLE001 - the others of the batch must not pay for it
        isolating.tell(ports, ref, error)
        declined = Declined(isolating.UNREADABLE, discard=False, retry_after_ms=isolating.TRY_AGAIN_S * SECOND_MS)
        return {"ref": ref, **_declined(declined)}


def _start(ports: Ports, one: StartOneIn, request: StartRequest) -> dict[str, Any]:
    result = worker_calls.start(ports, request, one.payload_id)
    if isinstance(result, Declined):
        return _declined(result)
    return {"granted": True, **_granted(ports, result.run, result.payload)}


def _granted(ports: Ports, run: Run, payload: str | None) -> dict[str, Any]:
    granted = {"token": run.token, "attempt": run.attempt, **_lease(ports, run.lease_until_ms)}
    return granted | ({"payload": json.loads(payload)} if payload is not None else {})


def _beat(ports: Ports, one: BeatOneIn, key: LedgerKey) -> dict[str, Any]:
    result = worker_calls.heartbeat(ports, key, one.token, one.lease_s)
    if isinstance(result, Declined):
        return _declined(result)
    if one.receipt:
        pulling.hide(ports, one.receipt, _seconds_left(ports, result.lease_until_ms) + 1)
    cancel = {"cancel": True} if result.cancel else {}
    return {"accepted": True, **_lease(ports, result.lease_until_ms), **cancel}


def _end(ports: Ports, one: CompleteOneIn, key: LedgerKey) -> dict[str, Any]:
    if one.outcome == "succeeded":
        result = worker_calls.complete(ports, key, one.token)
    elif one.outcome == "cancelled":
        result = worker_calls.acknowledge_cancel(ports, key, one.token, one.error)
    else:
        result = worker_calls.fail(
            ports,
            key,
            one.token,
            one.error,
            permanent=one.outcome == "failed_permanent",
            error_class=one.error_class,
            retry_after_s=one.retry_after_s,
        )
    if one.receipt and (isinstance(result, Ended) or result.discard):
        pulling.discard(ports, one.receipt)
    if isinstance(result, Declined):
        return _declined(result)
    retry_at = {"retry_at": iso(result.retry_at_ms)} if result.retry_at_ms else {}
    return {"accepted": True, "status": result.status, **retry_at}


def _lease(ports: Ports, until_ms: int) -> dict[str, Any]:
    """Until when a lease lasts, for people; how long from now, for a worker whose clock is another (W14)."""
    return {"lease_until": iso_ms(until_ms), "lease_ms": max(0, until_ms - ports.clock.now_ms())}


def _seconds_left(ports: Ports, until_ms: int) -> int:
    return max(0, -(-(until_ms - ports.clock.now_ms()) // SECOND_MS))


def _declined(result: Declined) -> dict[str, Any]:
    answer = {"granted": False, "accepted": False, "reason": result.reason, "discard": result.discard}
    return answer | ({"retry_after_s": -(-result.retry_after_ms // SECOND_MS)} if result.retry_after_ms else {})


def _start_request(one: StartOneIn, worker: str, where: str) -> StartRequest:
    key = key_of(one.ref, f"{where}ref")
    retry = key_of(one.retry_ref, f"{where}retry_ref") if one.retry_ref else None
    is_of_run = retry is None or (retry.job_id, retry.scheduled_at_ms) == (key.job_id, key.scheduled_at_ms)
    if key.kind or not is_of_run or (retry is not None and not retry.kind):
        raise InvalidField(
            "it does not belong to this run", field=f"{where}retry_ref", remedy="hand back the refs of the message"
        )
    return StartRequest(
        key, one.claim, worker, one.lease_s, one.attempt, retry, one.dispatched_at_ms, one.dispatched_by
    )
