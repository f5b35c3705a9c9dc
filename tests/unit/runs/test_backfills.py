"""Backfills: a range of past instants run again, so many at a time (F13, O10, O11)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.runs_world import Crash, World

from tickwork.core.errors import (
    AlreadyExists,
    InvalidField,
    NotFound,
    Throttled,
    TooLate,
    TooMany,
    VersionConflict,
    WorldError,
)
from tickwork.core.ids import run_id_of
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs import backfills
from tickwork.core.jobs.backfills import Backfill
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.overlap import SKIP
from tickwork.core.jobs.pauses import Pause
from tickwork.core.jobs.scopes import TEAM, Scope
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, LEASES, PAYLOADS, TEAMS, TIMERS
from tickwork.core.ledger.work import RetryPolicy, Work
from tickwork.core.ledger.writes import Anyway, Delete, Is, Put, Write
from tickwork.core.runs.attempts import Declined
from tickwork.core.schedule import parse_schedule
from tickwork.flows.audit import reconciling
from tickwork.flows.jobs import changing, pausing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.ledger.payloads import PAYLOAD_INLINE_BYTES_MAX
from tickwork.flows.runs import asking, backfill_making, backfill_stopping, backfilling, cancelling, dead_letters
from tickwork.flows.runs.backfill_making import Wanted
from tickwork.ports import SendReport


@pytest.fixture
def world() -> World:
    return World()


def job_of(world: World, **work: Any) -> str:
    spec = parse_schedule({"cron": "* * * * *", "zone": "UTC"}, now_ms=world.clock.at_ms, job_id="shop:x").spec
    new = NewJob("shop", "x", spec, Work("default", "job", **work), 0, CatchUp(), "f", overlap=SKIP)
    return registering.create_job(world.ports, new)[0].job_id


def wanted(world: World, count: int = 5, **more: Any) -> Wanted:
    """Of the last instants before the job was made."""
    until_ms = world.clock.at_ms // 60_000 * 60_000
    said = Wanted("shop:x", until_ms - count * 60_000, until_ms, "none", "oldest_first", 2, "ann", "a bug", "k", "f")
    return replace(said, **more)


def made(world: World, count: int = 5, **more: Any) -> Backfill:
    backfill = backfill_making.make(world.ports, wanted(world, count, **more))
    world.scan()
    return backfill


def now(world: World, backfill: Backfill) -> Backfill:
    found = backfilling.read_backfill(world.ports, backfill.key())
    assert found is not None
    return found


def runs(world: World) -> list[Run]:
    """Those that backfills have launched, in the order of their instants."""
    found = [Run.from_item(item) for item in world.store.items(TIMERS) if "#backfill." in item["sk"]]
    return sorted((run for run in found if "retry" not in run.key.kind), key=lambda run: run.key.scheduled_at_ms)


def pending(world: World) -> list[LedgerKey]:
    return [run.key for run in runs(world) if run.status == "pending"]


def work_off(world: World) -> None:
    """Workers take what is sent, until nothing is."""
    for _ in range(500):
        keys = pending(world)
        if not keys:
            return
        world.complete(keys[0], world.must_start(keys[0]).token)
        world.scan()


# --- what it runs -------------------------------------------------------------------------------------------------


def test_it_runs_each_instant_of_the_range_once_beside_the_scheduled_ones(world: World) -> None:
    job_of(world)
    at = wanted(world)
    backfill = made(world)
    work_off(world)
    found = runs(world)
    assert [run.key.scheduled_at_ms for run in found] == list(range(at.from_ms, at.until_ms, 60_000))
    assert {run.status for run in found} == {"succeeded"}
    assert {run.run_id for run in found} == {
        run_id_of("shop:x", run.key.scheduled_at_ms, backfill.kind) for run in found
    }
    assert all((run.created_by, run.because, run.beside) == ("ann", "a bug", True) for run in found)
    after = now(world, backfill)
    assert (after.status, after.ended, after.live, after.position) == ("finished", {"succeeded": 5}, (), 5)
    message = world.message(found[0].key)
    assert (message["kind"], message["occurrence_id"]) == (
        "backfill",
        run_id_of("shop:x", found[0].key.scheduled_at_ms),
    )


@pytest.mark.parametrize("concurrency", [1, 2, 4, 9])
def test_no_more_run_at_a_time_than_it_says_and_a_free_place_is_taken_at_once(world: World, concurrency: int) -> None:
    job_of(world)
    made(world, 7, concurrency=concurrency)
    for left in range(7, 0, -1):
        live = [run.key for run in runs(world) if not run.ended]
        assert len(live) == min(concurrency, left)
        world.complete(live[0], world.must_start(live[0]).token)
    assert all(run.ended for run in runs(world))


@pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
def test_it_goes_in_its_order(world: World, order: str) -> None:
    job_of(world)
    made(world, 4, order=order, concurrency=1)
    seen = []
    while keys := pending(world):
        seen.append(keys[0].scheduled_at_ms)
        world.complete(keys[0], world.must_start(keys[0]).token)
        world.scan()
    assert seen == sorted(seen, reverse=order == "newest_first")
    assert len(seen) == 4


@pytest.mark.parametrize(("outcomes", "expected"), [("none", [0]), ("failed", [0, 1, 2]), ("all", [0, 1, 2, 3])])
def test_it_redoes_what_is_asked_for_and_never_what_is_still_to_end(
    world: World, outcomes: str, expected: list[int]
) -> None:
    job_of(world)
    at: list[int] = []
    for became in ("skipped", "dead", "expired", "succeeded", "running"):
        if became == "skipped":
            changing.pause_job(world.ports, "shop:x", "ops", "a move")
        key = world.until_due("shop:x")
        at.append(key.scheduled_at_ms)
        if became == "skipped":
            changing.resume_job(world.ports, "shop:x", "ops")
        elif became == "expired":
            world.ports.store.commit(
                [Put(TIMERS, world.item(key) | {"status": "expired", "ended_at_ms": 1}, Is("status", "pending"))]
            )
        else:
            token = world.must_start(key, lease_s=900).token
            if became == "dead":
                world.fail(key, token, permanent=True)
            if became == "succeeded":
                world.complete(key, token)
    world.after(1)
    want = wanted(world, from_ms=at[0], until_ms=at[-1] + 1, outcomes=outcomes)
    planned = backfill_making.plan(world.ports, want)
    assert [at.index(instant) for instant in planned.instants] == expected
    assert planned.outcomes == {"none": 1, "failed": 2, "succeeded": 1, "live": 1}


def test_a_dead_occurrence_that_a_backfill_runs_again_is_still_to_end(world: World) -> None:
    job_of(world)
    key = world.until_due("shop:x")
    world.fail(key, world.must_start(key).token, permanent=True)
    world.after(1)
    want = wanted(world, from_ms=key.scheduled_at_ms, until_ms=key.scheduled_at_ms + 1, outcomes="failed")
    backfill_making.make(world.ports, want)
    world.scan()
    for status in ("pending", "running"):
        assert [run.status for run in runs(world)] == [status]
        planned = backfill_making.plan(world.ports, want)
        assert (planned.instants, planned.outcomes["live"]) == ((), 1)
        (again,) = runs(world)
        started = world.must_start(again.key) if status == "pending" else again
    world.complete(started.key, started.token)
    assert backfill_making.plan(world.ports, want).outcomes["succeeded"] == 1


def test_a_run_by_hand_in_the_second_of_an_occurrence_is_not_that(world: World) -> None:
    job_of(world)
    want = wanted(world, 1)
    world.clock.at_ms, later_ms = want.from_ms, world.clock.at_ms + 1_000
    key = asking.ask_for_run(world.ports, asking.Wanted("shop:x", "ann", "late")).key
    world.scan()
    world.complete(key, world.must_start(key).token)
    world.clock.at_ms = later_ms
    assert key.scheduled_at_ms == want.from_ms
    assert backfill_making.plan(world.ports, want).outcomes["none"] == 1


def test_what_another_backfill_has_done_is_done(world: World) -> None:
    job_of(world)
    made(world)
    want = wanted(world, client_key="other")
    assert backfill_making.plan(world.ports, want).outcomes["live"] == 2
    work_off(world)
    assert backfill_making.plan(world.ports, want).instants == ()
    with pytest.raises(InvalidField, match="nothing"):
        backfill_making.make(world.ports, want)


def test_it_leaves_the_chain_and_the_pause_and_neither_holds_nor_is_held(world: World) -> None:
    job_of(world)
    scheduled = world.until_due("shop:x")
    world.must_start(scheduled, lease_s=900)
    changing.pause_job(world.ports, "shop:x", "ops", "a move")
    job = registering.get_job(world.ports, "shop:x")
    made(world, 3)
    for key in pending(world):
        world.must_start(key, lease_s=900)
    assert registering.get_job(world.ports, "shop:x") == job
    changing.resume_job(world.ports, "shop:x", "ops")
    world.complete(scheduled, 1)
    assert world.messages(world.until_due("shop:x"))


def test_a_run_that_dies_counts_as_failed_and_may_be_replayed(world: World) -> None:
    job_of(world, retry=RetryPolicy(1))
    backfill = made(world, 3)
    dead = pending(world)[0]
    world.fail(dead, world.must_start(dead).token)
    work_off(world)
    assert now(world, backfill).ended == {"dead": 1, "succeeded": 2}
    order = dead_letters.Order("ops", "mended", 1, world.clock.at_ms)
    assert [one.refusal for one in dead_letters.replay_runs(world.ports, [dead], order)] == [""]


def test_the_list_stays_as_it_was_counted_whatever_the_job_becomes(world: World) -> None:
    job_of(world)
    at = wanted(world)
    backfill = made(world)
    job = registering.get_job(world.ports, "shop:x")
    other = parse_schedule({"rate": "7s"}, now_ms=world.clock.at_ms, job_id="shop:x").spec
    new = NewJob("shop", "x", other, replace(job.work, handler="other"), 0, job.catch_up, "g", overlap=SKIP)
    changing.update_job(world.ports, "shop:x", job.version, lambda _: new)
    work_off(world)
    assert [run.key.scheduled_at_ms for run in runs(world)] == list(range(at.from_ms, at.until_ms, 60_000))
    assert {world.message(run.key)["handler"] for run in runs(world)} == {"job"}
    assert now(world, backfill).status == "finished"


def test_a_list_of_several_pages_is_gone_through(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr(backfills, "PAGE", 3)
    monkeypatch.setattr(backfill_making, "PAGE", 3)
    job_of(world)
    backfill = made(world, 10, concurrency=4)
    assert len(world.store.items(PAYLOADS)) == 4
    work_off(world)
    assert len(runs(world)) == 10
    assert now(world, backfill).status == "finished"


# --- counting and tokens ------------------------------------------------------------------------------------------


def test_a_large_one_needs_the_token_of_its_dry_run_and_is_just_what_that_has_counted(
    world: World, monkeypatch: Any
) -> None:
    monkeypatch.setattr(backfill_making, "TOKEN_ABOVE", 3)
    job_of(world)
    want = wanted(world)
    with pytest.raises(InvalidField, match="5 runs") as refused:
        backfill_making.make(world.ports, want)
    assert refused.value.field == "token"
    token = backfill_making.plan(world.ports, want).token
    for other in (replace(want, outcomes="all"), replace(want, concurrency=9), replace(want, from_ms=want.from_ms + 1)):
        with pytest.raises(VersionConflict):
            backfill_making.make(world.ports, other, token)
    assert not runs(world)
    assert backfill_making.make(world.ports, want, token).count == 5


def test_what_has_changed_since_it_was_counted_is_counted_again(world: World) -> None:
    job_of(world)
    key = world.until_due("shop:x")
    world.fail(key, world.must_start(key).token, permanent=True)
    world.after(1)
    want = wanted(world, from_ms=key.scheduled_at_ms, until_ms=key.scheduled_at_ms + 1, outcomes="failed")
    token = backfill_making.plan(world.ports, want).token
    order = dead_letters.Order("ops", "mended", 1, world.clock.at_ms)
    dead_letters.replay_runs(world.ports, [key], order)
    with pytest.raises((VersionConflict, InvalidField)):
        backfill_making.make(world.ports, want, token)
    assert not runs(world)


def test_ranges_that_cannot_be_are_refused(world: World) -> None:
    job_of(world)
    want = wanted(world)
    with pytest.raises(InvalidField, match="not after"):
        backfill_making.plan(world.ports, replace(want, until_ms=want.from_ms))
    with pytest.raises(InvalidField, match="not passed"):
        backfill_making.plan(world.ports, replace(want, until_ms=world.clock.at_ms + 60_000))
    with pytest.raises(NotFound):
        backfill_making.plan(world.ports, replace(want, job_id="shop:none"))


def test_a_job_has_few_at_a_time_and_forgets_the_oldest(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr(backfill_making, "KEPT_MAX", 3)
    job_of(world)
    for number in range(backfill_making.GOING_ON_MAX):
        made(world, client_key=f"k{number}", outcomes="all", from_ms=0 + world.clock.at_ms - (number + 2) * 600_000)
    with pytest.raises(TooMany):
        made(world, client_key="one more")
    work_off(world)
    world.after(1)
    made(world, 1, client_key="one more", outcomes="all")
    assert len(backfill_making.list_of(world.ports, "shop:x")) == 3


# --- pausing and cancelling ---------------------------------------------------------------------------------------


def test_paused_it_launches_nothing_more_and_goes_on_when_it_is_resumed(world: World) -> None:
    job_of(world)
    backfill = made(world)
    for _ in range(2):
        backfill_stopping.pause(world.ports, backfill.backfill_id, "bob", "too much")
    work_off(world)
    reconciling.reconcile(world.ports)
    assert len(runs(world)) == 2
    assert (now(world, backfill).status, now(world, backfill).ended) == ("paused", {"succeeded": 2})
    for _ in range(2):
        backfill_stopping.resume(world.ports, backfill.backfill_id, "bob")
    world.scan()
    work_off(world)
    assert now(world, backfill).status == "finished"
    for act in (backfill_stopping.resume, lambda *some: backfill_stopping.pause(*some, "why")):
        with pytest.raises(TooLate):
            act(world.ports, backfill.backfill_id, "bob")


@pytest.mark.parametrize("stops_runs", [False, True])
def test_cancelled_it_starts_nothing_more_and_what_has_started_goes_as_was_asked(
    world: World, stops_runs: bool
) -> None:
    job_of(world)
    backfill = made(world, 9, concurrency=3)
    started, *queued = pending(world)
    token = world.must_start(started, lease_s=900).token
    for _ in range(2):
        backfill_stopping.cancel(world.ports, backfill.backfill_id, "bob", "a mistake", stops_runs=stops_runs)
    after = now(world, backfill)
    assert (after.status, after.live, after.position) == ("cancelled", (), 3)
    assert after.ended == {"cancelled": 2, "left": 1}
    for key in queued:
        assert world.run(key).status == "cancelled"
        assert world.start(key, message=world.message(key)).discard  # type: ignore[union-attr]
    assert bool(world.run(started).cancel_requested) == stops_runs
    world.complete(started, token)
    reconciling.reconcile(world.ports)
    assert len(runs(world)) == 3
    with pytest.raises(TooLate):
        backfill_stopping.resume(world.ports, backfill.backfill_id, "bob")


def test_a_deleted_job_launches_nothing_more(world: World) -> None:
    job_of(world)
    backfill = made(world)
    registering.delete_job(world.ports, "shop:x")
    key = pending(world)[0]
    world.complete(key, world.must_start(key).token)
    assert now(world, backfill).status == "cancelled"
    reconciling.reconcile(world.ports)
    assert now(world, backfill).live == ()
    assert [run.status for run in runs(world)] == ["succeeded", "cancelled"]


# --- repeats, races, crashes --------------------------------------------------------------------------------------


def test_the_same_request_is_answered_with_the_first(world: World) -> None:
    job_of(world)
    want = wanted(world)
    assert backfill_making.made_before(world.ports, want) is None
    backfill = made(world)
    again = backfill_making.made_before(world.ports, want)
    assert again is not None
    assert again.backfill_id == backfill.backfill_id
    with pytest.raises(AlreadyExists):
        backfill_making.made_before(world.ports, replace(want, fingerprint="other"))


def test_a_crash_after_any_write_doubles_nothing_and_leaves_nothing_out(monkeypatch: Any) -> None:
    """Making, launching, ending: whoever dies, the repeat and the reconciler go on."""
    plain = World()
    job_of(plain)
    made(plain, 4)
    work_off(plain)
    writes = len(plain.store.commits)
    for nth in range(2, writes + 1):
        world = World()
        world.store.crash_after_commits = nth
        _through_crashes(world)
        assert len(runs(world)) == 4, f"crashed after write {nth}"
        assert {run.status for run in runs(world)} == {"succeeded"}
        assert len({run.key.scheduled_at_ms for run in runs(world)}) == 4
        (backfill,) = backfill_making.list_of(world.ports, "shop:x")
        assert (backfill.status, backfill.ended) == ("finished", {"succeeded": 4}), f"crashed after write {nth}"


def _through_crashes(world: World) -> None:
    want: Wanted | None = None
    for _ in range(60):
        try:
            job_of(world)
            want = want or wanted(world, 4)
            if backfill_making.made_before(world.ports, want) is None:
                backfill_making.make(world.ports, want)
            world.scan()
            for run in runs(world):
                if run.status == "pending":
                    world.must_start(run.key)
                elif run.status == "running":
                    world.complete(run.key, run.token)
            reconciling.reconcile(world.ports)
        except (Crash, Throttled):
            continue
        world.after(20)
        if all(run.ended for run in runs(world)) and len(runs(world)) == 4:
            reconciling.reconcile(world.ports)
            return


def test_two_who_make_it_at_once_make_one_whose_list_is_its_own(world: World) -> None:
    """The second has counted when the first runs were launched already: another list, which must not be the first's."""
    job_of(world)
    want = wanted(world, concurrency=1)
    commit, done = world.store.commit, []

    def watched(writes: Any) -> Any:
        if not done and any(getattr(write, "table", None) is PAYLOADS for write in writes):
            done.append(1)
            backfill_making.make(world.ports, want)
            world.scan()
            key = pending(world)[0]
            world.complete(key, world.must_start(key).token)
        return commit(writes)

    plan = backfill_making.plan

    def late(*some: Any) -> Any:
        found = plan(*some)  # as it counts that comes second, and is first to look
        return replace(found, instants=found.instants[1:], token=f"4-{'b' * 16}") if not done else found

    world.store.commit = watched  # type: ignore[method-assign]
    backfill_making.plan = late  # type: ignore[assignment]
    try:
        backfill_making.make(world.ports, want)
    finally:
        backfill_making.plan = plan
    world.scan()
    work_off(world)
    assert len(runs(world)) == 5
    assert len({run.key.scheduled_at_ms for run in runs(world)}) == 5


def before_it_moves(world: World, act: Callable[[], object]) -> list[int]:
    """Have something done just before the first write of a backfill. Holds something once it was."""
    commit, done = world.store.commit, list[int]()

    def watched(writes: Sequence[Write]) -> Any:
        if not done and any(getattr(write, "table", None) is TEAMS for write in writes):
            done.append(1)
            act()
        return commit(writes)

    world.store.commit = watched  # type: ignore[method-assign]
    return done


def test_two_who_come_at_once_launch_nothing_twice(world: World) -> None:
    job_of(world)
    backfill = made(world, 6, concurrency=1)
    key = pending(world)[0]
    token = world.must_start(key).token
    done = before_it_moves(world, lambda: backfilling.advance(world.ports, backfill.key()))
    world.complete(key, token)
    assert done
    assert len(runs(world)) == 2
    assert now(world, backfill).position == 2


def test_one_that_is_cancelled_between_the_look_and_the_write_launches_nothing(world: World) -> None:
    job_of(world)
    backfill = made(world, 6, concurrency=1)
    key = pending(world)[0]
    token = world.must_start(key).token
    stop = backfill_stopping.cancel
    done = before_it_moves(world, lambda: stop(world.ports, backfill.backfill_id, "bob", "a mistake", stops_runs=False))
    world.complete(key, token)
    assert done
    assert len(runs(world)) == 1
    assert now(world, backfill).status == "cancelled"


def test_whatever_fails_in_moving_on_fails_no_workers_report(world: World) -> None:
    job_of(world)
    backfill = made(world, 3, concurrency=1)
    key = pending(world)[0]
    token = world.must_start(key).token
    commit = world.store.commit

    def throttled(writes: Any) -> Any:
        if any(getattr(write, "table", None) is TEAMS for write in writes):
            raise Throttled("slow down")
        return commit(writes)

    world.store.commit = throttled  # type: ignore[method-assign]
    assert getattr(world.complete(key, token), "status", None) == "succeeded"
    world.store.commit = commit  # type: ignore[method-assign]
    reconciling.reconcile(world.ports)
    world.scan()
    work_off(world)
    assert now(world, backfill).ended == {"succeeded": 3}


def test_what_is_launched_and_cannot_be_sent_is_sent_when_the_worker_tells_of_the_end_again(world: World) -> None:
    job_of(world)
    made(world, 3, concurrency=1)
    key = pending(world)[0]
    token = world.must_start(key).token
    world.scan()  # the second is announced: what is launched now is its creator's to send
    send = world.outbox.send
    world.outbox.send = lambda _, some: SendReport(tuple(range(len(some))))  # type: ignore[method-assign]
    with pytest.raises(WorldError):
        world.complete(key, token)
    world.outbox.send = send  # type: ignore[method-assign]
    (launched,) = pending(world)
    assert not world.messages(launched)
    assert getattr(world.complete(key, token), "status", None) == "succeeded"
    assert len(world.messages(launched)) == 1
    assert len(runs(world)) == 2


def test_its_runs_have_their_payload_whatever_becomes_of_the_payload_of_the_job(world: World) -> None:
    """The job was given another since, and what it had before has expired."""
    long = json.dumps("x" * (PAYLOAD_INLINE_BYTES_MAX + 1))
    job_of(world, payload=long)
    (of_job,) = [item["payload_id"] for item in world.store.items(PAYLOADS)]
    made(world, 3, concurrency=1)
    asked = asking.ask_for_run(world.ports, asking.Wanted("shop:x", "ann", "now", beside=True))
    world.store.commit([Delete(PAYLOADS, {"payload_id": of_job}, Anyway("its time to live"))])
    work_off(world)
    kept = {item["payload_id"]: item.get("payload") for item in world.store.items(PAYLOADS)}
    assert asked.run is not None
    works = [run.work for run in (*runs(world), asked.run)]
    assert len(works) == 4
    assert all(work is not None and kept[str(work.payload_id)] == long for work in works)


def test_a_backfill_whose_list_is_gone_ends_and_says_so(world: World) -> None:
    job_of(world)
    backfill = made(world, 4)
    for item in world.store.items(PAYLOADS):
        world.store.commit([Delete(PAYLOADS, {"payload_id": item["payload_id"]}, Anyway("its time to live"))])
    work_off(world)
    after = now(world, backfill)
    assert (after.status, after.stopped_because) == ("cancelled", "its list has expired")


def test_one_that_is_over_is_forgotten_with_the_records_of_its_runs(world: World) -> None:
    job_of(world)
    backfill = made(world, 2)
    work_off(world)
    world.after(world.ports.layout.retention_s - 3_600)
    backfill_stopping.see_to_all(world.ports)
    assert now(world, backfill).status == "finished"
    world.after(7_200)
    assert backfill_stopping.see_to_all(world.ports) == 0
    assert backfilling.read_backfill(world.ports, backfill.key()) is None


def test_a_run_whose_record_is_gone_does_not_hold_up_the_others(world: World) -> None:
    job_of(world)
    backfill = made(world, 3, concurrency=1)
    key = pending(world)[0]
    world.store.commit([Delete(TIMERS, key.as_item(), Anyway("its time to live"))])
    reconciling.reconcile(world.ports)
    world.scan()
    work_off(world)
    assert now(world, backfill).ended == {"gone": 1, "succeeded": 2}


def test_its_id_names_it_and_nothing_else_does(world: World) -> None:
    job_of(world)
    backfill = made(world)
    assert backfills.parse_backfill_id(backfill.backfill_id) == ("shop:x", backfill.unique)
    assert backfill_stopping.get_backfill(world.ports, backfill.backfill_id).unique == backfill.unique
    for text in ("", "shop:x", "shop:x~", "shop:x~123", f"shop:x~{'g' * 16}", f"shop:y~{backfill.unique}"):
        with pytest.raises(NotFound):
            backfill_stopping.get_backfill(world.ports, text)


def test_the_work_is_stored_and_read_with_the_rest(world: World) -> None:
    job_of(world, payload='{"day":1}', retry=RetryPolicy(2, 5))
    backfill = made(world)
    found = now(world, backfill)
    assert found.work == registering.get_job(world.ports, "shop:x").work
    assert Backfill.from_item(found.to_item()) == found
    assert found.from_ms % SECOND_MS == 0


# --- what the chain has still to come to --------------------------------------------------------------------------


@pytest.mark.parametrize("why", ["an outage", "a pause"])
def test_what_the_chain_has_still_to_come_to_is_not_run_twice(world: World, why: str) -> None:
    job_of(world)
    if why == "a pause":
        pausing.pause_scope(world.ports, Scope("shop", TEAM, "shop"), Pause("ann", "deploy", 0, at_resume="all"))
    waits = world.ports.store.get(JOBS, {"job_id": "shop:x"})
    assert waits is not None
    for _ in range(4):
        world.after(60)
        if why == "a pause":
            world.scan()
    first_ms = waits["next_scheduled_at_ms"]
    at = wanted(world, 6, outcomes="all")
    planned = backfill_making.plan(world.ports, at)
    assert all(at_ms < first_ms for at_ms in planned.instants)
    assert planned.outcomes["live"] == (at.until_ms - first_ms) // 60_000 > 1
    assert len(planned.instants) == 6 - planned.outcomes["live"]


def test_what_was_cancelled_ahead_may_be_run_after_all(world: World) -> None:
    job_id = job_of(world)
    first_ms = now_next(world)
    cancelling.cancel_run(world.ports, world.next_key(job_id), "ann")
    world.after(240)
    at = wanted(world, 3, from_ms=first_ms, until_ms=first_ms + 180_000)
    assert backfill_making.plan(world.ports, at).instants == (first_ms,)


def now_next(world: World) -> int:
    item = world.ports.store.get(JOBS, {"job_id": "shop:x"})
    assert item is not None
    return int(item["next_scheduled_at_ms"])


def test_a_start_that_ends_a_run_too_late_and_fails_behind_that_sees_to_the_next_when_it_is_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next is launched into a second that windows have passed: nobody else would send it for minutes."""
    job_of(world, start_within_s=10)
    made(world, concurrency=1)
    (late,) = pending(world)
    world.after(15)
    world.scan()
    right, failures = world.store.get, [Throttled("once")]

    def get(table: Any, key: Any) -> Any:
        if table is LEASES and failures and len(runs(world)) == 2:
            raise failures.pop()
        return right(table, key)

    monkeypatch.setattr(world.store, "get", get)
    with pytest.raises(Throttled):
        world.start(late)
    (after,) = pending(world)
    many = world.store.get_many

    def get_many(table: Any, keys: Any) -> Any:
        raise Throttled("once more")

    monkeypatch.setattr(world.store, "get_many", get_many)
    with pytest.raises(Throttled):
        world.start(late)
    monkeypatch.setattr(world.store, "get_many", many)
    assert not world.messages(after)
    again = world.start(late)
    assert isinstance(again, Declined)
    assert again.discard
    assert len(world.messages(after)) == 1
