"""Pushing runs to URLs: for teams that have an endpoint and no worker, the platform is the worker (W9).

For each message: look whether the target's breaker is closed, start the run, post, record the outcome. Protects
no-lost-timer as any worker does: the message is deleted only after the end was accepted. A crash between the post and
that makes the attempt `lost`, and the push is repeated with the same `Idempotency-Key`. The limit of pushes to one
target is a resource with slots, like any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tickwork.core.access.hiding import without_values
from tickwork.core.errors import CallerError, WorldError
from tickwork.core.instants import SECOND_MS, second_of
from tickwork.core.ledger.messages import compact_json, read_ready, ref_in
from tickwork.core.ledger.tables import RESOURCES
from tickwork.core.ledger.writes import Committed, Item
from tickwork.core.runs import breaker, pushes
from tickwork.core.runs.attempts import Declined
from tickwork.core.runs.breaker import Breaker
from tickwork.core.runs.push_targets import Target, parse_target
from tickwork.core.runs.pushes import Answer, Outcome
from tickwork.flows.ledger.commit import commit
from tickwork.flows.runs import isolating, pulling, worker_calls
from tickwork.flows.runs.finishing import Ended
from tickwork.flows.runs.pulling import Leased, Settled
from tickwork.ports import InMessage, Ports, Poster

WORKER = "push"
LEASE_S = 30
"""Three times the longest exchange: no heartbeat is needed."""
SPARE_MS = 1_000
"""Of the lease after the exchange, to record what came of it: a tenth of a lease that `max_duration_s` makes short."""


@dataclass(frozen=True, slots=True)
class Pusher:
    """How pushes leave: by what, signed with which master secrets (the newest first)."""

    poster: Poster
    secrets: Sequence[str]


def push_message(ports: Ports, pusher: Pusher, pool: str, message: InMessage) -> bool:
    """Work one message off; False when it must stay in its queue (it has been hidden for as long as makes sense)."""
    target = _target_of(ports, message)
    if target is None:
        started = pulling.start_message(ports, pool, message, WORKER, LEASE_S)
        return _give_up(ports, started) if isinstance(started, Leased) else not started.kept
    receipt = pulling.receipt_of(pool, message.receipt)
    team = str(read_ready(message.body)["job_id"]).partition(":")[0]
    key = breaker.breaker_key(team, target.resource)
    read = Breaker.from_item(ports.store.get(RESOURCES, key))
    wait_ms = _wait_ms(ports, key, read)
    if wait_ms:
        pulling.hide(ports, receipt, -(-wait_ms // SECOND_MS))
        return False
    asked_ms = ports.clock.monotonic_ms()
    started = pulling.start_message(ports, pool, message, WORKER, LEASE_S)
    if isinstance(started, Settled):
        return not started.kept
    timeout_ms = _time_left_ms(ports, started, asked_ms)
    if timeout_ms <= 0:
        return _hand_back(ports, started)
    payload = _payload(started)
    answer = pusher.poster.post(target, *_request(ports, pusher, started, payload), timeout_ms=timeout_ms)
    answer = replace(answer, detail=without_values(answer.detail, payload))  # many tell what they were sent
    outcome = pushes.judge(answer, ports.clock.now_ms())
    try:
        _note_health(ports, key, read, outcome)
    except WorldError as error:
        ports.signals.log("push_health_not_noted", error=repr(error))  # what was pushed is still recorded
    return _end(ports, started, outcome)


def _time_left_ms(ports: Ports, leased: Leased, asked_ms: int) -> int:
    """How long the exchange may take: never past the attempt's lease (W14). `asked_ms`: monotonic, before the start."""
    granted_ms = leased.run.lease_until_ms - leased.run.started_at_ms
    trusted_ms = asked_ms + granted_ms - ports.clock.monotonic_ms()
    return min(pushes.TIMEOUT_MS, trusted_ms - min(SPARE_MS, trusted_ms // 10))


def _hand_back(ports: Ports, leased: Leased) -> bool:
    """No time was left for the exchange, and nothing has been sent: the next try has all of it (W12)."""
    given = worker_calls.hand_back(ports, leased.run.key, leased.run.token)
    if isinstance(given, Ended):
        pulling.hide(ports, leased.receipt, 0)
    return False


def _target_of(ports: Ports, message: InMessage) -> Target | None:
    """None when the message is none, or its target has become one that is not pushed to."""
    try:
        return parse_target(str(read_ready(message.body)["url"]), allow_private=ports.layout.push_private)
    except (KeyError, ValueError, CallerError):
        return None


def _give_up(ports: Ports, leased: Leased) -> bool:
    refused = Answer(0, error_class="AddressRefused", detail="its target is none that may be pushed to")
    return _end(ports, leased, pushes.judge(refused, ports.clock.now_ms()))


def _wait_ms(ports: Ports, key: Item, read: Breaker) -> int:
    """How long an open target is left alone; 0 when it is healthy, or when it is ours to try."""
    if not read.is_tripped:
        return 0
    now_ms = ports.clock.now_ms()
    if now_ms < read.open_until_ms:
        return read.open_until_ms - now_ms
    won = isinstance(commit(ports, breaker.probe(key, read, now_ms)), Committed)
    return 0 if won else breaker.PROBE_MS


def _payload(leased: Leased) -> Any:
    return leased.message.get("payload") if leased.payload is None else json.loads(leased.payload)


def _request(ports: Ports, pusher: Pusher, leased: Leased, payload: Any) -> tuple[bytes, dict[str, str]]:
    """Body and headers."""
    message, run = leased.message, leased.run
    sent = ("run_id", "job_id", "scheduled_at", "fire_at", "previous_at", "next_at", "kind", "occurrence_id")
    body: dict[str, Any] = {name: message[name] for name in sent if name in message}
    body |= {"attempt": run.attempt, "token": run.token, "payload": payload}
    encoded = compact_json(body).encode()
    secrets = [pushes.team_secret(master, run.key.team) for master in pusher.secrets]
    at_s = second_of(ports.clock.now_ms())
    return encoded, {
        "Content-Type": "application/json",
        "User-Agent": "tickwork-push/1",
        "Idempotency-Key": run.run_id,
        "Tickwork-Attempt": str(run.attempt),
        "Tickwork-Token": str(run.token),
        "Tickwork-Signature": pushes.signature(secrets, at_s, run.run_id, encoded),
    }


def _note_health(ports: Ports, key: Item, read: Breaker, outcome: Outcome) -> None:
    """Read again after a probe moved it; a refusal means that another push has just said the same or better."""
    if not outcome.trips and read == Breaker():
        return
    standing = Breaker.from_item(ports.store.get(RESOURCES, key))
    if outcome.trips:
        commit(ports, breaker.failed(key, standing, ports.clock.now_ms()))
        if standing.failures + 1 == breaker.TRIP_AFTER:
            ports.signals.count("push.breaker_opened_total")
            ports.signals.log("breaker_opened", target=str(key["resource"]), error=outcome.error)
    elif standing != Breaker():
        commit(ports, breaker.healed(key, standing))


def _end(ports: Ports, leased: Leased, outcome: Outcome) -> bool:
    """Record the attempt's end, then let the message go."""
    run = leased.run
    if outcome.succeeded:
        ended = worker_calls.complete(ports, run.key, run.token)
    else:
        ended = worker_calls.fail(
            ports,
            run.key,
            run.token,
            outcome.error,
            permanent=outcome.permanent,
            error_class=outcome.error_class,
            retry_after_s=outcome.retry_after_s,
        )
    if isinstance(ended, Declined) and not ended.discard:
        return False
    pulling.discard(ports, leased.receipt)
    return True


def push_batch(ports: Ports, pusher: Pusher, pool: str, messages: Mapping[str, InMessage]) -> list[str]:
    """Work a batch off; the ids of the messages that must stay. What fails keeps its own message, not the others'."""
    return [name for name, message in messages.items() if not _push_alone(ports, pusher, pool, message)]


def _push_alone(ports: Ports, pusher: Pusher, pool: str, message: InMessage) -> bool:
    """Push a message; whatever fails, fails this one (F14)."""
    try:
        return push_message(ports, pusher, pool, message)
    except WorldError as error:
        ports.signals.log("push_failed", error=repr(error))
    except Exception as error:  # noqa: BLE001 - one target or message must not end the loop
        isolating.tell(ports, ref_in(message.body), error)
        pulling.hide(ports, pulling.receipt_of(pool, message.receipt), isolating.TRY_AGAIN_S)
    return False


def push_some(ports: Ports, pusher: Pusher, pool: str, *, wait_s: int) -> int:
    """Receive one message and work it off; how many there were (0 or 1). What a loop of a pushing process calls."""
    found = list(pulling.receive(ports, pool, 1, wait_s))
    for message in found:
        _push_alone(ports, pusher, pool, message)
    return len(found)
