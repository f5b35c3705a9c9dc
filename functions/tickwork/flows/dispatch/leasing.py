"""Holding a slice: take and announce, renew, advance, give back. Protects one-owner-effect and cursor-honest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tickwork.core.dispatch import backlog, set_aside, slices
from tickwork.core.dispatch.set_aside import Rows, SetAside, Who
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import InvariantViolated, WorldError
from tickwork.core.instants import second_of
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import ALL_WHO, slice_key
from tickwork.core.ledger.tables import LEASES, SET_ASIDE
from tickwork.core.ledger.writes import Committed, Item, Refused, Update
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import pages
from tickwork.ports import Ports

_TAKE_TRIES_MAX = 4
"""Each refused take means somebody else moved the lease; a fourth time, it is theirs."""


@dataclass(slots=True)
class Holding:
    """A lease we hold, and since when by the monotonic clock (read before the write that granted it was sent)."""

    lease: SliceLease
    trusted_from_ms: int
    is_refused: bool = False
    """The token was refused: somebody else has the slice, or has had it."""

    def is_sure(self, ports: Ports) -> bool:
        """Whether the lease cannot have lapsed yet, with a margin. A paused process finds out here."""
        held_ms = ports.clock.monotonic_ms() - self.trusted_from_ms
        return held_ms < slices.LEASE_TTL_MS - slices.TRUST_MARGIN_MS

    def wants_renewal(self, ports: Ports) -> bool:
        return ports.clock.monotonic_ms() - self.trusted_from_ms >= slices.RENEW_AFTER_MS


def read_lease(ports: Ports, slice_no: int) -> SliceLease | None:
    item = ports.store.get(LEASES, {"slice": slice_key(ports.layout.cell, slice_no)})
    return None if item is None else SliceLease.from_item(item)


def standing_lease(ports: Ports, slice_no: int) -> SliceLease:
    """The lease of a slice whose existence has been ensured."""
    lease = read_lease(ports, slice_no)
    if lease is None:
        raise InvariantViolated(f"the lease of slice {slice_no} has vanished: leases are never deleted")
    return lease


def ensure_lease(ports: Ports, slice_no: int, second: int) -> None:
    """See to it that a slice has cursors before the first item in it does."""
    if slice_key(ports.layout.cell, slice_no) not in ports.slices_seen:
        obtain_lease(ports, slice_no, second)


def obtain_lease(ports: Ports, slice_no: int, second: int) -> SliceLease:
    """The lease of a slice as it stands; it is made when nobody has served the slice yet."""
    lease = read_lease(ports, slice_no)
    if lease is None:
        commit(ports, slices.first_lease(slice_key(ports.layout.cell, slice_no), second))
        lease = standing_lease(ports, slice_no)
    ports.slices_seen.add(lease.slice)
    return lease


def take(ports: Ports, slice_no: int, second: int, owner: str) -> Holding | SliceLease:
    """Take the slice and announce the window up to `second`. The lease as it stands when it is another's, or when
    the window has been served already."""
    before = obtain_lease(ports, slice_no, second)
    for _ in range(_TAKE_TRIES_MAX):
        now_ms, trusted_from_ms = ports.clock.now_ms(), ports.clock.monotonic_ms()
        if before.owner == owner:  # our own take, whose reply was lost
            return Holding(before, trusted_from_ms - (now_ms - before.lease_until_ms + slices.LEASE_TTL_MS))
        if before.done >= second or slices.is_held(before, owner, now_ms):
            return before
        after = slices.taken(before, owner, second, now_ms)
        result = commit(ports, slices.take(before, after))
        if isinstance(result, Committed):
            # As it stands, not as it was read: its last owner may have written beside what the condition names.
            after = after if result.item is None else SliceLease.from_item(result.item)
            if before.owner:
                ports.signals.count("scheduler.slice_owner_changes_total", slice=before.slice)
            return Holding(after, trusted_from_ms)
        before = standing_lease(ports, slice_no)
    return before


def keep(ports: Ports, holding: Holding) -> bool:
    """Before each batch: renew when it is time; False when the lease cannot be trusted any more. One that may have
    lapsed is renewed too: if the token still stands, nobody has taken it over meanwhile."""
    if not holding.wants_renewal(ports):
        return True
    trusted_from_ms, now_ms = ports.clock.monotonic_ms(), ports.clock.now_ms()
    if not isinstance(commit(ports, slices.renew(holding.lease, now_ms)), Committed):
        holding.is_refused = True
        return False
    holding.trusted_from_ms = trusted_from_ms
    return holding.is_sure(ports)


def note_progress(ports: Ports, holding: Holding, last: int, place: str) -> bool:
    """Record how far into its minute a window has come; False when it was superseded."""
    if not isinstance(commit(ports, slices.live_progress(holding.lease, last, place)), Committed):
        return _fenced(ports, holding)
    holding.lease = replace(holding.lease, live_until=last, live_at=place)
    return True


def advance(
    ports: Ports,
    holding: Holding,
    done: int,
    *,
    release: bool,
    covering: bool = False,
    aside: Aside | None = None,
) -> bool:
    """Move the cursor; False (and counted) when the token has been superseded. See `slices.covering`. `aside`: what is
    passed unserved, in the same transaction."""
    lease = holding.lease
    write = slices.advance(lease, done, release=release)
    if covering and ports.layout.shards_before:
        lease = replace(lease, late_at=backlog.minute_of(lease.late_at))
        write = replace(write, set={**write.set, "late_at": lease.late_at})
    if aside is not None:
        after = replace(lease, done=done, aside_s=set_aside.earliest(aside.after))
        return write_aside(ports, holding, slices.covering(write) if covering else write, after, aside)
    result = commit(ports, slices.covering(write) if covering else write)
    if isinstance(result, Committed) or (
        result.only is not None and slices.has_advanced(SliceLease.from_item(result.only), lease, done)
    ):
        holding.lease = replace(lease, done=done)
        return True
    return _fenced(ports, holding)


@dataclass(frozen=True, slots=True)
class Aside:
    """The set-aside rows as they were read, and as they are to be."""

    before: Rows
    after: Rows


def write_aside(ports: Ports, holding: Holding, write: Update, after: SliceLease, aside: Aside) -> bool:
    """One transaction: a write of the lease, and what becomes of its rows. False when the token was superseded."""
    writes = set_aside.writes(aside.before, aside.after)
    result = commit(ports, slices.with_next_try(write, after.aside_s), *writes)
    if isinstance(result, Refused) and not _stands(ports, holding, after, aside):
        return _fenced(ports, holding)
    holding.lease = after
    return True


def _stands(ports: Ports, holding: Holding, after: SliceLease, aside: Aside) -> bool:
    """Whether a refused transaction on rows is our own first try, which took effect: they are as they were to be."""
    item = ports.store.get(LEASES, {"slice": holding.lease.slice})
    standing = SliceLease.from_item(item) if item is not None else SliceLease("")
    if (standing.token, standing.done, standing.aside_s) != (after.token, after.done, after.aside_s):
        return False
    return read_aside(ports, holding.lease.slice) == dict(aside.after)


def read_aside(ports: Ports, slice_id: str) -> dict[Who, SetAside]:
    """The set-aside rows of a slice. One that cannot be read is told, and left: it is a newer version's to serve."""
    rows: dict[Who, SetAside] = {}
    for page in pages(ports, SET_ASIDE, slice_id, *ALL_WHO, limit=set_aside.ROWS_MAX + 1):
        for item in page.items:
            try:
                row = SetAside.from_item(item)
            except Unreadable as error:
                ports.signals.count("scheduler.set_aside_total")
                ports.signals.log("item_set_aside", why=str(error))
                continue
            rows[row.who] = row
    return rows


def note_ticks(ports: Ports, lease: SliceLease, seconds: Sequence[int]) -> None:
    """Note that ticks for these seconds were sent, to save others theirs. It is tried once: whatever comes of it, the
    worst is that somebody sends one again."""
    with suppress(WorldError):
        ports.store.commit([slices.note_ticks(lease, seconds, second_of(ports.clock.now_ms()))])


def open_backlog(ports: Ports, holding: Holding, opened: SliceLease) -> bool:
    """Move the cursor past an outage; False (and counted) when the token has been superseded."""
    result = commit(ports, slices.open_backlog(holding.lease, opened))
    if isinstance(result, Committed) or (
        result.only is not None and slices.has_advanced(SliceLease.from_item(result.only), holding.lease, opened.done)
    ):
        holding.lease = opened
        return True
    return _fenced(ports, holding)


def advance_backlog(ports: Ports, holding: Holding, after: SliceLease, *, release: bool, aside: Aside) -> bool:
    """Record how far the backlog was served, and what of it is set aside; False (and counted) when superseded."""
    write = slices.advance_backlog(holding.lease, after, release=release)
    if set_aside.writes(aside.before, aside.after):
        return write_aside(ports, holding, write, replace(after, aside_s=set_aside.earliest(aside.after)), aside)
    result = commit(ports, write)
    if isinstance(result, Committed) or _is_ours(result.only, after):
        holding.lease = after
        return True
    return _fenced(ports, holding)


def _is_ours(standing: Item | None, after: SliceLease) -> bool:
    """Whether a refused advance of the backlog is our own first try, which took effect."""
    if standing is None:
        return False
    lease = SliceLease.from_item(standing)
    return (lease.token, lease.late_at, lease.late_until) == (after.token, after.late_at, after.late_until)


def give_back(ports: Ports, holding: Holding) -> None:
    """Let the next window take the slice at once. Refused means it has."""
    commit(ports, slices.give_back(holding.lease))


def _fenced(ports: Ports, holding: Holding) -> bool:
    slice_id, holding.is_refused = holding.lease.slice, True
    ports.signals.count("scheduler.dispatch_rejected_stale_token_total", slice=slice_id)
    ports.signals.log("stale_token_refused", slice=slice_id)
    return False
