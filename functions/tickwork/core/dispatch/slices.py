"""The lease of a slice: who may take it, and what taking, renewing and advancing write.

Protects one-owner-effect and cursor-honest. The wall clock only decides when to *try* a take-over; every write
here is conditional on the token (and a take-over on the whole lease as it was read, so that `closing`, which the
holder may have moved meanwhile, cannot go back). See docs/lease-protocol.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.items import Record, read_by
from tickwork.core.ledger.tables import LEASES
from tickwork.core.ledger.writes import Absent, Check, Is, Missing, Put, Update, all_of, any_of

LEASE_TTL_MS = 10_000
RENEW_AFTER_MS = 3_000
TRUST_MARGIN_MS = 2_000

TICK_HORIZON_S = 180
"""How far ahead ticks are issued, rounded up to a whole minute: two minutes beyond the loosest trigger of the ticker,
and under SQS's 900 s."""

TICK_MAP_S = 300
"""Seconds of which a lease notes whether they have a tick: the tick horizon, rounded up, and some skew."""

NEAR_HORIZON_MS = 3_600_000
"""A creator looks at `closing` when its timer is due within this. It bounds the clock skew that is survived:
requests signed by a clock further off than 15 minutes are refused by AWS before they write anything."""


_PLACE = re.compile(r"(\d{8}#\d{4}#.*)?", re.ASCII)
_TICK_MAP = re.compile(rf"[0-9a-f]{{0,{TICK_MAP_S // 4 + 1}}}")


def _place(value: str) -> str:
    if not _PLACE.fullmatch(value):
        raise ValueError(f"{value[:40]!r} is no place of a backlog")
    return value


def _map(value: str) -> str:
    if not _TICK_MAP.fullmatch(value):
        raise ValueError(f"{value[:40]!r} is no map of ticks")
    return value


@dataclass(frozen=True, slots=True)
class SliceLease(Record):
    """The lease of a slice and its cursors, all seconds since 1970.

    `closing`: windows up to here have been announced; `done`: they have been read and sent. `ticking`: ticks up
    to here are being issued; `ticked`: they have been. `audited`: the ledger has been read a second time up to here,
    some minutes after; `audited_hour` and `audited_day`: a third and a fourth time. `late_from` to `late_until`: the
    seconds that an outage left behind `done`, served up to the place `late_at` (see `backlog`; none: 0).
    `tick_base` and `tick_map`: which seconds are known to have their tick, a bit each (`has_tick`).
    """

    WHOLE: ClassVar[bool] = True

    slice: str
    token: int = 0
    owner: str = ""
    lease_until_ms: int = 0
    closing: int = 0
    done: int = 0
    ticking: int = 0
    ticked: int = 0
    audited: int = 0
    audited_hour: int = 0
    audited_day: int = 0
    late_from: int = 0
    late_until: int = 0
    late_at: str = read_by(_place, "")
    tick_base: int = 0
    tick_map: str = read_by(_map, "")


def first_lease(slice_id: str, second: int) -> Put:
    """The lease of a slice nobody has served yet, with its cursors before anything that is about to be created."""
    begin = second - 1
    # A creator whose clock is behind ours may already be writing items before `begin`, and may die of it.
    audited = begin - NEAR_HORIZON_MS // SECOND_MS
    lease = SliceLease(
        slice_id,
        closing=begin,
        done=begin,
        ticking=begin,
        ticked=begin,
        audited=audited,
        audited_hour=audited,
        audited_day=audited,
    )
    return Put(LEASES, lease.to_item(), Absent())


def is_held(lease: SliceLease, owner: str, now_ms: int) -> bool:
    """Whether somebody else's lease looks alive from here."""
    return lease.owner not in ("", owner) and lease.lease_until_ms > now_ms


def taken(lease: SliceLease, owner: str, second: int, now_ms: int) -> SliceLease:
    """The lease after `owner` has taken it and announced the window that ends with `second`."""
    return replace(
        lease,
        owner=owner,
        token=lease.token + 1,
        lease_until_ms=now_ms + LEASE_TTL_MS,
        closing=max(lease.closing, second),
    )


def take(before: SliceLease, after: SliceLease) -> Update:
    """Announce: one write takes the lease and moves `closing`."""
    unchanged = all_of(
        Is("token", before.token), Is("lease_until_ms", before.lease_until_ms), Is("closing", before.closing)
    )
    changes = {
        "owner": after.owner,
        "token": after.token,
        "lease_until_ms": after.lease_until_ms,
        "closing": after.closing,
    }
    return Update(LEASES, _key(before), unchanged, set=changes)


def renew(lease: SliceLease, now_ms: int) -> Update:
    return Update(LEASES, _key(lease), _mine(lease), set={"lease_until_ms": now_ms + LEASE_TTL_MS})


def advance(lease: SliceLease, done: int, *, release: bool) -> Update:
    """Move the cursor to `done`, and give the lease back if that was all.

    Conditional on the cursor too: the first try of an earlier advance, its reply lost, may arrive after a later one,
    under the same token, and would move it back.
    """
    freed = {"owner": "", "lease_until_ms": 0} if release else {}
    return Update(LEASES, _key(lease), all_of(_mine(lease), Is("done", lease.done)), set={"done": done, **freed})


def covering(advance: Update) -> Update:
    """An advance after which the backlog is worked on. That may put next occurrences behind the cursor: should the
    window die of it, the next one reads the backlog up to here. `advance_backlog` then takes that back."""
    return replace(advance, set={**advance.set, "late_until": advance.set["done"]})


def open_backlog(lease: SliceLease, opened: SliceLease) -> Update:
    """Move the cursor past an outage, and record what it has jumped over, in one write. See `backlog.opened`."""
    changes = {
        "done": opened.done,
        "late_from": opened.late_from,
        "late_until": opened.late_until,
        "late_at": opened.late_at,
    }
    return Update(LEASES, _key(lease), all_of(_mine(lease), Is("done", lease.done)), set=changes)


def advance_backlog(lease: SliceLease, after: SliceLease) -> Update:
    """Record how far the backlog was served and where it ends, and give the lease back."""
    unchanged = all_of(_mine(lease), Is("late_at", lease.late_at))
    changes = {"late_at": after.late_at, "late_until": after.late_until, "owner": "", "lease_until_ms": 0}
    return Update(LEASES, _key(lease), unchanged, set=changes)


def has_advanced(standing: SliceLease, lease: SliceLease, done: int) -> bool:
    """Whether a refused advance is our own first try, which took effect."""
    return standing.token == lease.token and standing.done == done


def give_back(lease: SliceLease) -> Update:
    """Release without advancing: what is left is another window's."""
    return Update(LEASES, _key(lease), _mine(lease), set={"owner": "", "lease_until_ms": 0})


def fence(lease: SliceLease) -> Check:
    """A transaction's condition that the lease is still ours."""
    return Check(LEASES, _key(lease), Is("token", lease.token))


def claim_ticks(lease: SliceLease, horizon: int) -> Update:
    """Announce that ticks up to `horizon` are being issued: creators compare themselves with `ticking`."""
    unchanged = all_of(Is("ticking", lease.ticking), Is("ticked", lease.ticked))
    return Update(LEASES, _key(lease), unchanged, set={"ticking": max(horizon, lease.ticking)})


def ticks_issued(lease: SliceLease, horizon: int, seconds: Iterable[int], now_second: int) -> Update:
    """Ticks up to `horizon` have been sent, for these seconds. What creators have noted meanwhile may be overwritten:
    that costs a tick twice, no more."""
    changes = {"ticked": horizon, **_with_ticks(lease, seconds, now_second)}
    return Update(LEASES, _key(lease), Is("ticked", lease.ticked), set=changes)


def has_tick(lease: SliceLease, second: int) -> bool:
    """Whether a tick for this second is known to be on its way, so that a creator need not send another. Thousands may
    create timers for one second, and a scanner is woken for each tick."""
    offset = second - lease.tick_base
    return 0 <= offset < TICK_MAP_S and bool(int(lease.tick_map or "0", 16) >> offset & 1)


def note_ticks(lease: SliceLease, seconds: Iterable[int], now_second: int) -> Update:
    """Note seconds whose ticks were sent, never before they were. Refused when others note at the same time."""
    unchanged = all_of(Is("tick_base", lease.tick_base), Is("tick_map", lease.tick_map))
    as_read = unchanged if lease.tick_base else any_of(Missing("tick_base"), unchanged)
    there = Is("slice", lease.slice)
    return Update(LEASES, _key(lease), all_of(there, as_read), set=_with_ticks(lease, seconds, now_second))


def _with_ticks(lease: SliceLease, seconds: Iterable[int], now_second: int) -> dict[str, int | str]:
    """The map with some more seconds, and without those that have passed."""
    base = max(lease.tick_base, now_second)
    bits = int(lease.tick_map or "0", 16) >> base - lease.tick_base
    for second in seconds:
        if 0 <= second - base < TICK_MAP_S:
            bits |= 1 << second - base
    return {"tick_base": base, "tick_map": f"{bits:x}"}


def audit_done(lease: SliceLease, cursor: str, second: int) -> Update:
    """Move one of the audit's cursors."""
    return Update(LEASES, _key(lease), Is(cursor, getattr(lease, cursor)), set={cursor: second})


def _mine(lease: SliceLease) -> Is:
    return Is("token", lease.token)


def _key(lease: SliceLease) -> dict[str, object]:
    return {"slice": lease.slice}
