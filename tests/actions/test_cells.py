"""Each cell of the table, over HTTP: the request is made, and made again; and its process is killed with each of its
port calls as the last one, and the client repeats it. What then happens must be what the cell says."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from tests.actions.acts import ACTIONS, ELSEWHERE, PLATFORM, Request
from tests.actions.states import END_MS, STATES, Prepare, Setting, State, built, copy_of
from tests.actions.table import CELLS, JOB_ROWS, TIMER_ROWS, Cell
from tests.actions.world import Answer, Kill, World
from tickwork.api.table import ROUTES
from tickwork.core.instants import SECOND_MS

CALLS_MAX = 40
"""Port calls of one request."""

LATER_MS = 70 * SECOND_MS
"""After so long a client that had no answer may repeat a request: longer than any grace for times that have passed."""


@cache
def _setting(state: State, prepare: Prepare, is_timer: bool, group: str) -> Setting:
    return built(state, prepare, is_timer=is_timer, more={"group": group} if group else {})


def _act(cell: Cell, kill: tuple[int, Kill] | None, pause_ms: int) -> tuple[Setting, list[int]]:
    """The action, with the process of its n-th request killed; each request is made twice. And how many port calls
    each had."""
    setting = copy_of(_setting(cell.state, cell.action.prepare, cell.is_timer, cell.action.group))
    calls: list[int] = []

    def act(at: Setting) -> None:
        at.acted_ms = at.world.at_ms
        requests = cell.action.requests(at)
        for index, request in enumerate(requests):
            is_last = index == len(requests) - 1
            deadly = kill[1] if kill is not None and kill[0] == index else None
            first = _send(at, request, deadly)
            calls.append(at.world.calls_made)
            at.world.at_ms += pause_ms if is_last else SECOND_MS
            again = _send(at, request, None)
            assert again is not None
            _compare(cell, request, first, again, is_last=is_last)

    cell.state.enter(setting, act)
    return setting, calls


def _send(at: Setting, request: Request, kill: Kill | None) -> Answer | None:
    return at.world.call(request.method, request.path, request.body, kill=kill)


def _compare(cell: Cell, request: Request, first: Answer | None, again: Answer, *, is_last: bool) -> None:
    for answer in (first, again) if is_last else ():
        if answer is not None:
            cell.fate.told(answer)
    if first is None:
        return
    assert again.status in (first.status, 200), (request, first, again)
    if first.is_ok:
        shown: list[dict[str, Any]] = [
            {name: one.body[name] for name in cell.action.same if name in one.body} for one in (first, again)
        ]
        assert shown[0] == shown[1], request


def _see(cell: Cell, setting: Setting) -> None:
    """What then happens, to the end of the occurrence after it."""
    world, held = setting.world, setting.held
    if held is not None:
        if world.beat(held).get("cancel"):
            world.complete(held, "cancelled")
        else:
            world.complete(held, "failed", error="boom")
    world.work_to(END_MS)
    cell.fate.holds(setting)
    if cell.then is not None:
        cell.then.holds(setting)
    if not setting.is_timer:
        world.assert_chains_unbroken()


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_what_happens_is_what_the_table_says_whatever_was_killed(cell: Cell) -> None:
    setting, calls = _act(cell, None, SECOND_MS)
    _see(cell, setting)
    _see(cell, _act(cell, None, LATER_MS)[0])
    assert 0 < sum(calls) < CALLS_MAX
    for index, count in enumerate(calls[: len(cell.action.requests(setting))]):
        for call in range(1, count + 1):
            _see(cell, _act(cell, (index, Kill(call)), SECOND_MS)[0])
        _see(cell, _act(cell, (index, Kill(count)), LATER_MS)[0])


def _pattern(path: str) -> re.Pattern[str]:
    """Of a route, with whatever stands in its places."""
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", path))


def _changing() -> list[tuple[str, str]]:
    """The routes that change something of jobs, timers and runs."""
    routes = [(route.method, route.path) for route in ROUTES if route.method != "GET"]
    return [(method, path) for method, path in routes if not path.startswith(PLATFORM)]


def test_every_changing_route_has_its_row_of_fates_or_is_named_with_what_tries_it() -> None:
    setting = Setting(World(), is_timer=True, subject="shop:x", ref="r")
    asked = [(one.method, one.path) for action in ACTIONS for one in action.requests(setting)]
    for method, path in _changing():
        has_row = any(made == method and _pattern(path).fullmatch(at) for made, at in asked)
        assert has_row != (path in ELSEWHERE), f"{method} {path}: give it a row of fates, or a place in ELSEWHERE"
    assert ELSEWHERE.keys() <= {path for _, path in _changing()} | {"/defaults:plan"}


def test_every_action_has_its_row() -> None:
    assert {row.action.name for row in (*JOB_ROWS, *TIMER_ROWS)} == {action.name for action in ACTIONS}


def test_each_row_has_a_fate_for_every_state() -> None:
    rows = {(cell.is_timer, cell.action.name) for cell in CELLS}
    assert len(CELLS) == len(rows) * len(STATES)
