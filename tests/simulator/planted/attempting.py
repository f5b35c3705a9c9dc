"""Planted bugs in starting, extending and ending attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch, one_by_one, unconditional
from tickwork.core.dispatch import chain
from tickwork.core.ledger import deadlines, lifecycle, pending
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.writes import AtLeast, Is, Missing, Update, all_of, any_of
from tickwork.core.runs import attempts, endings
from tickwork.core.runs.attempts import Declined, Try
from tickwork.flows.dispatch import firing
from tickwork.flows.runs import finishing, worker_calls
from tickwork.worker.process import Worker


def _lost_claim_discards() -> Sequence[Patch]:
    right = attempts.decide_start

    def wrong(*arguments: Any) -> Any:
        decision = right(*arguments)
        return replace(decision, discard=True) if isinstance(decision, Declined) else decision

    return [(attempts, "decide_start", wrong)]


def _start_whatever_status() -> Sequence[Patch]:
    right = attempts.first_start
    return [(attempts, "first_start", lambda request, now_ms: unconditional(right(request, now_ms)))]


def _steal_live_attempt() -> Sequence[Patch]:
    right = attempts.decide_start

    def wrong(run: Run | None, request: Any, work: Any, now_ms: int, retention_s: int) -> Any:
        if run is not None and run.status == lifecycle.RUNNING and run.claim != request.claim:
            return attempts._reclaim(run, request, work, now_ms, retention_s)
        return right(run, request, work, now_ms, retention_s)

    return [(attempts, "decide_start", wrong)]


def _loss_not_recorded() -> Sequence[Patch]:
    right = attempts._reclaim

    def wrong(*arguments: Any) -> Try:
        decided = right(*arguments)
        writes = tuple(replace(w, append={}) if isinstance(w, Update) else w for w in decided.writes)
        return replace(decided, writes=writes)

    return [(attempts, "_reclaim", wrong)]


def _end_without_token() -> Sequence[Patch]:
    without_token = all_of(Is("status", lifecycle.RUNNING))
    return [(module, "running_with", lambda _: without_token) for module in (attempts, endings)]


def _stale_message_starts_retry() -> Sequence[Patch]:
    right = attempts._start_retry

    def wrong(run: Run, request: Any, work: Any, now_ms: int, retention_s: int) -> Any:
        item_at = endings.retry_key(run.key, 0, run.attempt + 1)
        asked = replace(request, attempt=run.attempt + 1, retry=request.retry or item_at)
        decision = right(run, asked, work, now_ms, retention_s)
        return replace(decision, writes=decision.writes[:1]) if isinstance(decision, Try) else decision

    return [(attempts, "_start_retry", wrong)]


def _retry_not_in_transaction() -> Sequence[Patch]:
    return [(module, "commit", one_by_one) for module in (worker_calls, finishing)]


def _cancel_whatever_status() -> Sequence[Patch]:
    right = pending.end_pending
    wrong = lambda *arguments: unconditional(right(*arguments))  # noqa: E731 - planted in two places
    return [(pending, "end_pending", wrong), (chain, "end_pending", wrong)]


def _interruption_counts() -> Sequence[Patch]:
    return [(endings, "is_uncounted", lambda *_: False)]


def _hands_back_whoever_holds() -> Sequence[Patch]:
    right = attempts.hand_back

    def wrong(run: Run, stops_in_ms: int, now_ms: int) -> Any:
        give, *freed = right(run, stops_in_ms, now_ms)
        return (unconditional(give), *freed) if isinstance(give, Update) else (give, *freed)

    return [(attempts, "hand_back", wrong), (endings, "holds", lambda run, _: run.status == lifecycle.RUNNING)]


def _heartbeats_end_with_the_stop() -> Sequence[Patch]:
    right = Worker.stop

    def wrong(worker: Worker) -> None:
        right(worker)
        worker._beats.step = worker._beats.give_up_outlasted = lambda: None  # type: ignore[method-assign]

    return [(Worker, "stop", wrong)]


def _start_does_not_mind_freezes() -> Sequence[Patch]:
    return [(worker_calls, "_unless_frozen", lambda *arguments: arguments[-1])]


def _nobody_minds_freezes() -> Sequence[Patch]:
    return [*_start_does_not_mind_freezes(), *_dispatch_does_not_mind_freezes()]


def _dispatch_does_not_mind_freezes() -> Sequence[Patch]:
    return [(firing, "hold_back", lambda _, messages, *rest: list(messages))]


def _start_does_not_ask_for_the_deadline() -> Sequence[Patch]:
    always = any_of(Missing("start_by_ms"), AtLeast("start_by_ms", 0))
    return [(deadlines, "in_time", lambda _: always)]


def _deadline_passes_before_its_time() -> Sequence[Patch]:
    right = deadlines.is_too_late
    return [(deadlines, "is_too_late", lambda run, now_ms: right(run, now_ms + 30_000))]


BUGS = (
    Bug("a start does not ask for the deadline", _start_does_not_ask_for_the_deadline),
    Bug("a deadline passes before its time", _deadline_passes_before_its_time),
    Bug("an interrupted attempt counts", _interruption_counts),
    Bug("a run is handed back whoever holds it", _hands_back_whoever_holds),
    Bug("heartbeats end when a shutdown begins", _heartbeats_end_with_the_stop),
    Bug("a worker starts in a freeze what was queued before it", _start_does_not_mind_freezes),
    Bug("nobody minds a freeze", _nobody_minds_freezes),
    Bug("delete the message of a lost claim", _lost_claim_discards),
    Bug("start whatever the status", _start_whatever_status),
    Bug("take a run from a live attempt", _steal_live_attempt),
    Bug("a lost attempt is not recorded", _loss_not_recorded),
    Bug("complete without the token", _end_without_token),
    Bug("a stale message starts a waiting run", _stale_message_starts_retry),
    Bug("the retry is not in the failure's transaction", _retry_not_in_transaction),
    Bug("cancel whatever the status", _cancel_whatever_status),
)
