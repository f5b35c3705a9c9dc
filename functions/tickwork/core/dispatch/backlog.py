"""The backlog of a slice: the seconds that an outage left behind, served after what is due now, and slower (F8).

After an outage the live cursor `done` jumps to the last minute, in one write that records the seconds between as the
backlog; so what is due now never waits for what was missed. Protects cursor-honest: a pending item is ahead of
`done`, or in the part of the backlog that is still to be served, or it was sent. docs/decisions/0040 has the argument.

The backlog is served in the order of places: minute, shard, sort key. A place lies within a second, because a single
second may hold more than may be sent in one: `late_at` is the last place that was served.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.ledger.keys import BUCKET_S, LedgerKey, bucket_of

LIVE_S = 60
"""How late the live cursor may begin: what is later was missed in an outage (`chain.OUTAGE_AFTER_MS`)."""

OPENED_AFTER_S = 2 * LIVE_S
"""How far a cursor must be behind before a backlog is opened. An idle slice has one window a minute."""

CATCH_UP_PERCENT = 20
"""Of a slice's capacity, at most, goes to what was missed (spec F8)."""

BUDGET_S_MAX = 2
"""A window has a budget for the seconds since the one before, but never for more than these: no burst after a gap."""

END = "~"
"""Sorts after every sort key, which begins with a digit."""


def place_of(bucket: int, shard: int, sk: str) -> str:
    """A place in the backlog's order. As text it sorts the way it is served."""
    return f"{bucket:08d}#{shard:04d}#{sk}"


def place(key: LedgerKey) -> str:
    """The place of an item."""
    return place_of(bucket_of(key.fire_second), key.shard, key.sk)


def parse_place(text: str) -> tuple[int, int, str]:
    """(bucket, shard, sort key) of a place."""
    bucket, shard, sk = text.split("#", 2)
    return int(bucket), int(shard), sk


def minute_of(at: str) -> str:
    """The place where the minute of a place begins. While shards are re-numbered, a next occurrence may come to lie in
    its minute, in a shard that was passed: what is to cover it begins there."""
    return place_of(parse_place(at)[0], 0, "")


def is_outage(lease: SliceLease, until: int) -> bool:
    """Whether a window up to `until` finds the cursor so far behind that a backlog is to be opened."""
    return until - lease.done > OPENED_AFTER_S


def opened(lease: SliceLease, until: int) -> SliceLease:
    """The lease with its live cursor moved to the last minute, and the rest in the backlog. One that is open already
    is extended: what was served live since then is read once more, and what of it is still pending is sent again. The
    new part may begin in the very minute that the old one has come to; then that minute is served from its beginning,
    for its places are passed shard by shard, and those of the first shards lie before `late_at`."""
    begin = lease.done + 1
    fresh = not lease.late_until
    first = place_of(bucket_of(begin), 0, "")
    return replace(
        lease,
        done=until - LIVE_S,
        late_from=begin if fresh else lease.late_from,
        late_until=until - LIVE_S,
        late_at=first if fresh else min(lease.late_at, first),
    )


def closed(lease: SliceLease) -> SliceLease:
    """The lease when the last place of its backlog was served."""
    return replace(lease, late_until=0)


def awaits(lease: SliceLease, key: LedgerKey) -> bool:
    """Whether an item lies in the part of the backlog that is still to be served."""
    if not lease.late_from <= key.fire_second <= lease.late_until:
        return False
    return place(key) > lease.late_at


def has_passed(lease: SliceLease, key: LedgerKey) -> bool:
    """Whether the slice's cursors have passed an item: if it is pending, it was sent."""
    return key.fire_second <= lease.done and not awaits(lease, key)


def passed_through(lease: SliceLease) -> int:
    """The last second of which, and of all before it, everything was passed."""
    if not lease.late_until:
        return lease.done
    bucket, _, _ = parse_place(lease.late_at)
    return max(lease.late_from, bucket * BUCKET_S) - 1


def budget(capacity_per_s: int, seconds: int) -> int:
    """How many missed runs a window may send that comes `seconds` after the one before. At least one a second, so
    that every backlog ends."""
    return max(1, capacity_per_s * CATCH_UP_PERCENT // 100) * min(max(seconds, 1), BUDGET_S_MAX)
