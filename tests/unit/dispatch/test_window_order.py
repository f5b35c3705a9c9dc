"""Within a window timers go first: a chain takes a transaction before its occurrence may be sent."""

from __future__ import annotations

import pytest

from tests.support.worlds import create_job, create_timer, every, make_world, move, sent_refs, serve, statuses
from tickwork.flows.dispatch import live

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
