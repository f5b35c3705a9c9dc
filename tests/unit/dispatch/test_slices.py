"""The lease of a slice: what its writes are conditional on."""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.dispatch import slices
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.ledger.tables import LEASES
from tickwork.core.ledger.writes import Anyway, Committed, Put, Refused
from tickwork.testing.memory import MemoryStore

NOW_MS = 1_793_318_400_000
NOW_S = NOW_MS // 1_000
LEASE = SliceLease("main#0000", token=7, owner="me", lease_until_ms=NOW_MS + 5_000, closing=NOW_S, done=NOW_S - 10)


def store_with(lease: SliceLease) -> MemoryStore:
    store = MemoryStore()
    store.commit([Put(LEASES, lease.to_item(), Anyway("a test"))])
    return store


def test_taking_raises_the_token_and_announces() -> None:
    after = slices.taken(LEASE, "you", NOW_S + 3, NOW_MS)
    assert (after.token, after.owner, after.closing, after.done) == (8, "you", NOW_S + 3, NOW_S - 10)
    assert after.lease_until_ms == NOW_MS + slices.LEASE_TTL_MS


def test_an_earlier_window_never_moves_closing_back() -> None:
    assert slices.taken(LEASE, "you", NOW_S - 5, NOW_MS).closing == NOW_S


def test_a_lease_looks_held_until_it_lapses_and_never_to_its_owner() -> None:
    assert slices.is_held(LEASE, "you", NOW_MS)
    assert not slices.is_held(LEASE, "you", NOW_MS + 5_000)
    assert not slices.is_held(LEASE, "me", NOW_MS)
    assert not slices.is_held(replace(LEASE, owner=""), "you", NOW_MS)


def test_of_two_who_take_the_same_lease_one_passes() -> None:
    store = store_with(LEASE)
    takes = [slices.take(LEASE, slices.taken(LEASE, name, NOW_S + 1, NOW_MS + 6_000)) for name in ("one", "two")]
    assert [type(store.commit([take])) for take in takes] == [Committed, Refused]


def test_a_stale_owner_can_neither_renew_nor_advance_nor_release_nor_pass_the_fence() -> None:
    store = store_with(replace(LEASE, token=8, owner="you"))
    for write in (
        slices.renew(LEASE, NOW_MS),
        slices.advance(LEASE, NOW_S, release=True),
        slices.give_back(LEASE),
        slices.fence(LEASE),
    ):
        assert isinstance(store.commit([write]), Refused)


def test_an_advance_from_another_cursor_is_refused() -> None:
    store = store_with(replace(LEASE, done=NOW_S))
    refused = store.commit([slices.advance(LEASE, NOW_S - 5, release=False)])
    assert isinstance(refused, Refused)
    assert refused.only is not None
    standing = SliceLease.from_item(refused.only)
    assert not slices.has_advanced(standing, LEASE, NOW_S - 5)
    assert slices.has_advanced(standing, LEASE, NOW_S)


def test_the_first_cursors_lie_before_the_first_second_and_the_audit_well_before_them() -> None:
    write = slices.first_lease("main#0000", NOW_S)
    lease = SliceLease.from_item(write.item)
    assert (lease.closing, lease.done, lease.ticking, lease.ticked) == (NOW_S - 1,) * 4
    assert lease.audited == lease.audited_hour == lease.audited_day == NOW_S - 1 - 3_600


def test_of_two_tickers_one_issues() -> None:
    store = store_with(LEASE)
    claims = [slices.claim_ticks(LEASE, NOW_S + 180) for _ in range(2)]
    assert [type(store.commit([claim])) for claim in claims] == [Committed, Refused]
