"""What of a paused scope still runs: found wherever it is, page by page, until it has ended."""

from __future__ import annotations

import pytest

from tests.support.worlds import create_job, create_timer, every, make_world, move, serve
from tickwork.core.jobs.pauses import Pause
from tickwork.core.jobs.scopes import ALL_CELLS, CELL, POOL, TEAM, Scope
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import LEASES
from tickwork.core.runs.attempts import StartRequest
from tickwork.flows.audit import draining
from tickwork.flows.audit.draining import in_flight
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.jobs import pausing
from tickwork.flows.runs import worker_calls
from tickwork.flows.runs.worker_calls import Started
from tickwork.ports import Layout, Ports

PAY = Scope("pay", TEAM, "pay")
SCOPES = (PAY, Scope("platform", POOL, "default"), Scope("platform", CELL, ALL_CELLS))


def started(ports: Ports, key: LedgerKey) -> int:
    found = worker_calls.start(ports, StartRequest(key, ports.ids.unique(), "w", 900))
    assert isinstance(found, Started)
    return found.run.token


def all_of(ports: Ports, scope: Scope) -> list[LedgerKey]:
    """One pass."""
    found = in_flight(ports, scope)
    runs = list(found.runs)
    for _ in range(10_000):
        if found.more is None:
            return [run.key for run in runs]
        found = in_flight(ports, scope, found.more)
        runs += found.runs
    raise AssertionError("a pass has an end")


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("layout", [Layout(shards=1, slices=1), Layout(shards=4, slices=2)], ids=["one", "two slices"])
def test_it_is_drained_when_what_runs_has_ended_and_not_while_it_waits_for_a_retry(
    scope: Scope, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "READS_MAX", 7)
    ports, _ = make_world(layout)
    issue_ticks(ports)
    key, later = create_timer(ports, 5).key, create_timer(ports, 6).key
    job = create_job(ports, every(5)).next_key("main")
    assert job is not None
    move(ports, 10)
    for number in range(layout.slices):
        serve(ports, number)
    tokens = {one: started(ports, one) for one in (key, job)}
    pausing.pause_scope(ports, scope, Pause("ana", "deploy", 0))
    assert sorted(all_of(ports, scope), key=str) == sorted((key, job), key=str), "what is queued does not run"
    worker_calls.complete(ports, job, tokens[job])
    worker_calls.fail(ports, key, tokens[key], "boom", permanent=False)
    assert all_of(ports, scope) == [key], "it waits for its retry"
    assert later not in all_of(ports, scope)


def test_another_teams_runs_are_not_waited_for() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    key = create_timer(ports, 5).key
    move(ports, 6)
    serve(ports)
    started(ports, key)
    for scope in (Scope("web", TEAM, "web"), Scope("platform", POOL, "other"), Scope("platform", CELL, "elsewhere")):
        assert all_of(ports, scope) == []


def test_what_runs_for_more_than_a_day_is_found_in_the_minutes_that_the_audit_has_left_open() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    key = create_timer(ports, 5).key
    move(ports, 6)
    serve(ports)
    token = started(ports, key)
    for _ in range(2):
        move(ports, 800)
        assert not isinstance(worker_calls.heartbeat(ports, key, token, 900), worker_calls.Declined)
    move(ports, 90_000)
    serve(ports)
    reconcile(ports)
    lease = tables.items(LEASES)[0]
    assert lease["audited_day"] > key.fire_second, "the day's audit has passed it"
    assert all_of(ports, PAY) == [key]
    worker_calls.complete(ports, key, token)
    assert all_of(ports, PAY) == []
