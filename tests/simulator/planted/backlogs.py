"""Planted bugs of the backlog: what makes catching up after an outage safe, left out one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import slices
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.ledger.writes import Anyway, Update
from tickwork.flows.dispatch import leasing, windows


def _advances_before_send() -> Sequence[Patch]:
    right = windows._Window._work_off

    def wrong(self: Any, *arguments: Any) -> SliceLease:
        leasing.advance_backlog(self.ports, self.holding, replace(self.holding.lease, late_until=0))
        return right(self, *arguments)

    return [(windows._Window, "_work_off", wrong)]


def _does_not_cover() -> Sequence[Patch]:
    return [(slices, "covering", lambda advance: advance)]


def _without_token() -> Sequence[Patch]:
    right = slices.advance_backlog

    def wrong(lease: SliceLease, after: SliceLease) -> Update:
        return replace(right(lease, after), condition=Anyway("planted"))

    return [(slices, "advance_backlog", wrong)]


def _one_page_of_a_minute() -> Sequence[Patch]:
    right = windows._Window._late_page

    def wrong(self: Any, *arguments: Any) -> Any:
        return replace(right(self, *arguments), more=None)

    return [(windows._Window, "_late_page", wrong)]


def _reads_a_minute_once() -> Sequence[Patch]:
    right = windows._Window._see_to

    def wrong(self: Any, *arguments: Any) -> Any:
        before = self.late_next
        due = right(self, *arguments)
        self.late_next = before
        return due

    return [(windows._Window, "_see_to", wrong)]


BUGS = (
    Bug("the backlog advances before the send", _advances_before_send),
    Bug("the backlog does not cover what it materialises", _does_not_cover),
    Bug("the backlog advances without the token", _without_token),
    Bug("the backlog reads one page of a minute", _one_page_of_a_minute),
    Bug("the backlog does not read again what it has put there", _reads_a_minute_once),
)
