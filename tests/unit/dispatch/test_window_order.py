"""Within a window timers go first: a chain takes a transaction before its occurrence may be sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.worlds import create_job, create_timer, every, make_world, move, sent_refs, serve, statuses
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.dispatch import live
from tickwork.flows.dispatch.windows import run_window
from tickwork.ports import Ports
from tickwork.testing.memory import MemoryStore

JOBS = 5


@pytest.mark.parametrize("waiting_max", [0, 2, live.CHAINS_WAITING_MAX])
@pytest.mark.parametrize("page", [1, 3, live.PAGE_ITEMS_MAX])
def test_timers_are_sent_before_the_jobs_of_their_second_and_nothing_is_left_out(
    monkeypatch: pytest.MonkeyPatch, waiting_max: int, page: int
) -> None:
    monkeypatch.setattr(live, "CHAINS_WAITING_MAX", waiting_max)
    monkeypatch.setattr(live, "PAGE_ITEMS_MAX", page)
    ports, tables = make_world()
    serve(ports)
    for n in range(JOBS):
        create_job(ports, every(60), name=f"job-{n}")
    for _ in range(JOBS):
        create_timer(ports, 60)
    move(ports, 60)
    assert serve(ports).sent == 2 * JOBS
    are_timers = ["~" in ref for ref in sent_refs(ports)]
    assert sum(are_timers) == JOBS
    if waiting_max >= JOBS:
        assert are_timers == sorted(are_timers, reverse=True)
    assert statuses(tables) == {60: "pending", 120: "pending"}


class SlowPages:
    """A store that takes its time for each page of what is due."""

    def __init__(self, ports: Ports, slow_ms: int) -> None:
        self._ports, self._inner, self._slow_ms = ports, ports.store, slow_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def query(self, table: Any, *which: Any, **how: Any) -> Any:
        if table is TIMERS:
            move(self._ports, self._slow_ms / 1_000)
        return self._inner.query(table, *which, **how)


def test_a_window_that_runs_out_of_time_amid_what_waits_behind_passes_none_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "PAGE_ITEMS_MAX", 2)
    ports, tables = make_world()
    serve(ports)
    for n in range(4 * JOBS):
        create_job(ports, every(60), name=f"job-{n:02d}")
    move(ports, 60)
    slow = replace(ports, store=SlowPages(ports, 1_000))
    now_s = ports.clock.now_ms() // 1_000
    first = run_window(slow, 0, now_s, budget_ms=3_500)
    assert 0 < first.sent < 2 * JOBS, "time was up when more than one batch of them was read"
    for _ in range(4 * JOBS):
        run_window(slow, 0, now_s, budget_ms=3_500)
    assert sorted(set(sent_refs(ports))) == sorted(ref_of(item) for item in due_at(tables, now_s))


def due_at(tables: MemoryStore, second: int) -> list[Item]:
    return [item for item in tables.items(TIMERS) if item["sk"].startswith(f"{second:010d}")]


def ref_of(item: Item) -> str:
    return f"{item['pk']}|{item['sk']}"
