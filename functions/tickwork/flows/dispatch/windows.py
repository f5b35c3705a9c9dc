"""One window of a slice: announce, read, next, send, advance (design 3). Level-triggered: whatever tick woke us,
everything from `done` up to now is served. After an outage the last minute is served first; what was missed before
that comes behind it, at a fifth of the slice's capacity (core/backlog).

Protects cursor-honest, chain-unbroken, one-owner-effect. A crash between any two steps repeats the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import batched, groupby

from tickwork.core.dispatch import backlog, slices
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.instants import SECOND_MS, second_of
from tickwork.core.ledger.keys import BUCKET_S, LedgerKey, bucket_of, partition_of, second_in, second_range
from tickwork.core.ledger.messages import Tick
from tickwork.core.ledger.records import Retry, Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.dispatch import creating, leasing
from tickwork.flows.dispatch.firing import Fenced, Fired, Firing, fire, read_items
from tickwork.flows.dispatch.leasing import Holding
from tickwork.flows.dispatch.sending import send_ticks
from tickwork.flows.dispatch.stopwatch import ADVANCE, ANNOUNCE, QUERY, SEND, Stopwatch
from tickwork.flows.ledger.reading import pages
from tickwork.ports import Page, Ports

PAGE_ITEMS_MAX = 500
"""Items read at a time; at most twice as many are decided and sent before the next are read."""

CHAINS_WAITING_MAX = 10_000
"""Occurrences of jobs that wait in memory for the timers of their range: a few hundred bytes each."""

BACKLOG_MS_MAX = 2_000
"""Windows served one after the other spend at most this, together, on what was missed in an outage, so that what is
due meanwhile waits no longer."""

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


def _run(ports: Ports, slice_no: int, second: int, budget_ms: int, backlog_ms: int) -> WindowReport:
    early_ms = second * SECOND_MS - ports.clock.now_ms()
    if early_ms > EARLY_TICK_WAIT_MS:
        return WindowReport(EARLY, 0, wait_ms=early_ms)
    if early_ms > 0:
        ports.clock.sleep_ms(early_ms)
    until = max(second_of(ports.clock.now_ms()), second)
    watch = Stopwatch.started(ports.clock)
    holding = leasing.take(ports, slice_no, until, ports.ids.unique())
    if not isinstance(holding, Holding):
        if holding.done >= second:
            return WindowReport(ALREADY, holding.done)
        left_ms = max(0, holding.lease_until_ms - ports.clock.now_ms())
        return WindowReport(HELD, holding.done, wait_ms=min(left_ms, SECOND_MS))
    watch.lap(ANNOUNCE)
    deadline_ms = ports.clock.monotonic_ms() + budget_ms
    return _Window(ports, slice_no, until, holding, deadline_ms, watch, backlog_ms=backlog_ms).serve()


@dataclass(slots=True)
class _Window:
    ports: Ports
    slice_no: int
    until: int
    holding: Holding
    deadline_ms: int
    watch: Stopwatch
    stepped: set[LedgerKey] = field(default_factory=set)
    """Occurrences of jobs that this window has fired: the range it reads may show them again."""
    backlog_ms: int = BACKLOG_MS_MAX
    late_at: str = ""
    """How far this window has served the backlog."""
    late_next: str = ""
    """The nearest place in the backlog where the last firing has put a next occurrence."""
    late: int = 0
    """How much of the backlog it has sent."""

    def serve(self) -> WindowReport:
        """Bucket by bucket, so that a long outage moves the cursor as it is worked off."""
        total, done_before = Fired(), self.holding.lease.done
        outcome = self._serve_live(total)
        if outcome == SERVED and self.holding.lease.late_until:
            sent_live = total.sent
            outcome = self._serve_backlog(total, self.until - done_before)
            self.late = total.sent - sent_live
        if outcome == UNSENT:
            leasing.give_back(self.ports, self.holding)
        self.watch.lap(ADVANCE)
        return self._report(outcome, total)

    def _serve_live(self, total: Fired) -> str:
        """From the cursor up to now: after an outage, the last minute of that."""
        lease = self.holding.lease
        if backlog.is_outage(lease, self.until):
            opened = backlog.opened(lease, self.until)
            self.ports.signals.log("backlog_opened", slice=lease.slice, first=opened.late_from, last=opened.late_until)
            if not leasing.open_backlog(self.ports, self.holding, opened):
                return FENCED
        first = self.holding.lease.done + 1
        while first <= self.until:
            last = min(self.until, (bucket_of(first) + 1) * BUCKET_S - 1)
            try:
                total.add(self._serve_range(first, last))
            except Fenced:
                return FENCED
            if total.unsent:
                return UNSENT
            out_of_time = self._is_out_of_time()
            is_last = last == self.until
            covering = is_last and bool(self.holding.lease.late_until)
            release = (is_last and not covering) or (out_of_time and not is_last)
            if not leasing.advance(self.ports, self.holding, last, release=release, covering=covering):
                return FENCED
            self.watch.lap(ADVANCE)
            if out_of_time and not is_last:
                return OUT_OF_TIME
            first = last + 1
        return SERVED

    def _serve_backlog(self, total: Fired, seconds: int) -> str:
        """A share of what was missed; then a tick for the next second, for there is more."""
        ports = self.ports
        sent_max = total.sent + backlog.budget(ports.layout.slice_capacity_per_s, seconds)
        self.deadline_ms = min(self.deadline_ms, ports.clock.monotonic_ms() + self.backlog_ms)
        try:
            after = self._work_off(total, sent_max)
        except Fenced:
            return FENCED
        if total.unsent:  # perhaps a next occurrence behind the cursor: what is covered stays covered
            after = replace(after, late_until=self.until)
        if after.late_until:
            send_ticks(ports, {Tick(ports.layout.cell, self.slice_no, second_of(ports.clock.now_ms()) + 1)})
        else:
            ports.signals.log("backlog_closed", slice=after.slice, last=self.holding.lease.late_until)
        if not leasing.advance_backlog(ports, self.holding, after):
            return FENCED
        return UNSENT if total.unsent else SERVED

    def _work_off(self, total: Fired, sent_max: int) -> SliceLease:
        """Fire what was missed, place by place, until so many were sent or time is up. The lease as it is then."""
        for bucket, shard in self._places_left():
            end = backlog.place_of(bucket, shard, backlog.END)
            while self._progress().late_at < end:
                if total.sent >= sent_max or self._is_out_of_time():
                    return self._progress()
                page = self._late_page(bucket, shard, min(PAGE_ITEMS_MAX, sent_max - total.sent))
                self.watch.lap(QUERY)
                for items, at in self._by_second(page, bucket, shard):
                    if self._is_out_of_time():
                        return self._progress()
                    before = self._progress()
                    self.late_at, self.late_next = at, end
                    self._fire_all(read_items(self.ports, items), self.until, total)
                    if total.unsent:
                        return before
                    if self.late_next < end:  # put into this minute, which is to be read again from here
                        break
                else:
                    self.late_at = end if page.more is None else backlog.place_of(bucket, shard, page.more)
        return backlog.closed(self._progress())

    def _places_left(self) -> Iterator[tuple[int, int]]:
        """The minutes and shards of the backlog from where it stands, in its order."""
        lease = self.holding.lease
        begin = backlog.parse_place(lease.late_at)[:2]
        for bucket in range(begin[0], bucket_of(lease.late_until) + 1):
            for shard in self.ports.layout.shards_of(self.slice_no):
                if (bucket, shard) >= begin:
                    yield bucket, shard

    def _late_page(self, bucket: int, shard: int, limit: int) -> Page:
        """The next items of a minute of a shard."""
        at = self._progress()
        first, last = max(at.late_from, bucket * BUCKET_S), min(at.late_until, (bucket + 1) * BUCKET_S - 1)
        if first > last:
            return Page(())
        *reached, sk = backlog.parse_place(at.late_at)
        after = sk if sk and reached == [bucket, shard] else None
        low, high = second_range(first, last)
        partition = partition_of(self.ports.layout.cell, shard, bucket)
        return self.ports.store.query(TIMERS, partition, low, high, limit=limit, after=str(after) if after else None)

    @staticmethod
    def _by_second(page: Page, bucket: int, shard: int) -> Iterator[tuple[list[Item], str]]:
        """The items of a page second by second, each with the place up to which that goes: the next occurrence of a
        short chain may lie in a later second of the same page."""
        for _, group in groupby(page.items, lambda item: second_in(item["sk"])):
            items = list(group)
            yield items, backlog.place_of(bucket, shard, items[-1]["sk"])

    def _progress(self) -> SliceLease:
        """The lease with the backlog as far as this window has served it."""
        return replace(self.holding.lease, late_at=max(self.late_at, self.holding.lease.late_at))

    def _report(self, outcome: str, total: Fired) -> WindowReport:
        done = self.holding.lease.done
        report = WindowReport(outcome, done, total.sent, total.skipped, total.set_aside, late=self.late)
        if self.late:
            self.ports.signals.count("scheduler.caught_up_total", self.late, slice=self.holding.lease.slice)
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
                late=self.late,
                **self.watch.facts(),
            )
        return report

    def _serve_range(self, first: int, last: int) -> Fired:
        """One-shots and retries as they are read, occurrences of jobs behind them: those take a transaction each
        fifty, and a herd of them would keep the timers of the same second waiting."""
        total = Fired()
        chains: list[Run | Retry] = []
        for items in self._pages(first, last):
            self.watch.lap(QUERY)
            at_once: list[Run | Retry] = []
            for item in read_items(self.ports, items):
                (chains if isinstance(item, Run) and item.is_recurring else at_once).append(item)
            self._fire_all(at_once, last, total)
            if len(chains) > CHAINS_WAITING_MAX:
                self._fire_some_at_a_time(chains, last, total)
                chains = []
        self.watch.lap(QUERY)
        self._fire_some_at_a_time(chains, last, total)
        return total

    def _fire_some_at_a_time(self, due: Sequence[Run | Retry], last: int, total: Fired) -> None:
        for some in batched(due, PAGE_ITEMS_MAX):
            self._fire_all(some, last, total)

    def _fire_all(self, due: Sequence[Run | Retry], last: int, total: Fired) -> None:
        lease = self.holding.lease
        firing = Firing(f"{lease.slice}#{lease.token}", slices.fence(lease), self._keep, self.watch.lap)
        for _ in range(creating.ROUNDS_MAX):
            if self.stepped:  # only jobs' occurrences are in it, and most windows fire none
                due = [item for item in due if item.key not in self.stepped]
            if not due:
                return
            self.stepped |= {item.key for item in due if isinstance(item, Run) and item.is_recurring}
            fired = fire(self.ports, due, firing)
            total.add(fired)
            due = creating.read_pending(self.ports, self._see_to(fired.materialised, last))
            self.watch.lap(SEND)
        total.unsent += len(due)

    def _see_to(self, materialised: list[LedgerKey], last: int) -> list[LedgerKey]:
        """The scanner is the creator of the next items. Those in a range that it has read already it fires itself
        (returned); those in a range it is about to read, or in what is left of the backlog, it will see; those of
        another slice follow the creator's rule; those that are near bring their tick."""
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
        standing = self._progress()
        waiting = {key for key in mine if backlog.awaits(standing, key)}
        self.late_next = min([self.late_next, *(backlog.place(key) for key in waiting)])
        behind = [key for key in mine if key.fire_second <= last or self.until < key.fire_second <= closing]
        return [key for key in behind if key not in waiting]

    def _is_out_of_time(self) -> bool:
        return self.ports.clock.monotonic_ms() >= self.deadline_ms

    def _keep(self) -> bool:
        return leasing.keep(self.ports, self.holding)

    def _pages(self, first: int, last: int) -> Iterator[list[Item]]:
        """What is due from `first` to `last` (within one bucket) in each shard of the slice. Small pages of several
        shards go together: their jobs then share transactions, and their messages batches."""
        low, high = second_range(first, last)
        gathered: list[Item] = []
        for shard in self.ports.layout.shards_of(self.slice_no):
            partition = partition_of(self.ports.layout.cell, shard, bucket_of(first))
            for page in pages(self.ports, TIMERS, partition, low, high, limit=PAGE_ITEMS_MAX):
                gathered += page.items
                if len(gathered) >= PAGE_ITEMS_MAX:
                    yield gathered
                    gathered = []
        if gathered:
            yield gathered
