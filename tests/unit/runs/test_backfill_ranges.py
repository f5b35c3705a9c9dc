"""Backfills of more than are listed at once: the list is made piece by piece, when its turn comes (decision 171)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.http import ApiUnderTest
from tests.support.runs_world import Crash, World

from tickwork.core.errors import InvalidField, VersionConflict
from tickwork.core.instants import iso
from tickwork.core.jobs import backfills
from tickwork.core.jobs.backfills import BACKFILLS, RANGES, Backfill
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.overlap import SKIP
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import PAYLOADS, TEAMS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Anyway, Delete, Put
from tickwork.core.schedule import parse_schedule
from tickwork.flows.audit import reconciling
from tickwork.flows.jobs import changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import backfill_listing, backfill_making, backfill_stopping, backfilling
from tickwork.flows.runs.backfill_making import Wanted
from tickwork.ports import Layout, Ports

MINUTE_MS = 60_000


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Where five are listed at once, and a piece is of four."""
    monkeypatch.setattr(backfill_making, "OCCURRENCES_MAX", 5)
    monkeypatch.setattr(backfill_listing, "PIECE", 4)
    return World()


def new_job(world: World, spec: dict[str, Any] | None = None) -> NewJob:
    spec = spec or {"cron": "* * * * *", "zone": "UTC"}
    schedule = parse_schedule(spec, now_ms=world.clock.at_ms, job_id="shop:x").spec
    return NewJob("shop", "x", schedule, Work("default", "job"), 0, CatchUp(), "f", overlap=SKIP)


def wanted(world: World, count: int = 18, **more: Any) -> Wanted:
    until_ms = world.clock.at_ms // MINUTE_MS * MINUTE_MS
    said = Wanted("shop:x", until_ms - count * MINUTE_MS, until_ms, "none", "oldest_first", 2, "ann", "a bug", "k", "f")
    return replace(said, **more)


def made(world: World, count: int = 18, **more: Any) -> Backfill:
    registering.create_job(world.ports, new_job(world))
    asked = wanted(world, count, **more)
    backfill = backfill_making.make(world.ports, asked, backfill_making.plan(world.ports, asked).token)
    world.scan()
    return backfill


def now(world: World, backfill: Backfill) -> Backfill:
    return backfill_stopping.get_backfill(world.ports, backfill.backfill_id)


def runs(world: World) -> list[Run]:
    """In the order in which they were launched."""
    found = [Run.from_item(item) for item in world.store.items(TIMERS) if "#backfill." in item["sk"]]
    return sorted(found, key=lambda run: (run.key.fire_at_ms, run.key.scheduled_at_ms))


def work_off(world: World, each: Callable[[], object] = lambda: None) -> list[int]:
    """Workers take what is sent, one run at a time, until nothing is. The instants in the order of their starts."""
    started: list[int] = []
    for _ in range(500):
        pending = [run.key for run in runs(world) if run.status == "pending"]
        if not pending:
            return started
        started.append(pending[0].scheduled_at_ms)
        world.complete(pending[0], world.must_start(pending[0]).token)
        each()
        world.after(1)
        world.scan()
    raise AssertionError("it does not end")


@pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
@pytest.mark.parametrize(("count", "outcomes"), [(6, "none"), (8, "all"), (17, "all"), (18, "none")])
def test_each_instant_runs_once_in_the_order_that_was_asked_for(
    world: World, order: str, count: int, outcomes: str
) -> None:
    """Also where what has run would be run again: an instant stands in one piece."""
    backfill = made(world, count, order=order, concurrency=1, outcomes=outcomes)
    asked = wanted(world, count)
    assert backfill.is_range
    every = list(range(asked.from_ms, asked.until_ms, MINUTE_MS))
    assert work_off(world) == (every if order == "oldest_first" else every[::-1])
    over = now(world, backfill)
    assert (over.status, over.ended, over.matched, over.live) == ("finished", {"succeeded": count}, count, ())


def test_no_more_is_listed_than_is_run_and_never_more_launched_than_at_a_time(world: World) -> None:
    backfill = made(world, concurrency=2)
    most = 0

    def look() -> None:
        nonlocal most
        one = now(world, backfill)
        most = max(most, len(one.live))
        assert one.count - one.position <= 4

    work_off(world, look)
    assert most == 2
    assert Counter(run.key.scheduled_at_ms for run in runs(world)).most_common(1)[0][1] == 1


def test_progress_is_what_samples_said_until_all_is_listed(world: World) -> None:
    backfill = made(world)
    assert (backfill.matched, backfill.is_listed) == (18, False)
    work_off(world)
    assert (now(world, backfill).is_listed, now(world, backfill).matched) == (True, 18)


def test_what_has_succeeded_when_its_piece_is_listed_is_not_run_again(world: World) -> None:
    first = made(world, 12, concurrency=1)
    work_off(world)
    assert now(world, first).status == "finished"
    asked = wanted(world, 18, client_key="again")
    asked = replace(asked, from_ms=asked.from_ms, until_ms=asked.until_ms)
    plan = backfill_making.plan(world.ports, asked)
    second = backfill_making.make(world.ports, asked, plan.token)
    world.scan()
    work_off(world)
    over = now(world, second)
    before = {run.key.scheduled_at_ms for run in runs(world) if first.unique in run.key.kind}
    after = {run.key.scheduled_at_ms for run in runs(world) if second.unique in run.key.kind}
    assert over.status == "finished"
    assert not before & after
    assert len(before | after) == 18


def test_a_dry_run_looks_at_samples_and_comes_near(world: World) -> None:
    registering.create_job(world.ports, new_job(world, {"cron": "*/5 8-17 * * *", "zone": "UTC"}))
    days_ms = 100 * 86_400_000
    until_ms = world.clock.at_ms // 86_400_000 * 86_400_000
    asked = wanted(world, from_ms=until_ms - days_ms, until_ms=until_ms)
    plan = backfill_making.plan(world.ports, asked)
    assert plan.is_range
    assert plan.instants == ()
    assert plan.count == pytest.approx(100 * 120, rel=0.1)
    assert plan.outcomes["none"] == plan.count


def test_an_even_schedule_is_estimated_to_a_percent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill_listing, "OF_A_SAMPLE", 20)
    registering.create_job(world.ports, new_job(world))
    plan = backfill_making.plan(world.ports, wanted(world, 50_000))
    assert plan.count == pytest.approx(50_000, rel=0.01)


def test_without_its_token_or_with_that_of_something_else_none_is_made(world: World) -> None:
    registering.create_job(world.ports, new_job(world))
    monkey = backfill_making.plan(world.ports, wanted(world)).token
    with pytest.raises(VersionConflict):
        backfill_making.make(world.ports, wanted(world, concurrency=3), monkey)
    with pytest.raises(VersionConflict):
        backfill_making.make(world.ports, wanted(world, 17), monkey)
    assert not [item for item in world.store.items(TEAMS) if item["cell"] in (BACKFILLS, RANGES)]


def test_too_many_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill_making, "EXPECTED_MAX", 17)
    registering.create_job(world.ports, new_job(world))
    with pytest.raises(InvalidField, match="some 18 runs"):
        backfill_making.plan(world.ports, wanted(world))


def test_a_change_of_the_schedule_changes_nothing_of_it(world: World) -> None:
    backfill = made(world, concurrency=1)
    job = registering.get_job(world.ports, "shop:x")
    other = replace(new_job(world, {"cron": "7 7 * * *", "zone": "UTC"}), fingerprint="g")
    changing.update_job(world.ports, "shop:x", job.version, lambda _: other)
    work_off(world)
    assert now(world, backfill).ended == {"succeeded": 18}


def test_it_ends_with_its_job(world: World) -> None:
    backfill = made(world, concurrency=1)
    registering.delete_job(world.ports, "shop:x")
    work_off(world)
    reconciling.reconcile(world.ports)
    over = now(world, backfill)
    assert (over.status, over.stopped_because) == ("cancelled", "its job was deleted")


def test_paused_it_lists_nothing_and_cancelled_it_ends(world: World) -> None:
    backfill = made(world, concurrency=1)
    backfill_stopping.pause(world.ports, backfill.backfill_id, "ann", "lunch")
    work_off(world)
    assert len(runs(world)) == 1
    reconciling.reconcile(world.ports)
    assert len(runs(world)) == 1
    backfill_stopping.resume(world.ports, backfill.backfill_id, "ann")
    world.scan()
    backfill_stopping.cancel(world.ports, backfill.backfill_id, "ann", "enough", stops_runs=False)
    assert now(world, backfill).is_over
    assert [one.unique for one in backfill_making.list_of(world.ports, "shop:x")] == [backfill.unique]


@pytest.mark.parametrize("commits", range(1, 12))
def test_whoever_dies_behind_a_write_leaves_nothing_out_and_doubles_nothing(world: World, commits: int) -> None:
    registering.create_job(world.ports, new_job(world))
    asked = wanted(world, concurrency=2)
    token = backfill_making.plan(world.ports, asked).token
    world.store.crash_after_commits = commits
    for _ in range(60):
        try:
            if backfill_making.made_before(world.ports, asked) is None:
                backfill_making.make(world.ports, asked, token)
            world.scan()
            work_off(world)
            reconciling.reconcile(world.ports)
        except Crash:
            for run in runs(world):  # its worker has started it, and knows nothing of the crash
                if run.status == "running":
                    world.complete(run.key, run.token)
            continue
        if now(world, backfill_making.list_of(world.ports, "shop:x")[0]).is_over:
            break
        world.after(300)
    (over,) = backfill_making.list_of(world.ports, "shop:x")
    assert (over.status, sum(over.ended.values())) == ("finished", 18)
    assert sorted(run.key.scheduled_at_ms for run in runs(world)) == list(
        range(asked.from_ms, asked.until_ms, MINUTE_MS)
    )


def test_two_who_list_at_once_do_not_write_into_each_others_piece(world: World) -> None:
    """The other one sees an outcome more, and lists another piece in its place."""
    backfill = made(world, concurrency=1)
    for _ in range(3):
        (key,) = [run.key for run in runs(world) if run.status == "pending"]
        world.complete(key, world.must_start(key).token)
        world.after(1)
        world.scan()
    (key,) = [run.key for run in runs(world) if run.status == "pending"]

    def other() -> None:
        standing = now(world, backfill)
        one = replace(standing, live=())
        if one.wants_piece:
            backfill_listing.with_next_piece(world.ports, replace(one, outcomes="all"))

    token = world.must_start(key).token
    world.store.before_commit = other
    world.complete(key, token)
    world.scan()
    work_off(world)
    assert now(world, backfill).ended == {"succeeded": 18}


def test_a_piece_that_has_expired_ends_it(world: World) -> None:
    backfill = made(world, concurrency=1)
    for item in world.store.items(PAYLOADS):
        world.store.commit([Delete(PAYLOADS, {"payload_id": item["payload_id"]}, Anyway("it expires"))])
    work_off(world)
    over = now(world, backfill)
    assert (over.status, over.stopped_because) == ("cancelled", "its list has expired")


def test_a_schedule_that_cannot_be_read_ends_it_and_fails_no_worker(world: World) -> None:
    backfill = made(world, concurrency=1)
    item = now(world, backfill).to_item() | {"schedule": {"cron": "no cron"}}
    world.store.commit([Put(TEAMS, item, Anyway("a test"))])
    work_off(world)
    assert now(world, backfill).status == "cancelled"


def test_an_old_reader_finds_none_where_it_looks(world: World) -> None:
    backfill = made(world)
    assert world.store.get(TEAMS, backfills.place("shop:x", backfill.unique)) is None
    assert backfilling.read_backfill(world.ports, backfills.place("shop:x", backfill.unique)) is not None


# --- lanes ----------------------------------------------------------------------------------------------------


def _laned(world: World, *pools: str) -> Ports:
    layout = Layout(shards=2, slices=1, pools=pools)
    world.ports = replace(world.ports, layout=layout)
    registering.create_job(world.ports, new_job(world))
    return world.ports


@pytest.mark.parametrize(
    ("pools", "lane", "pool"),
    [
        (("default", "default-p2"), "", "default-p2"),
        (("default",), "", "default"),
        (("default", "default-p2", "default-p0"), "P0", "default-p0"),
        (("default", "default-p2"), "P1", "default"),
    ],
)
def test_its_runs_are_bulk_where_there_is_such_a_lane_or_go_in_the_lane_that_is_named(
    world: World, pools: tuple[str, ...], lane: str, pool: str
) -> None:
    ports = _laned(world, *pools)
    backfill_making.make(ports, wanted(world, 3, lane=lane))
    assert {run.work.pool for run in runs(world) if run.work} == {pool}


def test_a_lane_that_is_not_there_is_refused(world: World) -> None:
    with pytest.raises(InvalidField, match="no lane P0"):
        backfill_making.make(_laned(world, "default"), wanted(world, 3, lane="P0"))


def test_over_http_it_says_that_it_is_approximate_and_how_far_it_is(world: World) -> None:
    registering.create_job(world.ports, new_job(world))
    api, asked = ApiUnderTest(world.ports), wanted(world)
    body = {"since": iso(asked.from_ms), "until": iso(asked.until_ms), "reason": "a bug", "concurrency": 2}
    status, counted = api.call("POST", "/jobs/shop:x/backfills", body | {"dry_run": True})
    assert (status, counted["approximate"], counted["matched"], counted["first"]) == (200, True, 18, None)
    status, shown = api.call("POST", "/jobs/shop:x/backfills", body | {"token": counted["token"], "client_key": "k"})
    assert (status, shown["approximate"], shown["matched"], shown["left"]) == (201, True, 18, 16)
    assert shown["listed_to"] == iso(asked.from_ms + 3 * MINUTE_MS)
    work_off(world)
    _, shown = api.call("GET", f"/backfills/{shown['backfill_id']}")
    assert (shown["status"], shown["matched"], "approximate" in shown) == ("finished", 18, False)
