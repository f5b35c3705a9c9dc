"""Planted bugs in serving a window, and in issuing its ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import backlog
from tickwork.flows.dispatch import catching_up, firing, live, sending, ticking
from tickwork.flows.dispatch.serving import Serving
from tickwork.ports import Layout, Page, Ports
from tickwork.testing.store import SimStore


def _edge_triggered() -> Sequence[Patch]:
    right = live._serve_range
    return [(live, "_serve_range", lambda it, _, last, start: right(it, last, last, start))]


def _first_page_only() -> Sequence[Patch]:
    def wrong(it: Any, *arguments: Any) -> Any:
        store, query = it.ports.store, it.ports.store.query

        def one_page(*arguments: Any, **named: Any) -> Page:
            page: Page = query(*arguments, **named)
            return replace(page, more=None)

        ports = replace(it.ports, store=_Overlay(store, query=one_page))
        pages: Any = right(replace(it, ports=ports), *arguments)
        return pages

    right = live._pages
    return [(live, "_pages", wrong)]


class _Overlay:
    """A port with some of its methods replaced."""

    def __init__(self, port: Any, **methods: Any) -> None:
        self._port = port
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def _stale_window_read() -> Sequence[Patch]:
    right = SimStore.query

    def wrong(self: Any, *arguments: Any, **named: Any) -> Page:
        page = right(self, *arguments, **named)
        if self._process.kind != "scanner":
            return page
        seen_ms = self._process.world.kernel.now_ms - 1_500
        return replace(page, items=tuple(item for item in page.items if item.get("created_at_ms", 0) <= seen_ms))

    return [(SimStore, "query", wrong)]


def _forgets_own_next() -> Sequence[Patch]:
    return [(Serving, "_see_to", lambda *_: [])]


def _unsent_is_forgotten() -> Sequence[Patch]:
    right = sending.send_ready
    return [(firing, "send_ready", lambda ports, *rest: replace(right(ports, *rest), unsent=0, left=()))]


def _partial_failures_not_read() -> Sequence[Patch]:
    def wrong(ports: Ports, boxes: Sequence[Any], _: int) -> None:
        for box in boxes:
            ports.sender.send(box.queue, box.outgoing)
            box.left = []

    return [(sending, "_send_patiently", wrong)]


def _old_shards_not_read() -> Sequence[Patch]:
    return [(Layout, "shards_of", lambda self, slice_no: range(slice_no, self.shards, self.slices))]


def _no_lookahead() -> Sequence[Patch]:
    return [(ticking, "_due_seconds", lambda *_: set())]


def _backlog_dropped() -> Sequence[Patch]:
    return [(backlog, "opened", lambda lease, until: replace(lease, done=until - backlog.LIVE_S))]


def _backlog_closed_unserved() -> Sequence[Patch]:
    return [(catching_up, "work_off", lambda *_: catching_up.FINISHED)]


BUGS = (
    Bug("a window serves its own second only", _edge_triggered),
    Bug("a window reads the first page only", _first_page_only),
    Bug("a window reads eventually consistently", _stale_window_read),
    Bug("the scanner forgets its own next", _forgets_own_next),
    Bug("what could not be sent is forgotten", _unsent_is_forgotten),
    Bug("partial failures of a batch are not read", _partial_failures_not_read),
    Bug("shards of the old layout are not read", _old_shards_not_read),
    Bug("the ticker does not look ahead", _no_lookahead),
    Bug("an outage's backlog is dropped", _backlog_dropped),
    Bug("the backlog is closed before it was served", _backlog_closed_unserved),
)
