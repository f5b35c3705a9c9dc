"""Holding a slice: take and announce, renew, advance, give back. Protects one-owner-effect and cursor-honest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tickwork.core.dispatch import slices
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import InvariantViolated, WorldError
from tickwork.core.instants import second_of
from tickwork.core.ledger.keys import slice_key
from tickwork.core.ledger.tables import LEASES
from tickwork.core.ledger.writes import Committed, Item
from tickwork.flows.ledger.commit import commit
from tickwork.ports import Ports

_TAKE_TRIES_MAX = 4
"""Each refused take means somebody else moved the lease; a fourth time, it is theirs."""


@dataclass(slots=True)
class Holding:
    """A lease we hold, and since when by the monotonic clock (read before the write that granted it was sent)."""

    lease: SliceLease
    trusted_from_ms: int

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
        if isinstance(commit(ports, slices.take(before, after)), Committed):
            if before.owner:
                ports.signals.count("scheduler.slice_owner_changes_total", slice=before.slice)
            return Holding(after, trusted_from_ms)
        before = standing_lease(ports, slice_no)
    return before


def keep(ports: Ports, holding: Holding) -> bool:
    """Before each batch: renew when it is time; False when the lease cannot be trusted any more."""
    if not holding.is_sure(ports):
        return False
    if not holding.wants_renewal(ports):
        return True
    trusted_from_ms, now_ms = ports.clock.monotonic_ms(), ports.clock.now_ms()
    if not isinstance(commit(ports, slices.renew(holding.lease, now_ms)), Committed):
        return False
    holding.trusted_from_ms = trusted_from_ms
    return True


def advance(ports: Ports, holding: Holding, done: int, *, release: bool, covering: bool = False) -> bool:
    """Move the cursor; False (and counted) when the token has been superseded. See `slices.covering`."""
    lease = holding.lease
    write = slices.advance(lease, done, release=release)
    result = commit(ports, slices.covering(write) if covering else write)
    if isinstance(result, Committed) or (
        result.only is not None and slices.has_advanced(SliceLease.from_item(result.only), lease, done)
    ):
        holding.lease = replace(lease, done=done)
        return True
    return _fenced(ports, lease.slice)


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
    return _fenced(ports, holding.lease.slice)


def advance_backlog(ports: Ports, holding: Holding, after: SliceLease) -> bool:
    """Record how far the backlog was served, and give the lease back; False (and counted) when it was superseded."""
    result = commit(ports, slices.advance_backlog(holding.lease, after))
    if isinstance(result, Committed) or _is_ours(result.only, after):
        holding.lease = after
        return True
    return _fenced(ports, holding.lease.slice)


def _is_ours(standing: Item | None, after: SliceLease) -> bool:
    """Whether a refused advance of the backlog is our own first try, which took effect."""
    if standing is None:
        return False
    lease = SliceLease.from_item(standing)
    return (lease.token, lease.late_at, lease.late_until) == (after.token, after.late_at, after.late_until)


def give_back(ports: Ports, holding: Holding) -> None:
    """Let the next window take the slice at once. Refused means it has."""
    commit(ports, slices.give_back(holding.lease))


def _fenced(ports: Ports, slice_id: str) -> bool:
    ports.signals.count("scheduler.dispatch_rejected_stale_token_total", slice=slice_id)
    ports.signals.log("stale_token_refused", slice=slice_id)
    return False
