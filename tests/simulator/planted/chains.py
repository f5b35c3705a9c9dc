"""Planted bugs in moving the chain of a recurring job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch, one_by_one
from tickwork.core.dispatch import chain
from tickwork.core.jobs import occurrences
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Check, Committed, Put, Refused, Write
from tickwork.flows.dispatch import fencing, firing, sending, stepping
from tickwork.flows.dispatch.fired import Fired
from tickwork.flows.jobs import registering
from tickwork.ports import Ports


def _next_from_now() -> Sequence[Patch]:
    right = chain.plan_step

    def wrong(job: Any, due: Any, now_ms: int, shards: int, holding: Any) -> Any:
        step = right(job, due, now_ms, shards, holding)
        return replace(step, next=occurrences.following(job, max(now_ms, due.scheduled_at_ms), shards))

    return [(chain, "plan_step", wrong)]


def _refusal_means_resend() -> Sequence[Patch]:
    def wrong(ports: Ports, stale: Run, given: Any, fired: Fired) -> Any:
        item = ports.store.get(JOBS, {"job_id": stale.key.job_id})
        return [stepping.message_of(ports, stale, Job.from_item(item).work, given)] if item else []

    return [(stepping, "_step_again", wrong)]


def _refusal_means_drop() -> Sequence[Patch]:
    return [(stepping, "_step_again", lambda *_: [])]


def _lost_reply_forgotten() -> Sequence[Patch]:
    right = stepping._step_again

    def wrong(ports: Ports, stale: Run, given: Any, fired: Fired) -> Any:
        before = list(fired.materialised)
        messages = right(ports, stale, given, fired)
        fired.materialised[:] = before
        return messages

    return [(stepping, "_step_again", wrong)]


def _send_before_step() -> Sequence[Patch]:
    right = stepping.step_chains

    def wrong(ports: Ports, due: Sequence[Run], known: Any, given: Any, fired: Fired) -> Any:
        early = [stepping.message_of(ports, r, known[r.key.job_id].work, given) for r in due if r.key.job_id in known]
        if early:
            sending.send_ready(ports, early)
        return right(ports, due, known, given, fired)

    return [(firing, "step_chains", wrong)]


def _step_without_transaction() -> Sequence[Patch]:
    def wrong(ports: Ports, *writes: Write) -> Committed | Refused:
        return one_by_one(ports, *(write for write in writes if not isinstance(write, Check)))

    return [(fencing, "commit", wrong)]


def _skip_without_record() -> Sequence[Patch]:
    right = chain.step_writes

    def wrong(*arguments: Any) -> tuple[Write, ...]:
        return tuple(
            write
            for write in right(*arguments)
            if not (isinstance(write, Put) and write.item.get("status") == lifecycle.SKIPPED)
        )

    return [(chain, "step_writes", wrong)]


def _pending_expires() -> Sequence[Patch]:
    right = occurrences.materialise

    def wrong(job: Job, key: LedgerKey, now_ms: int) -> Put:
        write = right(job, key, now_ms)
        return replace(write, item={**write.item, "expires_at_s": now_ms // 1000 + 86_400})

    return [(chain, "materialise", wrong)]


def _delete_leaves_next() -> Sequence[Patch]:
    right = registering._deletion
    return [(registering, "_deletion", lambda *given: [write for write in right(*given) if write.table is not TIMERS])]


def _small_bound_is_ignored() -> Sequence[Patch]:
    right = chain._why_skip

    def wrong(*arguments: Any, is_outage: bool) -> str | None:
        return right(*arguments, is_outage=is_outage) if is_outage else None

    return [(chain, "_why_skip", wrong)]


def _none_skips_what_came_due_afterwards() -> Sequence[Patch]:
    return [(chain, "PUNCTUAL_MS", -(10**9))]


BUGS = (
    Bug("next computed from now", _next_from_now),
    Bug("a refusal always means resend", _refusal_means_resend),
    Bug("a refusal always means drop", _refusal_means_drop),
    Bug("a step whose reply was lost is forgotten", _lost_reply_forgotten),
    Bug("chain moved after the send", _send_before_step),
    Bug("a step without a transaction", _step_without_transaction),
    Bug("a skip without a record", _skip_without_record),
    Bug("a pending item expires", _pending_expires),
    Bug("delete leaves the pending occurrence", _delete_leaves_next),
    Bug("a bound on lateness below a minute is ignored", _small_bound_is_ignored),
    Bug("none skips what came due afterwards", _none_skips_what_came_due_afterwards),
)
