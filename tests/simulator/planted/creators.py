"""Planted bugs in the creator's rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import Unsent
from tickwork.flows.dispatch import creating, leasing
from tickwork.flows.dispatch.fired import Fired
from tickwork.flows.runs import finishing
from tickwork.ports import Ports


def _creator_does_not_look() -> Sequence[Patch]:
    return [(creating, "follow_up", lambda *_, **__: Fired())]


def _creator_reads_done() -> Sequence[Patch]:
    def wrong(ports: Ports, slice_no: int) -> SliceLease | None:
        lease = leasing.read_lease(ports, slice_no)
        return None if lease is None else replace(lease, closing=lease.done)

    return [(creating, "leasing", SimpleNamespace(**{**vars(leasing), "read_lease": wrong}))]


def _creator_looks_before_write() -> Sequence[Patch]:
    """The cursors are read with the ones that are ensured before the put, and believed after it."""
    prepare = creating.prepare_slices
    seen: dict[tuple[int, str, int], SliceLease | None] = {}

    def wrong_prepare(ports: Ports, keys: Sequence[Any]) -> None:
        prepare(ports, keys)
        for key in keys:
            there = ports.in_cell(key.cell)
            slice_no = there.layout.slice_of(key.shard)
            seen[id(ports.store), key.cell, slice_no] = leasing.read_lease(there, slice_no)

    def wrong_read(ports: Ports, slice_no: int) -> SliceLease | None:
        place = (id(ports.store), ports.layout.cell, slice_no)
        if place in seen:
            return seen.pop(place)
        return leasing.read_lease(ports, slice_no)

    stand_in = SimpleNamespace(**{**vars(leasing), "read_lease": wrong_read})
    return [(creating, "prepare_slices", wrong_prepare), (creating, "leasing", stand_in)]


def _creator_answers_anyway() -> Sequence[Patch]:
    right = creating.follow_up

    def wrong(*arguments: Any, **named: Any) -> Fired:
        try:
            return right(*arguments, **named)
        except Unsent:
            return Fired()

    return [(creating, "follow_up", wrong)]


def _no_tick_for_near_timers() -> Sequence[Patch]:
    return [(creating, "send_ticks", lambda *_: 0)]


def _retry_without_rule() -> Sequence[Patch]:
    return [(finishing, "creating", SimpleNamespace(follow_up=lambda *_, **__: Fired()))]


BUGS = (
    Bug("a creator does not look at closing", _creator_does_not_look),
    Bug("a creator looks at done", _creator_reads_done),
    Bug("a creator looks before it writes", _creator_looks_before_write),
    Bug("a creator answers though nothing was sent", _creator_answers_anyway),
    Bug("a near timer brings no tick", _no_tick_for_near_timers),
    Bug("a retry without the creator's rule", _retry_without_rule),
)
