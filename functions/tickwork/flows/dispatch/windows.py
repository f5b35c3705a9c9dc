"""One window of a slice: announce, read, next, send, advance (design 3). Level-triggered: whatever tick woke us,
everything from `done` up to now is served. After an outage the last minute is served first; what was missed before
that comes behind it, at a fifth of the slice's capacity (core/backlog); and behind that, what was set aside because
something failed that the rest of the slice has nothing to do with (core/set_aside).

Protects cursor-honest, chain-unbroken, one-owner-effect. A crash between any two steps repeats the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from tickwork.core.dispatch import outcomes, set_aside, shares
from tickwork.core.dispatch.outcomes import ALREADY, EARLY, FENCED, HELD, OUT_OF_TIME, SERVED, UNSURE
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS, second_of
from tickwork.core.ledger.messages import Tick
from tickwork.flows.dispatch import bounding, catching_up, leasing, live
from tickwork.flows.dispatch.fired import Fenced, TokenRefused
from tickwork.flows.dispatch.leasing import Holding
from tickwork.flows.dispatch.pauses_seen import PausesSeen
from tickwork.flows.dispatch.sending import send_ticks
from tickwork.flows.dispatch.serving import Serving
from tickwork.flows.dispatch.stopwatch import ADVANCE, ANNOUNCE, Stopwatch
from tickwork.ports import Ports

BACKLOG_MS_MAX = 2_000
"""Windows served one after the other spend at most this, together, on what was missed in an outage, so that what is
due meanwhile waits no longer; and as much again on what was set aside."""

EARLY_TICK_WAIT_MS = 1_500
"""A tick that is early by less than this is waited for; one that is earlier goes back to its queue."""

CLOCKS_APART_S = 30
"""Further than this no two clocks are that somebody keeps."""

UNSURE_WAIT_MS = 2_000
"""A window that was too slow to trust its lease comes again soon: the next tries have a fresh one."""

NEEDS_RETRY = frozenset({HELD, EARLY, UNSURE, OUT_OF_TIME})
"""Outcomes after which the tick must come again: nobody else is sure to serve its second."""


@dataclass(frozen=True, slots=True)
class WindowReport:
    """How a window ended, up to which second, and what it did. `wait_ms`: how long before a retry makes sense."""

    outcome: str
    done: int
    sent: int = 0
    skipped: int = 0
    set_aside: int = 0
    wait_ms: int = 0
    late: int = 0
    """Of those sent, the ones that had been missed in an outage."""

    @property
    def needs_retry(self) -> bool:
        return self.outcome in NEEDS_RETRY


def run_window(
    ports: Ports, slice_no: int, second: int, *, budget_ms: int = 8_000, backlog_ms: int = BACKLOG_MS_MAX
) -> WindowReport:
    """Serve a slice up to now, woken by the tick for `second`. Stops after `budget_ms`, of which at most `backlog_ms`
    go to what was missed, with the cursor where it honestly is; the next window goes on from there."""
    report = _run(ports, slice_no, second, budget_ms, backlog_ms)
    ports.signals.count("scheduler.windows_total", outcome=report.outcome)
    return report


def latest_due(ports: Ports, seconds: Iterable[int]) -> int:
    """Of the ticks that a slice has in one batch, the second to serve: the latest that is due, for it serves those
    before it; when none is, the first to come. One that is early keeps no due one waiting."""
    ordered = sorted(seconds)
    horizon = (ports.clock.now_ms() + EARLY_TICK_WAIT_MS) // SECOND_MS
    return max((second for second in ordered if second <= horizon), default=ordered[0])


def _run(ports: Ports, slice_no: int, second: int, budget_ms: int, backlog_ms: int) -> WindowReport:
    early_ms = second * SECOND_MS - ports.clock.now_ms()
    if early_ms > EARLY_TICK_WAIT_MS:
        return WindowReport(EARLY, 0, wait_ms=early_ms)
    if early_ms > 0:
        ports.clock.sleep_ms(early_ms)
    until = max(second_of(ports.clock.now_ms()), second)
    watch = Stopwatch.started(ports.clock)
    holding = leasing.take(ports, slice_no, until, ports.ids.unique())
    _compare_clocks(ports, holding.lease if isinstance(holding, Holding) else holding)
    if not isinstance(holding, Holding):
        if holding.done >= second and not _has_rows_due(ports, holding):
            return WindowReport(ALREADY, holding.done)
        left_ms = max(0, holding.lease_until_ms - ports.clock.now_ms())
        return WindowReport(HELD, holding.done, wait_ms=min(left_ms, SECOND_MS))
    watch.lap(ANNOUNCE)
    deadline_ms = ports.clock.monotonic_ms() + budget_ms
    pauses = PausesSeen(ports, watch)
    return serve(Serving(ports, slice_no, until, holding, deadline_ms, watch, backlog_ms, pauses))


def _has_rows_due(ports: Ports, lease: SliceLease) -> bool:
    """Whether there is more to do than what is due: whoever has the slice may have died of it."""
    return 0 < lease.aside_s <= second_of(ports.clock.now_ms())


def _compare_clocks(ports: Ports, lease: SliceLease) -> None:
    """Of a lease that was written far in the future our clock is late, or its writer's is early. Nothing is lost by it,
    but it costs lag, and no clock that is kept does that."""
    now_s = second_of(ports.clock.now_ms())
    if lease.closing > now_s + CLOCKS_APART_S:
        ports.signals.count("scheduler.clocks_differ_total", slice=lease.slice)
        ports.signals.log("clocks_differ", slice=lease.slice, closing=lease.closing, now=now_s)


def serve(it: Serving) -> WindowReport:
    """What is due, then what was missed, then what was set aside."""
    try:
        outcome = _serve(it)
    except Fenced as error:
        outcome = FENCED if it.holding.is_refused or isinstance(error, TokenRefused) else UNSURE
        if outcome == UNSURE:  # if it is ours still, the next window need not wait for it to lapse
            with suppress(WorldError):
                leasing.give_back(it.ports, it.holding)
    it.watch.lap(ADVANCE)
    bounding.tell(it, is_pressed=outcome == OUT_OF_TIME or it.shares.is_cut_short or it.holding.lease.late_until > 0)
    if it.owed is not None:
        raise it.owed
    return _report(it, outcome)


def _serve(it: Serving) -> str:
    before = it.holding.lease
    bounding.bound(it)
    it.shares.alone_until_ms = it.ports.clock.monotonic_ms() + shares.ALONE_MS
    if before.aside_s:  # a slice without rows, which most are, reads nothing more
        it.rows = leasing.read_aside(it.ports, before.slice)
        it.held = {who for who, row in it.rows.items() if row.tries}
        it.shares.waiting = {who.name for who in it.rows if who.kind == set_aside.TEAM}
    rows_due = before.aside_s > 0 and (catching_up.has_due_rows(it) or not it.rows)
    if not live.serve_live(it, stays=rows_due):
        return OUT_OF_TIME
    rows_due = rows_due or bool(it.shares.waiting)
    deadline_ms, share_ms = it.deadline_ms, it.backlog_ms
    if it.holding.lease.late_until:
        it.deadline_ms = min(deadline_ms, it.ports.clock.monotonic_ms() + share_ms)
        catching_up.serve_backlog(it, it.until - before.done, stays=rows_due)
    if rows_due:
        it.deadline_ms = min(deadline_ms, it.ports.clock.monotonic_ms() + share_ms)
        catching_up.serve_rows(it, it.until - before.done)
    _wake_next(it, before.aside_s)
    return SERVED


def _wake_next(it: Serving, aside_s_before: int) -> None:
    """Ticks for what is left: of the backlog there is more at once, of the rows at their next try, which for those of
    teams has mostly come by now. It is sent by the window that sets that; should it be lost, the window of each minute
    looks at the rows too."""
    lease, seconds = it.holding.lease, set[int]()
    if lease.late_until:
        seconds.add(it.now_s + 1)
    if lease.aside_s and lease.aside_s != aside_s_before:
        seconds.add(max(lease.aside_s, lease.done + 1))
    seconds |= it.pauses.ends_ahead(it.rows)
    if seconds:
        send_ticks(it.ports, {Tick(it.ports.layout.cell, it.slice_no, second) for second in seconds})


def _report(it: Serving, outcome: str) -> WindowReport:
    total, lease = it.total, it.holding.lease
    report = WindowReport(outcome, lease.done, total.sent, total.skipped, total.set_aside, late=it.late)
    if outcome == UNSURE:
        it.ports.signals.count("scheduler.windows_unsure_total", slice=lease.slice)
        report = WindowReport(outcome, lease.done, total.sent, total.skipped, total.set_aside, UNSURE_WAIT_MS, it.late)
    if it.late:
        it.ports.signals.count("scheduler.caught_up_total", it.late, slice=lease.slice)
    failing = sum(who.kind != set_aside.PAUSE for who in it.rows)
    if failing:
        it.ports.signals.observe("scheduler.set_aside_rows", failing, slice=lease.slice)
    if _is_told(it, outcome):
        it.ports.signals.log(
            "window",
            slice=lease.slice,
            token=lease.token,
            outcome=outcome,
            done=report.done,
            sent=total.sent,
            skipped=total.skipped,
            set_aside=total.set_aside,
            late=it.late,
            rows=len(it.rows),
            **it.watch.facts(),
        )
    return report


def _is_told(it: Serving, outcome: str) -> bool:
    """Of a window that had nothing to do there is nothing to tell."""
    total, lease = it.total, it.holding.lease
    if outcome == SERVED and not (total.sent or total.skipped or total.set_aside):
        return False
    is_ordinary = outcome == SERVED and not (total.set_aside or total.skipped or it.late or it.rows)
    return outcomes.is_told(
        lease.slice,
        lease.token,
        lease.done,
        it.ports.layout.log_one_in,
        took_ms=it.watch.whole_ms,
        lag_ms=total.lag_ms,
        is_ordinary=is_ordinary,
    )
