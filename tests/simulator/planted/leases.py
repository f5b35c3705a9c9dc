"""Planted bugs in holding a slice and moving its cursors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch, unconditional, with_condition
from tickwork.core.dispatch import slices
from tickwork.core.dispatch.outcomes import FENCED
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.ledger.tables import LEASES
from tickwork.core.ledger.writes import Check, Is, Update
from tickwork.flows.dispatch import leasing, live, windows


def _advance_without_token() -> Sequence[Patch]:
    wrong = with_condition(slices.advance, lambda lease, *_: Is("done", lease.done))
    return [(slices, "advance", wrong)]


def _advance_without_cas() -> Sequence[Patch]:
    return [(slices, "advance", with_condition(slices.advance, lambda lease, *_: Is("token", lease.token)))]


def _advance_before_send() -> Sequence[Patch]:
    right = live._serve_range

    def wrong(it: Any, first: int, last: int, start: str) -> bool:
        leasing.advance(it.ports, it.holding, last, release=False)
        return right(it, first, last, start)

    return [(live, "_serve_range", wrong)]


def _announce_after_read() -> Sequence[Patch]:
    taken, advance = slices.taken, slices.advance

    def wrong_taken(lease: SliceLease, *arguments: Any) -> SliceLease:
        return replace(taken(lease, *arguments), closing=lease.closing)

    def wrong_advance(lease: SliceLease, done: int, *, release: bool) -> Update:
        write = advance(lease, done, release=release)
        return replace(write, set={**write.set, "closing": max(done, lease.closing)})

    return [(slices, "taken", wrong_taken), (slices, "advance", wrong_advance)]


def _closing_goes_back() -> Sequence[Patch]:
    right = slices.taken
    return [(slices, "taken", lambda lease, owner, s, now_ms: replace(right(lease, owner, s, now_ms), closing=s))]


def _take_without_condition() -> Sequence[Patch]:
    right = slices.take
    return [(slices, "take", lambda before, after: unconditional(right(before, after)))]


def _same_token() -> Sequence[Patch]:
    right = slices.taken
    return [(slices, "taken", lambda lease, *rest: replace(right(lease, *rest), token=max(1, lease.token)))]


def _release_without_token() -> Sequence[Patch]:
    give_back, report = slices.give_back, windows._report

    def wrong_report(it: Any, outcome: str) -> Any:
        if outcome == FENCED:
            leasing.give_back(it.ports, it.holding)
        return report(it, outcome)

    return [
        (slices, "give_back", lambda lease: unconditional(give_back(lease))),
        (windows, "_report", wrong_report),
    ]


def _next_not_fenced() -> Sequence[Patch]:
    def wrong(lease: SliceLease) -> Check:
        return Check(LEASES, {"slice": lease.slice}, Is("slice", lease.slice))

    return [(slices, "fence", wrong)]


BUGS = (
    Bug("advance without the token", _advance_without_token),
    Bug("advance without compare-and-set", _advance_without_cas),
    Bug("advance before the send", _advance_before_send),
    Bug("read before the announcement", _announce_after_read),
    Bug("closing may go back", _closing_goes_back),
    Bug("take the lease without a condition", _take_without_condition),
    Bug("take the lease with the same token", _same_token),
    Bug("release a lease unconditionally", _release_without_token),
    Bug("next occurrence is not fenced", _next_not_fenced),
)
