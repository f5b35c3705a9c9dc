"""Leasing runs for workers that cannot reach the queue: receive, start, and keep the message as a worker would (W8).

Protects no-lost-timer: a message stays in its queue, hidden for as long as the lease, until its run has ended; so a
worker that never got the answer, or died, is noticed by the next receive. It is deleted on a later call that hands
its receipt back, or else by the start that it then meets. A crash
- before the start: the message comes back after `HIDE_S`;
- after the start: the lease lapses, the message comes back, that start records the attempt as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tickwork.core.errors import NotFound, WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.messages import read_ready, ref_in
from tickwork.core.ledger.queues import unhandled_wait_s
from tickwork.core.ledger.records import Run
from tickwork.core.runs.attempts import LEASE_S_MAX, LEASE_S_MIN, Declined, StartRequest
from tickwork.flows.runs import isolating, worker_calls
from tickwork.ports import InMessage, Ports, ready_queue

HIDE_S = 60
"""How long a received message stays hidden before its run has started: all starts of one call fit in it."""
RECEIVE_MAX = 10
LATER_S_MAX = 900
BUSY_S = 2


@dataclass(frozen=True, slots=True)
class Leased:
    """A run that has been started for the caller: its message, itself, its payload (JSON text) if kept apart."""

    message: dict[str, Any]
    run: Run
    payload: str | None
    receipt: str


@dataclass(frozen=True, slots=True)
class Asking:
    """What a worker asks for: at most so many runs, of handlers that it has (None: it does not say), with leases of
    `lease_s` (None: each run's own), waiting up to `wait_s` for the first. `reaches`: whether a team's runs are its."""

    worker: str
    limit: int
    lease_s: int | None
    wait_s: int
    handlers: frozenset[str] | None = None
    reaches: Callable[[str], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Lease:
    """Runs for a worker. `retry_after_s`: there are none, and they were not waited for as long as allowed: the rest,
    for the worker to wait by himself (0: ask again at once)."""

    runs: list[Leased]
    retry_after_s: int = 0


@dataclass(frozen=True, slots=True)
class Settled:
    """A message that started nothing: kept in its queue, hidden for a while, or deleted."""

    kept: bool


def lease_runs(ports: Ports, pool: str, asked: Asking) -> Lease:
    """Runs of a pool, started. Waits for the first message no longer than the layout allows: whoever waits holds an
    execution of the API. May find none."""
    leased: list[Leased] = []
    left_to_others = 0
    began_ms = ports.clock.monotonic_ms()
    wait_s = min(asked.wait_s, ports.layout.long_poll_max_s)
    for message in receive(ports, pool, asked.limit, wait_s):
        if _left_to_others(ports, pool, message, asked):
            left_to_others += 1
            continue
        started = start_message(ports, pool, message, asked.worker, asked.lease_s)
        if isinstance(started, Leased):
            leased.append(started)
    if leased or left_to_others:  # behind what is hidden now may stand what this worker has the handlers for
        return Lease(leased)
    left_ms = wait_s * SECOND_MS - (ports.clock.monotonic_ms() - began_ms)
    return Lease(leased, max(0, left_ms // SECOND_MS))


def _left_to_others(ports: Ports, pool: str, message: InMessage, asked: Asking) -> bool:
    """Whether the worker lacks the handler of a message. It is then hidden, the longer the more often it was received:
    a rollout brings a worker that has it, and until then nothing is written and no attempt used up (W12)."""
    if asked.handlers is None:
        return False
    try:
        body = read_ready(message.body)
    except ValueError:
        return False  # told where it is started
    if body["handler"] in asked.handlers or not asked.reaches(parse_ref(body["ref"]).team):
        return False  # another team's is not hidden from that team's workers
    hide(ports, receipt_of(pool, message.receipt), unhandled_wait_s(message.receives))
    tell_unhandled(ports, body["ref"], body["handler"], asked.worker)
    return True


def tell_unhandled(ports: Ports, ref: str, handler: str, worker: str) -> None:
    """Say that a worker has left a run to others."""
    ports.signals.count("runs.unhandled_total")
    ports.signals.log("run_unhandled", ref=ref, handler=handler, worker=worker)


def receive(ports: Ports, pool: str, limit: int, wait_s: int) -> Iterator[InMessage]:
    """Messages, ten to a call; only the first call waits, and one that brings less than it could is the last."""
    left = limit
    while left > 0:
        asked = min(left, RECEIVE_MAX)
        wait_s = wait_s if left == limit else 0
        found = ports.receiver.receive(ready_queue(pool), limit=asked, wait_s=wait_s, hide_s=HIDE_S)
        yield from found
        left -= len(found)
        if len(found) < asked:
            return


def start_message(ports: Ports, pool: str, message: InMessage, worker: str, lease_s: int | None) -> Leased | Settled:
    """Start the run of a message, and keep or delete the message as the worker protocol demands."""
    receipt = receipt_of(pool, message.receipt)
    try:
        body = read_ready(message.body)
    except ValueError as error:
        # Left where it is: after enough receives SQS moves it to the pool's dead-letter queue.
        ports.signals.count("runs.bad_messages_total", pool=pool)
        ports.signals.log("bad_message", pool=pool, why=str(error), ref=ref_in(message.body), chars=len(message.body))
        return Settled(kept=True)
    try:
        result = worker_calls.start(ports, _request(ports, body, worker, lease_s), body.get("payload_id"))
    except NotFound:
        hide(ports, receipt, 0)  # another team's, in a pool that several share: theirs to take, at once
        return Settled(kept=True)
    except WorldError as error:
        ports.signals.log("lease_busy", ref=body["ref"], error=repr(error))
        hide(ports, receipt, BUSY_S)
        return Settled(kept=True)
    except Exception as error:  # noqa: BLE001 - those that were started before it must reach their worker
        isolating.tell(ports, str(body["ref"]), error)
        hide(ports, receipt, isolating.TRY_AGAIN_S)
        return Settled(kept=True)
    if isinstance(result, Declined):
        _settle(ports, receipt, result)
        return Settled(kept=not result.discard)
    left_ms = result.run.lease_until_ms - ports.clock.now_ms()
    hide(ports, receipt, max(0, -(-left_ms // SECOND_MS) + 1))  # who stood still has let it lapse: at once, then
    return Leased(body, result.run, result.payload, receipt)


def _request(ports: Ports, body: dict[str, Any], worker: str, lease_s: int | None) -> StartRequest:
    asked_s = min(max(lease_s or body["lease_s"], LEASE_S_MIN), LEASE_S_MAX)
    retry = parse_ref(body["retry_ref"]) if "retry_ref" in body else None
    dispatched = (body.get("dispatched_at_ms", 0), body.get("dispatched_by", ""))
    return StartRequest(
        parse_ref(body["ref"]), ports.ids.unique(), worker, asked_s, body["attempt"], retry, *dispatched
    )


def _settle(ports: Ports, receipt: str, declined: Declined) -> None:
    if declined.discard:
        discard(ports, receipt)
    else:
        hide(ports, receipt, min(max(-(-declined.retry_after_ms // SECOND_MS), 1), LATER_S_MAX))


# --- receipts: opaque to the worker, `pool:receipt handle` to us -----------------------------------------------


def receipt_of(pool: str, handle: str) -> str:
    return f"{pool}:{handle}"


def hide(ports: Ports, receipt: str, seconds: int) -> None:
    """Keep a leased run's message hidden. Failing that it only comes back early, and its start is declined."""
    pool, _, handle = receipt.partition(":")
    try:
        ports.receiver.hide(ready_queue(pool), handle, seconds)
    except WorldError as error:
        ports.signals.log("message_not_hidden", pool=pool, error=repr(error))


def discard(ports: Ports, receipt: str) -> None:
    """Delete the message of a run that has ended. Failing that it comes back, and the next start discards it."""
    pool, _, handle = receipt.partition(":")
    try:
        ports.receiver.delete(ready_queue(pool), handle)
    except WorldError as error:
        ports.signals.log("message_not_deleted", pool=pool, error=repr(error))
