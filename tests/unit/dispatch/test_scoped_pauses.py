"""Pauses of a team, a pool and the cell: they stop starts and nothing else, and lose nothing (F12)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.worlds import (
    LAYOUT,
    NOW_S,
    WORK,
    create_job,
    create_timer,
    every,
    item_of,
    job_item,
    make_world,
    move,
    sent_refs,
    sent_seconds,
    serve,
    statuses,
)
from tickwork.core.access.acting import Acting
from tickwork.core.dispatch import set_aside
from tickwork.core.errors import InvalidField, NotFound, Throttled
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.pauses import ALL, LATEST, SKIP, Pause
from tickwork.core.jobs.scopes import CELL, POOL, TEAM, PausedScope, Scope
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import AUDIT, SET_ASIDE, TEAMS, TIMERS
from tickwork.core.ledger.writes import Absent, Anyway, Delete, Is, Put, Update
from tickwork.core.runs.attempts import Declined, StartRequest
from tickwork.core.schedule import parse_schedule
from tickwork.flows.access import registry
from tickwork.flows.audit import history
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.jobs import pausing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.ledger.paused import TRUSTED_MS, read_paused
from tickwork.flows.ledger.reading import read_run
from tickwork.flows.runs import asking, timers, worker_calls
from tickwork.flows.runs.timers import NewTimer
from tickwork.flows.runs.worker_calls import Started
from tickwork.ports import Ports

PAY = Scope("pay", TEAM, "pay")
SCOPES = (PAY, Scope("platform", POOL, "default"), Scope("platform", CELL, "main"))


def pause(ports: Ports, scope: Scope = PAY, *, until_s: int = 0, at_resume: str = SKIP) -> PausedScope:
    until_ms = ports.clock.now_ms() + until_s * 1_000 if until_s else 0
    return pausing.pause_scope(ports, scope, Pause("ana", "deploy", 0, until_ms, at_resume=at_resume))


def resume(ports: Ports, scope: Scope = PAY) -> list[int]:
    """The nominal seconds since NOW_S of what it will start."""
    found = pausing.resume_scope(ports, scope, "ana")
    assert found.changed
    assert found.starting.count == len(found.starting.first)
    return [key.scheduled_at_ms // 1_000 - NOW_S for key in found.starting.first]


def start(ports: Ports, message: int = 0) -> Started | Declined:
    """A worker takes a message of the ready queue."""
    sender: Any = ports.sender
    body = sender.bodies("ready-default")[message]
    retry = parse_ref(body["retry_ref"]) if body.get("retry_ref") else None
    request = StartRequest(parse_ref(body["ref"]), ports.ids.unique(), "w", 30, body["attempt"], retry)
    return worker_calls.start(ports, request)


def forget(ports: Ports) -> None:
    """The process knows no more what is paused: as another one, or as this one after a while."""
    ports.registry.clear()


@pytest.mark.parametrize("scope", SCOPES)
def test_a_timer_of_what_is_paused_waits_in_a_row_and_goes_when_it_is_resumed(scope: Scope) -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    create_timer(ports, 5)
    pause(ports, scope)
    move(ports, 6)
    assert serve(ports).done == NOW_S + 6, "the cursor goes on"
    assert sent_refs(ports) == []
    (row,) = tables.items(SET_ASIDE)
    assert row["who"] == f"pause#{scope.key}"
    move(ports, 100_000)
    serve(ports)
    assert sent_refs(ports) == []
    assert resume(ports, scope) == [5]
    move(ports, 1)
    serve(ports)
    assert sent_seconds(ports) == [5]
    assert tables.items(SET_ASIDE) == []


def test_another_teams_pause_keeps_nothing_waiting() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    create_timer(ports, 5)
    for scope in (Scope("web", TEAM, "web"), Scope("pay", POOL, "pay_fast"), Scope("platform", CELL, "elsewhere")):
        pause(ports, scope)
    move(ports, 6)
    serve(ports)
    assert sent_seconds(ports) == [5]
    assert isinstance(start(ports), Started)


def test_occurrences_under_a_pause_are_skipped_and_those_after_it_run() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    create_job(ports, every(10))
    pause(ports)
    for _ in range(3):
        move(ports, 10)
        serve(ports)
    assert set(list(statuses(tables).values())[:-1]) == {"skipped"}
    skipped = [item for item in tables.items(TIMERS) if item["status"] == "skipped"]
    assert {item["reason"] for item in skipped} == {"paused by ana: deploy"}
    assert resume(ports) == []
    move(ports, 10)
    serve(ports)
    assert len(sent_refs(ports)) == 1, "of what was paused nothing starts, and what comes after does"
    assert isinstance(start(ports), Started)


@pytest.mark.parametrize(("at_resume", "kept"), [(LATEST, 1), (ALL, 3)])
def test_what_waits_for_a_resume_is_the_newest_or_all_as_was_asked_for_and_as_was_answered(
    at_resume: str, kept: int
) -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    create_job(ports, every(3_600), catch_up=CatchUp("none", max_lateness_s=60))
    pause(ports, at_resume=at_resume)
    for _ in range(3):
        move(ports, 3_600)
        serve(ports)
    pending = [second for second, status in statuses(tables).items() if status == "pending"]
    assert len(statuses(tables)) == len(pending) == 1, "nothing piles up: one waits, for its job"
    move(ports, 600)
    answered = resume(ports)
    assert len(answered) == kept
    for _ in range(3):
        move(ports, 1)
        serve(ports)
    assert sent_seconds(ports) == answered
    assert all(isinstance(start(ports, number), Started) for number in range(kept))
    move(ports, 3_000 - 3)
    serve(ports)
    assert len(sent_refs(ports)) == kept + 1, "the next one runs by the job's own policy"


def test_a_run_that_is_queued_when_the_pause_comes_is_not_started_and_not_lost() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    key = create_timer(ports, 5).key
    move(ports, 6)
    serve(ports)
    pause(ports)
    declined = start(ports)
    assert declined == Declined("put_off", discard=True)
    assert item_of(tables, key)["status"] == "waiting"
    for _ in range(4):
        move(ports, 5)
        serve(ports)
    assert len(sent_refs(ports)) == 1, "it waits without a message"
    assert resume(ports) == [5]
    move(ports, 1)
    serve(ports)
    assert len(sent_refs(ports)) == 2
    started = start(ports, 1)
    assert isinstance(started, Started)
    assert started.run.attempt == 1, "waiting has cost it no attempt"


def test_an_occurrence_that_was_queued_before_a_pause_that_skips_waits_for_it_and_is_not_skipped() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    create_job(ports, every(3_600))
    move(ports, 3_600)
    serve(ports)
    move(ports, 1)
    pause(ports, at_resume=SKIP)
    assert start(ports) == Declined("put_off", discard=True), "it was due before"
    for _ in range(3):
        move(ports, 5)
        serve(ports)
    resume(ports)
    move(ports, 1)
    serve(ports)
    assert len(sent_refs(ports)) == 2
    assert isinstance(start(ports, 1), Started)


def test_a_retry_that_is_queued_beside_what_waits_is_not_told_to_start_by_a_resume() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    key = create_timer(ports, 5).key
    move(ports, 6)
    serve(ports)
    started = start(ports)
    assert isinstance(started, Started)
    worker_calls.fail(ports, key, started.run.token, "boom", permanent=False)
    retry_s = item_of(tables, key)["retry_at_ms"] // 1_000 - NOW_S
    pause(ports)
    for in_s in (1, 60):
        create_timer(ports, in_s)
    move(ports, 61)
    serve(ports)
    assert len(sent_refs(ports)) == 2
    assert 7 <= retry_s <= 66, "it lies where the row reaches"
    assert resume(ports) == [7, 66]


def test_a_timer_whose_start_was_put_off_is_cancelled_like_any_that_nobody_has_started() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    key = create_timer(ports, 5).key
    move(ports, 6)
    serve(ports)
    pause(ports)
    assert start(ports) == Declined("put_off", discard=True)
    by = replace(ports, acting=Acting("ana"))
    for _ in range(2):
        assert timers.cancel_timer(by, key.job_id).status == "cancelled"
    assert item_of(tables, key)["cancelled_by"] == "ana"
    assert resume(ports) == []
    for _ in range(2):
        move(ports, 10)
        serve(ports)
    assert len(sent_refs(ports)) == 1
    assert {item["status"] for item in tables.items(TIMERS)} == {"cancelled", "spent"}


def test_a_timer_that_is_put_off_while_it_is_cancelled_is_cancelled() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    key = create_timer(ports, 5).key
    move(ports, 6)
    serve(ports)
    pause(ports)
    commit, done = tables.commit, list[int]()

    def between(writes: Any) -> Any:
        if not done:
            done.append(1)
            assert start(ports) == Declined("put_off", discard=True)
        return commit(writes)

    racing: Any = type("Racing", (), {"__getattr__": lambda _, name: getattr(tables, name)})()
    racing.commit = between
    assert timers.cancel_timer(replace(ports, store=racing), key.job_id).status == "cancelled"


def test_what_was_started_goes_on_with_its_retries() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    key = create_timer(ports, 5).key
    move(ports, 6)
    serve(ports)
    started = start(ports)
    assert isinstance(started, Started)
    pause(ports)
    assert not isinstance(worker_calls.heartbeat(ports, key, started.run.token, 30), Declined)
    worker_calls.fail(ports, key, started.run.token, "boom", permanent=False)
    move(ports, item_of(tables, key)["retry_at_ms"] / 1_000 - ports.clock.now_ms() / 1_000 + 1)
    serve(ports)
    again = start(ports, 1)
    assert isinstance(again, Started)
    assert again.run.attempt == 2


def test_an_occurrence_that_was_sent_by_somebody_who_knew_of_no_pause_is_skipped_at_its_start() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    create_job(ports, every(10))
    pause(ports)
    (marker,) = [item for item in tables.items(TEAMS) if item["cell"] == "@pauses"]
    tables.commit([Delete(TEAMS, marker, Anyway("an old scanner sees none"))])
    move(ports, 10)
    serve(ports)
    assert len(sent_refs(ports)) == 1
    tables.commit([Put(TEAMS, marker, Absent())])
    forget(ports)
    assert start(ports) == Declined("skipped", discard=True)
    assert job_item(tables).get("last") is None


@pytest.mark.parametrize("late_s", [-1, 3])
def test_a_start_that_is_ahead_of_its_window_skips_nothing_and_the_chain_goes_on(late_s: int) -> None:
    """Whoever knows the ref of what is pending may ask for it before the window has come to it."""
    ports, tables = make_world()
    issue_ticks(ports)
    key = create_job(ports, every(10)).next_key("main")
    assert key is not None
    pause(ports)
    move(ports, 10 + late_s)
    early = worker_calls.start(ports, StartRequest(key, "claim", "w", 30))
    assert early == Declined("not_due", discard=False, retry_after_ms=1_000)
    for _ in range(3):
        move(ports, 10)
        serve(ports)
    *passed, upcoming = statuses(tables).values()
    assert (set(passed), upcoming) == ({"skipped"}, "pending")
    assert worker_calls.start(ports, StartRequest(key, "claim", "w", 30)) == Declined("skipped", discard=True)


def test_a_pause_ends_by_itself_and_windows_bring_the_tick_for_it() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    create_timer(ports, 5)
    pause(ports, until_s=60)
    move(ports, 6)
    serve(ports)
    sender: Any = ports.sender
    assert NOW_S + 60 in [tick["second"] for tick in sender.bodies("ticks")]
    move(ports, 54)
    serve(ports)
    assert sent_seconds(ports) == [5]


def test_a_process_learns_of_a_pause_within_five_seconds() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    for _ in range(2):
        create_timer(ports, 5)
    move(ports, 6)
    serve(ports)
    assert isinstance(start(ports), Started)
    pause(replace(ports, registry={}))  # by another process
    move(ports, TRUSTED_MS / 1_000)
    clock: Any = ports.clock
    assert isinstance(start(ports, 1), Declined), clock


def test_a_process_that_cannot_read_what_is_paused_goes_by_the_last_it_knows() -> None:
    class Busy:
        def query(self, table: Any, *arguments: Any, **named: Any) -> Any:
            if table is TEAMS:
                raise Throttled("teams")
            return tables.query(table, *arguments, **named)

        def __getattr__(self, name: str) -> Any:
            return getattr(tables, name)

    ports, tables = make_world()
    issue_ticks(ports)
    create_timer(ports, 5)
    create_timer(ports, 65)
    pause(ports)
    move(ports, 6)
    serve(ports)
    busy: Any = Busy()
    move(ports, 60)
    serve(replace(ports, store=busy))
    assert sent_refs(ports) == [], "it stays paused"
    with pytest.raises(Throttled):
        serve_later(replace(ports, store=busy, registry={}))


def serve_later(ports: Ports) -> None:
    create_timer(ports, 1)
    move(ports, 2)
    serve(ports)


def test_where_nothing_is_paused_a_window_pays_one_read_and_a_start_none() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    for _ in range(3):
        create_timer(ports, 5)
    move(ports, 6)
    asked: list[Any] = []
    query, get = tables.query, tables.get
    counting: Any = type("Counting", (), {"__getattr__": lambda _, name: getattr(tables, name)})()
    counting.query = lambda table, *a, **k: (asked.append(table.name), query(table, *a, **k))[1]
    counting.get = lambda table, key: (asked.append(table.name), get(table, key))[1]
    watched = replace(ports, store=counting)
    serve(watched)
    assert asked.count("teams") == 1
    asked.clear()
    assert all(isinstance(start(watched, number), Started) for number in range(3))
    assert asked == [], "its process has read it lately"
    move(ports, 1)
    serve(watched)
    assert "teams" not in asked, "a window that fires nothing asks for nothing"


def test_pausing_twice_with_the_same_words_is_one_pause_and_each_change_has_its_entry() -> None:
    ports, tables = make_world()
    first = pause(ports)
    assert pause(ports) == first
    pause(ports, at_resume=ALL)
    assert resume(ports) == []
    again = pausing.resume_scope(ports, PAY, "bob")
    assert (again.changed, again.last and again.last.resumed_by) == (False, "ana")
    assert [item["action"] for item in tables.items(AUDIT)] == ["scope.paused", "scope.paused", "scope.resumed"]
    assert all(item["team"] == "pay" for item in tables.items(AUDIT))


def test_a_pause_that_has_ended_already_and_one_of_an_unknown_team_are_refused() -> None:
    ports, _ = make_world()
    with pytest.raises(InvalidField, match="passed"):
        pausing.pause_scope(ports, PAY, Pause("ana", "deploy", 0, 5))
    with pytest.raises(NotFound):
        registry.check_heard_of(ports, "paymnets")
    create_job(ports, every(10))
    registry.check_heard_of(ports, "pay")


def test_a_resume_that_is_only_asked_about_changes_nothing() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    create_timer(ports, 5)
    pause(ports)
    move(ports, 6)
    serve(ports)
    told = pausing.resume_scope(ports, PAY, "ana", dry_run=True)
    assert (told.changed, told.starting.count) == (False, 1)
    move(ports, 1)
    serve(ports)
    assert sent_refs(ports) == []


def test_what_another_pause_still_keeps_is_not_told_to_start() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    create_timer(ports, 5)
    pause(ports)
    pause(ports, SCOPES[1])
    move(ports, 6)
    serve(ports)
    assert resume(ports) == []
    for _ in range(2):
        move(ports, 1)
        serve(ports)
    assert sent_refs(ports) == []
    assert resume(ports, SCOPES[1]) == [5]
    move(ports, 1)
    serve(ports)
    assert sent_seconds(ports) == [5]


def test_rows_of_a_pause_are_read_back_by_their_scope() -> None:
    for scope in SCOPES:
        assert set_aside.scope_of(set_aside.pause(scope)) == scope
    assert json.loads(json.dumps(PausedScope(PAY).to_item()))["team"] == PAY.key
    assert LAYOUT.slices == 1


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize(
    ("policy", "free", "held"),
    [("allow", 3, 3), ("skip", 1, 0), ("buffer_one", 2, 1), ("buffer_all", 3, 3)],
)
def test_a_resume_answers_with_what_the_jobs_overlap_lets_start(
    policy: str, free: int, held: int, *, is_held: bool
) -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    schedule = parse_schedule(every(10), now_ms=ports.clock.now_ms(), job_id="pay:nightly").spec
    registering.create_job(ports, NewJob("pay", "nightly", schedule, WORK, 0, CatchUp(), "content", overlap=policy))
    if is_held:
        move(ports, 10)
        serve(ports)
        assert isinstance(start(ports), Started)
    begun = len(sent_refs(ports))
    pause(ports, at_resume=ALL)
    for _ in range(3):
        move(ports, 10)
        serve(ports)
    move(ports, 5)
    answered = resume(ports)
    assert len(answered) == (held if is_held else free)
    move(ports, 1)
    serve(ports)
    waits = {item["scheduled_at_ms"] // 1_000 - NOW_S for item in tables.items(TIMERS) if item["status"] == "buffered"}
    assert sorted({*sent_seconds(ports)[begun:], *waits}) == answered, (
        "it starts, or waits for the one before; no other"
    )


def test_a_resume_counts_nothing_of_a_job_of_which_nobody_can_say_now_who_holds_it() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    schedule = parse_schedule(every(10), now_ms=ports.clock.now_ms(), job_id="pay:nightly").spec
    registering.create_job(ports, NewJob("pay", "nightly", schedule, WORK, 0, CatchUp(), "content", overlap="skip"))
    move(ports, 10)
    serve(ports)
    pause(ports, at_resume=ALL)
    move(ports, 10)
    serve(ports)
    tables.commit(
        [Update(TIMERS, parse_ref(sent_refs(ports)[0]).as_item(), Is("status", "pending"), {"status": "new"})]
    )
    found = pausing.resume_scope(ports, PAY, "ana")
    assert (found.changed, found.starting.count, found.starting.at_least) == (True, 0, True)


# --- a pool is with its lanes -----------------------------------------------------------------------------------

LANED = replace(LAYOUT, pools=("default", "default-p0", "default-p2"))
POOL_SCOPE = Scope("platform", POOL, "default")


def laned_timer(ports: Ports, in_s: int, pool: str) -> LedgerKey:
    fire_at_ms = ports.clock.now_ms() + in_s * 1_000
    new = NewTimer("pay", fire_at_ms, replace(WORK, pool=pool))
    return timers.create_timers(ports, [new])[0].run.key


def sent_to(ports: Ports) -> set[str]:
    sender: Any = ports.sender
    return {pool for pool in LANED.pools if sender.bodies(f"ready-{pool}")}


@pytest.mark.parametrize("pool", LANED.pools)
def test_a_pause_of_a_pool_keeps_its_lanes_waiting_too(pool: str) -> None:
    ports, tables = make_world(LANED)
    issue_ticks(ports)
    laned_timer(ports, 5, pool)
    pause(ports, POOL_SCOPE, at_resume=ALL)
    move(ports, 6)
    serve(ports)
    assert sent_to(ports) == set()
    (row,) = tables.items(SET_ASIDE)
    assert row["who"] == f"pause#platform#pool#{pool}", "who knows of no lanes serves the row of a pool for that alone"
    assert resume(ports, POOL_SCOPE) == [5]
    move(ports, 1)
    serve(ports)
    assert sent_to(ports) == {pool}
    assert tables.items(SET_ASIDE) == []


def test_a_start_in_a_lane_waits_for_the_pause_of_its_pool() -> None:
    ports, _ = make_world(LANED)
    issue_ticks(ports)
    key = laned_timer(ports, 5, "default-p0")
    move(ports, 6)
    serve(ports)
    pause(ports, POOL_SCOPE)
    request = StartRequest(key, ports.ids.unique(), "w", 30, 1, None)
    assert worker_calls.start(ports, request) == Declined("put_off", discard=True)


def test_a_lane_that_is_paused_by_itself_waits_until_both_pauses_are_over_and_keeps_no_other_lane() -> None:
    ports, tables = make_world(LANED)
    issue_ticks(ports)
    lane = Scope("platform", POOL, "default-p0")
    for pool in LANED.pools:
        laned_timer(ports, 5, pool)
    pause(ports, lane)
    move(ports, 6)
    serve(ports)
    assert sent_to(ports) == {"default", "default-p2"}
    pause(ports, POOL_SCOPE, until_s=60)
    now_ms = ports.clock.now_ms()
    assert read_paused(ports).end_of(lane, now_ms) == 0, "the one without an end"
    assert resume(ports, lane) == []
    assert read_paused(ports).end_of(lane, now_ms) == now_ms + 60_000
    move(ports, 2)
    serve(ports)
    assert sent_to(ports) == {"default", "default-p2"}
    assert len(tables.items(SET_ASIDE)) == 1
    move(ports, 60)
    serve(ports)
    assert sent_to(ports) == set(LANED.pools)


# --- as it is shown ---------------------------------------------------------------------------------------------


def test_what_waits_for_the_end_of_a_pause_is_shown_as_pending_and_what_was_sent_as_queued() -> None:
    ports, _ = make_world(LANED)
    issue_ticks(ports)
    sent = create_timer(ports, 1)
    move(ports, 2)
    serve(ports)
    pause(ports, POOL_SCOPE, at_resume=ALL)
    waits, other = create_timer(ports, 5), Run(laned_timer(ports, 5, "default-p0"))
    job = create_job(ports, every(10))
    by_hand = asking.ask_for_run(ports, asking.Wanted(job.job_id, "ana", "now"))
    move(ports, 12)
    serve(ports)

    def status_of(run: Run) -> str:
        found = read_run(ports, run.key)
        assert found is not None
        return history.view_of(ports, found).status

    assert [status_of(run) for run in (sent, waits, other)] == ["queued", "pending", "pending"]
    assert status_of(Run(by_hand.key)) == "queued", "a pause is nothing to it"
    runs = history.job_runs(ports, job.job_id, limit=9, after=None).found
    (shown,) = [view for view in runs if not view.run.key.kind]
    assert shown.status == "pending"
    resume(ports, POOL_SCOPE)
    move(ports, 1)
    serve(ports)
    assert {status_of(run) for run in (sent, waits, other)} == {"queued"}
