"""Planted bugs of the backlog: what makes catching up after an outage safe, left out one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import slices
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.ledger.writes import Anyway, Update
from tickwork.flows.dispatch import catching_up, leasing
from tickwork.flows.dispatch.serving import Serving


def _advances_before_send() -> Sequence[Patch]:
    right = catching_up.serve_backlog

    def wrong(it: Any, *arguments: Any, **named: Any) -> None:
        after = replace(it.holding.lease, late_until=0)
        leasing.advance_backlog(it.ports, it.holding, after, release=False, aside=it.aside())
        right(it, *arguments, **named)

    return [(catching_up, "serve_backlog", wrong)]


def _does_not_cover() -> Sequence[Patch]:
    return [(slices, "covering", lambda advance: advance)]


def _without_token() -> Sequence[Patch]:
    right = slices.advance_backlog

    def wrong(lease: SliceLease, after: SliceLease, **named: Any) -> Update:
        return replace(right(lease, after, **named), condition=Anyway("planted"))

    return [(slices, "advance_backlog", wrong)]


def _one_page_of_a_minute() -> Sequence[Patch]:
    right = catching_up._page
    return [(catching_up, "_page", lambda *arguments: replace(right(*arguments), more=None))]


def _reads_a_minute_once() -> Sequence[Patch]:
    right = Serving._will_see

    def wrong(self: Any, key: Any) -> bool:
        before = self.stretch.next if self.stretch else ""
        seen = right(self, key)
        if self.stretch:
            self.stretch.next = before
        return seen

    return [(Serving, "_will_see", wrong)]


BUGS = (
    Bug("the backlog advances before the send", _advances_before_send),
    Bug("the backlog does not cover what it materialises", _does_not_cover),
    Bug("the backlog advances without the token", _without_token),
    Bug("the backlog reads one page of a minute", _one_page_of_a_minute),
    Bug("the backlog does not read again what it has put there", _reads_a_minute_once),
)
