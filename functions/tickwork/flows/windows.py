"""One window of a slice: announce, read, next, send, advance (design 3). Level-triggered: whatever tick woke us,
everything from `done` up to now is served.

Protects cursor-honest, chain-unbroken, one-owner-effect. A crash between any two steps repeats the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tickwork.core import slices
from tickwork.core.instants import SECOND_MS, second_of
from tickwork.core.keys import BUCKET_S, LedgerKey, bucket_of, partition_of, second_range
from tickwork.core.messages import Tick
from tickwork.core.records import Retry, Run
from tickwork.core.tables import TIMERS
from tickwork.core.writes import Item
from tickwork.flows import creating, leasing
from tickwork.flows.firing import Fenced, Fired, Firing, fire, read_items
from tickwork.flows.leasing import Holding
from tickwork.flows.sending import send_ticks
from tickwork.ports import Ports

PAGE_ITEMS_MAX = 500
"""Items read at a time; at most twice as many are decided and sent before the next are read."""

EARLY_TICK_WAIT_MS = 1_500
"""A tick that is early by less than this is waited for; one that is earlier goes back to its queue."""

SERVED, ALREADY, HELD, EARLY, FENCED, UNSENT, OUT_OF_TIME = (
    "served",
    "already",
    "held",
    "early",
    "fenced",
    "unsent",
    "out_of_time",
)
NEEDS_RETRY = frozenset({HELD, EARLY, UNSENT, OUT_OF_TIME})
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

    @property
    def needs_retry(self) -> bool:
        return self.outcome in NEEDS_RETRY


def run_window(ports: Ports, slice_no: int, second: int, *, budget_ms: int = 8_000) -> WindowReport:
    """Serve a slice up to now, woken by the tick for `second`. Stops after `budget_ms`, with the cursor where it
    honestly is; the next window goes on from there."""
    report = _run(ports, slice_no, second, budget_ms)
    ports.signals.count("scheduler.windows_total", outcome=report.outcome)
    return report


def _run(ports: Ports, slice_no: int, second: int, budget_ms: int) -> WindowReport:
    early_ms = second * SECOND_MS - ports.clock.now_ms()
    if early_ms > EARLY_TICK_WAIT_MS:
        return WindowReport(EARLY, 0, wait_ms=early_ms)
    if early_ms > 0:
        ports.clock.sleep_ms(early_ms)
    until = max(second_of(ports.clock.now_ms()), second)
    holding = leasing.take(ports, slice_no, until, ports.ids.unique())
    if not isinstance(holding, Holding):
        if holding.done >= second:
            return WindowReport(ALREADY, holding.done)
        left_ms = max(0, holding.lease_until_ms - ports.clock.now_ms())
        return WindowReport(HELD, holding.done, wait_ms=min(left_ms, SECOND_MS))
    return _Window(ports, slice_no, until, holding, ports.clock.monotonic_ms() + budget_ms).serve()


@dataclass(slots=True)
class _Window:
    ports: Ports
    slice_no: int
    until: int
    holding: Holding
    deadline_ms: int
    stepped: set[LedgerKey] = field(default_factory=set)
    """Occurrences of jobs that this window has fired: the range it reads may show them again."""

    def serve(self) -> WindowReport:
        """Bucket by bucket, so that a long outage moves the cursor as it is worked off."""
        total = Fired()
        outcome = SERVED
        first = self.holding.lease.done + 1
        while first <= self.until:
            last = min(self.until, (bucket_of(first) + 1) * BUCKET_S - 1)
            try:
                total.add(self._serve_range(first, last))
            except Fenced:
                outcome = FENCED
                break
            if total.unsent:
                outcome = UNSENT
                break
            out_of_time = self.ports.clock.monotonic_ms() >= self.deadline_ms
            is_last = last == self.until or out_of_time
            if not leasing.advance(self.ports, self.holding, last, release=is_last):
                outcome = FENCED
                break
            if out_of_time and last < self.until:
                outcome = OUT_OF_TIME
                break
            first = last + 1
        if outcome == UNSENT:
            leasing.give_back(self.ports, self.holding)
        return self._report(outcome, total)

    def _report(self, outcome: str, total: Fired) -> WindowReport:
        report = WindowReport(outcome, self.holding.lease.done, total.sent, total.skipped, total.set_aside)
        if total.sent or total.skipped or outcome != SERVED:
            self.ports.signals.log(
                "window",
                slice=self.holding.lease.slice,
                token=self.holding.lease.token,
                outcome=outcome,
                done=report.done,
                sent=total.sent,
                skipped=total.skipped,
                set_aside=total.set_aside,
            )
        return report

    def _serve_range(self, first: int, last: int) -> Fired:
        total = Fired()
        for items in self._pages(first, last):
            self._fire_all(read_items(self.ports, items), last, total)
        return total

    def _fire_all(self, due: Sequence[Run | Retry], last: int, total: Fired) -> None:
        lease = self.holding.lease
        firing = Firing(f"{lease.slice}#{lease.token}", slices.fence(lease), self._keep)
        for _ in range(creating.ROUNDS_MAX):
            if self.stepped:  # only jobs' occurrences are in it, and most windows fire none
                due = [item for item in due if item.key not in self.stepped]
            if not due:
                return
            self.stepped |= {item.key for item in due if isinstance(item, Run) and item.is_recurring}
            fired = fire(self.ports, due, firing)
            total.add(fired)
            due = creating.read_pending(self.ports, self._see_to(fired.materialised, last))
        total.unsent += len(due)

    def _see_to(self, materialised: list[LedgerKey], last: int) -> list[LedgerKey]:
        """The scanner is the creator of the next items. Those in a range that it has read already it fires itself
        (returned); those in a range it is about to read it will see; those of another slice follow the creator's
        rule; those that are near bring their tick."""
        closing, now_second = self.holding.lease.closing, second_of(self.ports.clock.now_ms())
        horizon = now_second + slices.TICK_HORIZON_S + 2 * BUCKET_S  # the ticker rounds up; and its clock may be ahead
        mine = [key for key in materialised if self.ports.layout.slice_of(key.shard) == self.slice_no]
        others = [key for key in materialised if self.ports.layout.slice_of(key.shard) != self.slice_no]
        if others:
            creating.prepare_slices(self.ports, others)
            creating.follow_up(self.ports, others)
        ticks = {
            Tick(self.ports.layout.cell, self.slice_no, key.fire_second)
            for key in mine
            if closing < key.fire_second <= horizon
        }
        if ticks:
            send_ticks(self.ports, ticks)
        return [key for key in mine if key.fire_second <= last or self.until < key.fire_second <= closing]

    def _keep(self) -> bool:
        return leasing.keep(self.ports, self.holding)

    def _pages(self, first: int, last: int) -> Iterator[list[Item]]:
        """What is due from `first` to `last` (within one bucket) in each shard of the slice. Small pages of several
        shards go together: their jobs then share transactions, and their messages batches."""
        low, high = second_range(first, last)
        gathered: list[Item] = []
        for shard in self.ports.layout.shards_of(self.slice_no):
            partition = partition_of(self.ports.layout.cell, shard, bucket_of(first))
            more: str | None = None
            while True:
                page = self.ports.store.query(TIMERS, partition, low, high, limit=PAGE_ITEMS_MAX, after=more)
                gathered += page.items
                if len(gathered) >= PAGE_ITEMS_MAX:
                    yield gathered
                    gathered = []
                more = page.more
                if more is None:
                    break
        if gathered:
            yield gathered
