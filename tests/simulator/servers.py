"""The service's own processes: tickers, scanners, reconcilers, and the workers of a pool."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulator.elements import BROKEN, FLAKY, retries_after
from tests.simulator.rollouts import work_as_planned
from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_ref, slice_key
from tickwork.core.ledger.messages import read_ready
from tickwork.core.ledger.queues import SCANNER_RESERVE_MS, SCANNER_TIMEOUT_S
from tickwork.core.ledger.tables import JOBS, LEASES, PAYLOADS, TIMERS
from tickwork.core.ledger.work import RetryPolicy
from tickwork.core.runs.attempts import Declined, StartRequest
from tickwork.flows.audit.reconciling import BUDGET_MS, reconcile
from tickwork.flows.dispatch.tick_batches import TickBatch
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.ledger import payloads
from tickwork.flows.runs import worker_calls
from tickwork.flows.runs.finishing import Ended
from tickwork.testing.process import FAILED, Process
from tickwork.testing.queue import Message, SimQueue

if TYPE_CHECKING:
    from tests.simulator.world import World

_CALL_TRIES_MAX = 3
_FAILS_SHARE, _PERMANENT_SHARE = 0.2, 0.03
_BUDGET_MS = SCANNER_TIMEOUT_S * SECOND_MS - SCANNER_RESERVE_MS


def tick(world: World) -> None:
    """One run of the ticker."""
    _serve(world, "ticker", lambda process: issue_ticks(process.ports))


def audit(world: World) -> None:
    """One pass of the reconciler. One that tells of something unsent does not answer for it: the next pass looks."""
    budget_ms = BUDGET_MS
    if world.faults.strikes(world.rng, "small_budget"):
        budget_ms = world.rng.randint(5, 600)

    def body(process: Process) -> bool:
        repairs = reconcile(process.ports, budget_ms=budget_ms)
        world.checks.walks.ended(process)
        return repairs.unsent == 0

    _serve(world, "reconciler", body)


def _serve(world: World, kind: str, flow: Callable[[Process], object]) -> None:
    """A process that does this, and answers that all is well unless the answer is False."""
    if kind in world.off:
        return

    def body(process: Process) -> None:
        try:
            is_well = flow(process)
        except WorldError as error:
            process.state = FAILED
            world.seen[f"{kind} {type(error).__name__}"] += 1
            return
        if is_well is False:
            process.state = FAILED
            return
        world.checks.answered(process)

    Process(world, kind, body)


def scan(world: World, messages: list[Message]) -> None:
    """One invocation of the scanner with a batch of ticks; the event source deletes those that are done."""
    queue = world.queues["ticks"]
    received = {message.id: (message.receives, message.visible_at_ms) for message in messages}

    def body(process: Process) -> None:
        budget_ms = _BUDGET_MS
        if world.faults.strikes(world.rng, "small_budget"):
            budget_ms = world.rng.randint(20, 800)
        held = {str(message.id): message.received for message in messages}
        again = TickBatch(process.ports).serve(held, budget_ms=budget_ms)
        _check_taken(world, process, [json.loads(held[name].body) for name in again])
        world.checks.ticks.served(process, messages, frozenset(again), received)
        for message in messages:
            if str(message.id) not in again:
                queue.delete(message.id)
        if not process.gave_up:
            world.checks.answered(process)

    Process(world, "scanner", body)


def _check_taken(world: World, process: Process, ticks: list[dict[str, Any]]) -> None:
    """A slice whose lease has lapsed is its dead owner's no more: the next who comes for what is due takes it (F7)."""
    if process.gave_up:  # a call failed on the way
        return
    for tick in ticks:
        slice_id = slice_key(tick["cell"], tick["slice"])
        lease = world.tables.standing(LEASES, {"slice": slice_id})
        if lease is None or not lease["owner"] or slice_id in process.tokens or tick["second"] <= lease["done"]:
            continue
        is_lapsed = max(lease["lease_until_ms"], tick["second"] * SECOND_MS) <= process.earliest_ms()
        world.expect("bounded-lag", not is_lapsed, f"{process.name} left {slice_id} to an owner whose lease has lapsed")


def work(world: World, queue: str, messages: list[Message]) -> None:
    """Workers take one message each."""
    for message in messages:
        _Work(world, world.queues[queue], message)


_STALLS_SHARE = 0.3
"""Of slow jobs: its process stands still for three leases, and then goes on as if nothing had been."""


class _Work:
    """One message in a worker's hands: start, heartbeat, complete or fail, delete."""

    def __init__(self, world: World, queue: SimQueue, message: Message) -> None:
        self.world = world
        self.message = message
        self.queue = queue
        Process(world, "worker", self.run)

    def run(self, process: Process) -> None:
        try:
            body = read_ready(self.message.body)
        except (ValueError, RecursionError):  # no message: it is left, until its queue gives it up
            self.world.seen["worker met a bad message"] += 1
            return
        key, lease_s = parse_ref(body["ref"]), int(body["lease_s"])
        request = _request(process, key, body)
        payload_id = body.get("payload_id")
        if self.world.meddler.is_curious():
            self._ask_for_anothers(process, key, request)
        started = self._patiently(process, lambda: worker_calls.start(process.ports, request, payload_id))
        if started is None:
            return
        if isinstance(started, Declined):
            self._declined(process, "start", started)
            if started.reason == "no_slot":
                self.world.checks.waiters.declined(process, key.ref, process.began_true_ms)
            return
        self._check_payload(key.ref, body, started.payload)
        self.world.checks.ledger.granted(key.ref, started.run.token, request.claim, request.attempt)
        self.world.checks.groups.granted(process, key.ref, started.run.token, process.began_true_ms)
        self.world.checks.ledger.promised(key.ref, started.run.token, started.run.lease_until_ms)
        self.world.seen["start granted" if started.run.attempt == 1 else "start granted again"] += 1
        if self.world.faults.strikes(self.world.rng, "faulty_worker"):
            self.world.seen["faulty_worker"] += 1
            self._try(process, "delete message", lambda: self.queue.delete(self.message.id))
        if self._work_on(process, key, started.run.token, lease_s):
            self._end(process, key, started.run.token)

    def _ask_for_anothers(self, process: Process, key: LedgerKey, request: StartRequest) -> None:
        """A start names the payload of somebody else: it is not handed out (tenant-wall)."""
        foreign = [str(one["payload_id"]) for one in self.world.tables.items(PAYLOADS)]
        for payload_id in [one for one in foreign if not one.startswith(f"{key.job_id}#")][:1]:
            read = partial(payloads.read_payload, process.ports, request.key, payload_id)
            found = self._patiently(process, read)
            self.world.expect("tenant-wall", found is None, f"a start of {key.ref} was given {payload_id}")
            self.world.seen["asked for another's payload"] += 1

    def _check_payload(self, ref: str, body: dict[str, Any], payload: str | None) -> None:
        """Every start brings the payload that the definition has, wherever it is kept."""
        if "payload_id" not in body and payload is None:
            self.world.expect("payload", body.get("payload", {}).get("n") == 1, f"{ref} came with {body}")
            return
        self.world.seen["payload kept apart"] += 1
        self.world.expect("payload", payload is not None and json.loads(payload)["n"] == 1, f"{ref} got {payload}")

    def _work_on(self, process: Process, key: LedgerKey, token: int, lease_s: int) -> bool:
        """The job itself, with heartbeats; False when the lease was lost and the job was stopped."""
        world, rng = self.world, self.world.rng
        slow = world.faults.strikes(rng, "slow_worker")
        left_ms = rng.choice((30_000, 90_000, 160_000, 400_000)) if slow else rng.randint(20, 2_500)
        deaf = slow and world.faults.strikes(rng, "deaf_worker")
        beat_ms = lease_s * SECOND_MS // 3
        stalls = slow and world.apart.random() < _STALLS_SHARE
        while left_ms > 0:
            step_ms = left_ms if deaf else min(left_ms, 9 * beat_ms if stalls else beat_ms)
            stalls = False
            process.ports.clock.sleep_ms(step_ms)
            left_ms -= step_ms
            if left_ms <= 0:
                break
            beat = self._patiently(process, lambda: worker_calls.heartbeat(process.ports, key, token, lease_s))
            if isinstance(beat, Declined):
                self.world.checks.workers.beat_refused(process, key.ref, token, beat.reason)
                self._declined(process, "heartbeat", beat)
                return False
            if beat is not None and beat.cancel:
                ended = self._patiently(process, lambda: worker_calls.acknowledge_cancel(process.ports, key, token))
                self._settle(process, ended)
                return False
            if beat is not None:
                world.seen["heartbeat accepted"] += 1
                world.checks.ledger.promised(key.ref, token, beat.lease_until_ms)
                self._try(process, "extend", lambda: self.queue.delay(self.message.id, lease_s * SECOND_MS))
        return True

    def _end(self, process: Process, key: LedgerKey, token: int) -> None:
        drawn = self.world.rng.random()
        if drawn < _FAILS_SHARE and not self.world.faults.off:
            permanent = drawn < _PERMANENT_SHARE
            error_class = self.world.apart.choice(("", FLAKY, BROKEN))
            if permanent:
                self.world.checks.workers.gave_up.add((key.run_id, token))
            call = lambda: worker_calls.fail(  # noqa: E731
                process.ports, key, token, "it broke", permanent=permanent, error_class=error_class
            )
            ended = self._patiently(process, call)
            self._check_filter(key, error_class, ended)
            self._told(key, token, ended, has_succeeded=False)
            self._settle(process, ended)
            return
        ended = self._patiently(process, lambda: worker_calls.complete(process.ports, key, token))
        self._told(key, token, ended, has_succeeded=True)
        self._settle(process, ended)

    def _told(self, key: LedgerKey, token: int, ended: Ended | Declined | None, *, has_succeeded: bool) -> None:
        if isinstance(ended, Ended):
            self.world.checks.workers.ended(key.ref, token, has_succeeded=has_succeeded)

    def _check_filter(self, key: LedgerKey, error_class: str, ended: Ended | Declined | None) -> None:
        """A class of errors that the policy does not retry ends the run."""
        item = self.world.tables.standing(TIMERS, key.as_item()) or {}
        job = self.world.tables.standing(JOBS, {"job_id": key.job_id}) or {}
        work = item.get("work") or work_as_planned(self.world, job.get("work"), item)
        if isinstance(ended, Ended) and ended.status == "waiting" and isinstance(work, dict) and error_class:
            retry = RetryPolicy.from_item(work.get("retry", {}))
            is_right = retries_after(retry, error_class)
            self.world.expect("retry-filter", is_right, f"{key.ref} is retried after {error_class}, against {retry}")
            self.world.seen["retried by its class"] += bool(retry.retry_on or retry.no_retry_on)

    def _settle(self, process: Process, ended: Ended | Declined | None) -> None:
        """The answer to the end of an attempt: only an accepted one allows the message to go."""
        if ended is None:
            return
        if isinstance(ended, Declined):
            self._declined(process, "end", ended)
            return
        self.world.seen[f"ended {ended.status}"] += 1
        self.world.checks.answered(process)
        self._delete(process)

    def _patiently[T](self, process: Process, call: Callable[[], T]) -> T | None:
        """The call's answer; None when the service was busy each time: the message comes back by itself."""
        for _ in range(_CALL_TRIES_MAX):
            try:
                return call()
            except WorldError as error:
                self.world.seen[f"worker {type(error).__name__}"] += 1
                process.ports.clock.sleep_ms(1_000)
            except Unreadable:  # a definition that somebody has to mend: the message comes back
                self.world.seen["worker told it is unreadable"] += 1
                break
        process.state = FAILED
        return None

    def _declined(self, process: Process, what: str, declined: Declined) -> None:
        self.world.seen[f"{what} declined {declined.reason}"] += 1
        if declined.discard:
            self._delete(process)
        elif declined.retry_after_ms and (not self.world.classes or self.world.rng.random() < 0.5):
            self.queue.delay(self.message.id, declined.retry_after_ms)

    def _delete(self, process: Process) -> None:
        def effect() -> None:
            self.world.checks.ledger.given_up(process, self.message.body)
            self.queue.delete(self.message.id)

        self._try(process, "delete message", effect)

    def _try(self, process: Process, verb: str, effect: Callable[[], None]) -> None:
        """A call to the queue: if it fails, the message comes back, and is declined."""
        try:
            process.call(verb, self.message.id, effect)
        except WorldError:
            self.world.seen["worker's queue call failed"] += 1


def _request(process: Process, key: LedgerKey, body: dict[str, Any]) -> StartRequest:
    """A start by a worker that has other messages in its hands too: all of a host go by one name."""
    return StartRequest(
        key,
        process.ports.ids.unique(),
        f"worker-of-{process.host}",
        int(body["lease_s"]),
        int(body["attempt"]),
        parse_ref(body["retry_ref"]) if "retry_ref" in body else None,
        int(body["dispatched_at_ms"]),
        str(body["dispatched_by"]),
    )
