"""Planted bugs of the backlog: what makes catching up after an outage safe, left out one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tickwork.core import backlog, slices
from tickwork.core.records import SliceLease
from tickwork.core.writes import Anyway, Update
from tickwork.flows import leasing, windows

type _Patch = tuple[Any, str, Any]


def opening_forgets_the_backlog() -> Sequence[_Patch]:
    right = backlog.opened
    return [(backlog, "opened", lambda lease, until: replace(right(lease, until), late_until=0))]


def backlog_advances_before_the_send() -> Sequence[_Patch]:
    right = windows._Window._work_off

    def wrong(self: Any, *arguments: Any) -> SliceLease:
        leasing.advance_backlog(self.ports, self.holding, replace(self.holding.lease, late_until=0))
        return right(self, *arguments)

    return [(windows._Window, "_work_off", wrong)]


def backlog_does_not_cover() -> Sequence[_Patch]:
    return [(slices, "covering", lambda advance: advance)]


def backlog_without_token() -> Sequence[_Patch]:
    right = slices.advance_backlog

    def wrong(lease: SliceLease, after: SliceLease) -> Update:
        return replace(right(lease, after), condition=Anyway("planted"))

    return [(slices, "advance_backlog", wrong)]


def backlog_reads_one_page_of_a_minute() -> Sequence[_Patch]:
    right = windows._Window._late_page

    def wrong(self: Any, *arguments: Any) -> Any:
        return replace(right(self, *arguments), more=None)

    return [(windows._Window, "_late_page", wrong)]


def backlog_reads_a_minute_once() -> Sequence[_Patch]:
    right = windows._Window._see_to

    def wrong(self: Any, *arguments: Any) -> Any:
        before = self.late_next
        due = right(self, *arguments)
        self.late_next = before
        return due

    return [(windows._Window, "_see_to", wrong)]


BACKLOG = (
    ("opening a backlog forgets it", opening_forgets_the_backlog),
    ("the backlog advances before the send", backlog_advances_before_the_send),
    ("the backlog does not cover what it materialises", backlog_does_not_cover),
    ("the backlog advances without the token", backlog_without_token),
    ("the backlog reads one page of a minute", backlog_reads_one_page_of_a_minute),
    ("the backlog does not read again what it has put there", backlog_reads_a_minute_once),
)
