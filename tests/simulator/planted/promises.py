"""Planted bugs that lose nothing: they cost lag, an attempt, or what the audit would have found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import set_aside, slices
from tickwork.core.instants import SECOND_MS
from tickwork.core.runs import endings
from tickwork.flows.audit import auditing
from tickwork.flows.dispatch import creating, sending, serving, tick_batches, ticking
from tickwork.flows.ledger.commit import commit


def _unsent_ticks_are_noted() -> Sequence[Patch]:
    right = sending.send_ticks

    def wrong(ports: Any, ticks: Any) -> int:
        ticks = list(ticks)
        right(ports, ticks[1:])
        return len(ticks)

    return [(ticking, "send_ticks", wrong), (creating, "send_ticks", wrong)]


def _no_tick_for_the_next() -> Sequence[Patch]:
    return [(serving, "send_ticks", lambda *_: 0)]


def _minute_not_looked_at() -> Sequence[Patch]:
    right = ticking._due_seconds
    wrong = lambda ports, slice_no, first, horizon, *rest: right(ports, slice_no, first, horizon - 60, *rest)  # noqa: E731
    return [(ticking, "_due_seconds", wrong)]


def _failed_windows_give_up_their_ticks() -> Sequence[Patch]:
    right = tick_batches.TickBatch._window

    def wrong(*arguments: Any) -> int | None:
        wait_ms = right(*arguments)
        return None if wait_ms == SECOND_MS else wait_ms

    return [(tick_batches.TickBatch, "_window", wrong)]


def _ticks_hidden_for_long() -> Sequence[Patch]:
    right = tick_batches.TickBatch._hide
    return [(tick_batches.TickBatch, "_hide", lambda self, receipt, _: right(self, receipt, 30_000))]


def _last_row_is_tried_first() -> Sequence[Patch]:
    return [(set_aside, "earliest", lambda rows: max((row.next_try_s for row in rows.values()), default=0))]


def _audit_passes_what_it_cannot_read() -> Sequence[Patch]:
    right = slices.audit_done
    forgets = lambda ports, lease, cursor, passed, _: bool(commit(ports, right(lease, cursor, passed)))  # noqa: E731
    return [(auditing, "_move", forgets)]


def _one_attempt_more() -> Sequence[Patch]:
    right = endings.why_no_retry

    def wrong(run: Any, failure: Any, work: Any) -> Any:
        more = replace(work.retry, max_attempts=work.retry.max_attempts + 1)
        return right(run, failure, replace(work, retry=more))

    return [(endings, "why_no_retry", wrong)]


BUGS = (
    Bug("ticks that were not sent are noted", _unsent_ticks_are_noted),
    Bug("a window brings no tick for what it puts next", _no_tick_for_the_next),
    Bug("a ticker does not look at its last minute", _minute_not_looked_at),
    Bug("a window that failed gives up its tick", _failed_windows_give_up_their_ticks),
    Bug("a tick that comes back is hidden for long", _ticks_hidden_for_long),
    Bug("the next try of a slice is that of its last row", _last_row_is_tried_first),
    Bug("the audit passes what it could not read", _audit_passes_what_it_cannot_read),
    Bug("a run has one attempt more than its policy says", _one_attempt_more),
)
