"""What a window has in hand while it serves its slice: the lease, the rows, what it could not serve so far.

Protects cursor-honest: nothing is passed (by the cursor, by a place, by the backlog) but by a write that sets aside, in
the same transaction, what was left of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tickwork.core.dispatch import backlog, set_aside, slices
from tickwork.core.dispatch.set_aside import Extent, Rows, SetAside, Who
from tickwork.core.dispatch.shares import Shares
from tickwork.core.errors import WorldError
from tickwork.core.instants import second_of
from tickwork.core.ledger.keys import BUCKET_S, LedgerKey
from tickwork.core.ledger.messages import Tick
from tickwork.core.ledger.records import Due, Run
from tickwork.flows.dispatch import creating, leasing
from tickwork.flows.dispatch.fired import Fired, Firing
from tickwork.flows.dispatch.firing import fire
from tickwork.flows.dispatch.leasing import Aside, Holding
from tickwork.flows.dispatch.pauses_seen import PausesSeen
from tickwork.flows.dispatch.sending import send_ticks
from tickwork.flows.dispatch.stopwatch import ADVANCE, SEND, Stopwatch
from tickwork.flows.ledger.groups import Known
from tickwork.ports import Ports

PAGE_ITEMS_MAX = 500
"""Items read at a time; at most twice as many are decided and sent before the next are read."""


@dataclass(slots=True)
class Stretch:
    """Seconds that were passed unserved, and the place up to which they have been served since. `next`: the nearest
    place in what is left where the last firing has put a next occurrence; from there it is read again. `is_backlog`: it
    is the lease's backlog, of which the lease knows only how far it was served before. `team`: it is that team's row,
    and `at` an instant (set_aside)."""

    begin: int
    until: int
    at: str
    next: str = backlog.END
    is_backlog: bool = False
    team: str = ""

    def awaits(self, key: LedgerKey) -> bool:
        if self.team:
            is_within = key.team == self.team and self.begin <= key.fire_second <= self.until
            return is_within and set_aside.in_time(key) > self.at
        return self.begin <= key.fire_second <= self.until and backlog.place(key) > self.at


@dataclass(slots=True)
class Serving:
    """One window at work."""

    ports: Ports
    slice_no: int
    until: int
    holding: Holding
    deadline_ms: int
    watch: Stopwatch
    backlog_ms: int
    pauses: PausesSeen
    rows: dict[Who, SetAside] = field(default_factory=dict)
    """What is set aside in the slice, as the table has it."""
    held: set[Who] = field(default_factory=set)
    """Who is left in peace: rows whose tries fail, and who has failed in this window."""
    shares: Shares = field(default_factory=Shares)
    total: Fired = field(default_factory=Fired)
    """What became of everything so far. What is left is what no row covers yet."""
    stepped: set[LedgerKey] = field(default_factory=set)
    """Occurrences of jobs that this window has fired: the range it reads may show them again."""
    stretch: Stretch | None = None
    """What it serves of what was passed before; None while it serves what is due."""
    late: int = 0
    """How much of the backlog it has sent."""
    groups: Known = field(default_factory=dict)
    """What it has read of groups."""
    owed: WorldError | None = None
    """A next occurrence in another slice, which may have passed it, could not be seen to."""

    @property
    def now_s(self) -> int:
        return second_of(self.ports.clock.now_ms())

    def is_out_of_time(self) -> bool:
        return self.ports.clock.monotonic_ms() >= self.deadline_ms

    def is_held_shard(self, shard: int) -> bool:
        return set_aside.shard(shard) in self.held

    def firing(self) -> Firing:
        """By the right of the lease, leaving in peace whom it is no use to try."""
        lease = self.holding.lease
        return Firing(
            f"{lease.slice}#{lease.token}",
            slices.fence(lease),
            lambda: leasing.keep(self.ports, self.holding),
            self.watch.lap,
            self.held,
            is_crowd=self.shares.is_crowd,
            groups=self.groups,
        )

    def fire_all(self, due: Sequence[Due], last: int, firing: Firing | None = None) -> None:
        """Fire what is due, and the next occurrences which that puts behind `last`."""
        firing = firing or self.firing()
        for _ in range(creating.ROUNDS_MAX):
            if self.stepped:  # only jobs' occurrences are in it, and most windows fire none
                due = [item for item in due if item.key not in self.stepped]
            if not due:
                return
            self.stepped |= {item.key for item in due if isinstance(item, Run) and item.is_recurring}
            fired = fire(self.ports, due, self.pauses.told(firing))
            self.total.add(fired)
            self.held.update(fired.left)  # the same set: who fires on in the next round has it, too
            due = _read_pending(self.ports, self._see_to(fired.materialised, last), self.total)
            self.watch.lap(SEND)
        for item in due:
            self.total.leave(set_aside.job(item.key.job_id), item.key)

    def _see_to(self, materialised: list[LedgerKey], last: int) -> list[LedgerKey]:
        """The scanner is the creator of the next items. Those in a range that it has read already it fires itself
        (returned); those in a range it is about to read, or in what is left of what it serves, it will see; those of
        another slice follow the creator's rule; those that are near bring their tick."""
        closing = self.holding.lease.closing
        horizon = self.now_s + slices.TICK_HORIZON_S + 2 * BUCKET_S  # the ticker rounds up; its clock may be ahead
        layout = self.ports.layout
        mine = [key for key in materialised if key.cell == layout.cell and layout.slice_of(key.shard) == self.slice_no]
        if len(mine) < len(materialised):
            own = set(mine)
            _see_to_others(self, [key for key in materialised if key not in own])
        ticks = {
            Tick(layout.cell, self.slice_no, key.fire_second) for key in mine if closing < key.fire_second <= horizon
        }
        if ticks:
            send_ticks(self.ports, ticks)
        waiting = {key for key in mine if self._will_see(key)}
        behind = [key for key in mine if key.fire_second <= last or self.until < key.fire_second <= closing]
        return [key for key in behind if key not in waiting]

    def _will_see(self, key: LedgerKey) -> bool:
        if self.stretch is not None and self.stretch.awaits(key):
            self.stretch.next = min(self.stretch.next, backlog.place(key))
            return True
        if self.stretch is not None and self.stretch.is_backlog:
            return False  # after a change of the number of shards a chain may step to a place that was served already
        return backlog.awaits(self.holding.lease, key)

    # --- passing ----------------------------------------------------------------------------------------------

    def aside(self) -> Aside:
        """What becomes of the rows when all that was left so far is passed."""
        return Aside(self.rows, self.taking_in_left(self.rows))

    def taking_in_left(self, rows: Rows) -> dict[Who, SetAside]:
        """The rows with what was left. A job whose step may have taken effect, its reply lost, may have its next
        occurrence anywhere up to here: its row reaches so far."""
        moving = bool(self.ports.layout.shards_before)
        left = _reaching(self.total.left, self.until, moving=moving)
        return set_aside.taking_in(rows, self.holding.lease.slice, left, self.now_s)

    def was_set_aside(self, aside: Aside) -> None:
        """The rows stand as they were to be."""
        _tell(self.ports, aside)
        self.rows = dict(aside.after)
        self.total.left.clear()

    def advance(self, done: int, *, release: bool, covering: bool) -> bool:
        """Move the cursor; False when the token has been superseded."""
        aside = self.aside() if self.total.left else None
        ok = leasing.advance(self.ports, self.holding, done, release=release, covering=covering, aside=aside)
        if ok and aside is not None:
            self.was_set_aside(aside)
        self.watch.lap(ADVANCE)
        return ok

    def note_place(self, last: int, place: str) -> bool:
        """Record how far into the minute that ends with `last` it has come; False when the token was superseded."""
        if not self.total.left:
            return leasing.note_progress(self.ports, self.holding, last, place)
        aside, lease = self.aside(), self.holding.lease
        write = slices.live_progress(lease, last, place)
        after = replace(lease, live_until=last, live_at=place, aside_s=set_aside.earliest(aside.after))
        if ok := leasing.write_aside(self.ports, self.holding, write, after, aside):
            self.was_set_aside(aside)
        return ok

    def leave_shard(self, shard: int, first: int, last: int, error: WorldError | None = None) -> None:
        """Seconds of a minute of a shard cannot be read: they wait for it, and the other shards go on."""
        who = set_aside.shard(shard)
        self.total.leave_all(who, set_aside.extent_of_range(shard, first, last))
        if error is not None:
            self.held.add(who)
            self.ports.signals.count("scheduler.shards_unread_total")
            self.ports.signals.log("shard_unread", slice=self.holding.lease.slice, shard=shard, why=repr(error))


def _see_to_others(it: Serving, keys: list[LedgerKey]) -> None:
    """The creator's rule, for what this scanner has put into other slices."""
    try:
        creating.prepare_slices(it.ports, keys)
        is_left = bool(creating.follow_up(it.ports, keys).left)
    except WorldError as error:
        it.owed, is_left = error, True  # this slice goes on; the window ends as failed
    if is_left:
        _await_return(it, keys)


def _await_return(it: Serving, keys: Iterable[LedgerKey]) -> None:
    """Chains that have gone to another slice, and could not be followed, may have come back to this one, behind what is
    read already: they wait in the rows of their jobs."""
    for key in keys:
        if key.fire_second <= it.until:
            extent = set_aside.extent_of(key).reaching(it.until, moving=True)
            it.total.leave_all(set_aside.job(key.job_id), extent)


def _tell(ports: Ports, aside: Aside) -> None:
    """Say which rows have come, and which have gone."""
    for who in sorted(aside.after.keys() - aside.before.keys()):
        row = aside.after[who]
        ports.signals.count("scheduler.rows_set_aside_total", kind=who.kind)
        ports.signals.log("row_set_aside", slice=row.slice, who=who.key, first=row.begin, last=row.until)
    for who in sorted(aside.before.keys() - aside.after.keys()):
        row = aside.before[who]
        ports.signals.log("row_served", slice=row.slice, who=who.key, first=row.begin, last=row.until)


def _reaching(left: Mapping[Who, Extent], until: int, *, moving: bool) -> dict[Who, Extent]:
    """What was left, that of jobs up to where their next occurrence may lie, and that of teams, whose jobs are about to
    be stepped."""
    return {
        who: extent.reaching(until, moving=moving) if who.kind in (set_aside.JOB, set_aside.TEAM) else extent
        for who, extent in left.items()
    }


def _read_pending(ports: Ports, keys: list[LedgerKey], total: Fired) -> list[Due]:
    """The items of next occurrences. What cannot be read is left to wait for its job."""
    try:
        return creating.read_pending(ports, keys)
    except WorldError:
        for key in keys:
            total.leave(set_aside.job(key.job_id), key)
        return []
