"""Overlap: whether an occurrence fires, is skipped, or both run, by what holds its job when it is due (F9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.runs_world import World
from tickwork.core.errors import Throttled
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.jobs.overlap import ALLOW, HOLDERS_MAX, SKIP, holds
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.work import RetryPolicy, Work
from tickwork.core.ledger.writes import Anyway, Delete, Update, Write
from tickwork.core.schedule import parse_schedule
from tickwork.flows.dispatch.overlapping import Unheard, holdings
from tickwork.flows.jobs import changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import asking, cancelling, dead_letters

EVERY_S = 60


@pytest.fixture
def world() -> World:
    return World()


def job_of(world: World, overlap: str = SKIP, catch_up: CatchUp | None = None, **work: Any) -> str:
    spec = parse_schedule({"rate": f"{EVERY_S}s"}, now_ms=world.clock.at_ms, job_id="shop:x").spec
    new = NewJob("shop", "x", spec, Work("default", "job", **work), 0, catch_up or CatchUp(), "f", overlap=overlap)
    return registering.create_job(world.ports, new)[0].job_id


def changed_to(world: World, job_id: str, overlap: str) -> Job:
    job = registering.get_job(world.ports, job_id)
    new = NewJob("shop", "x", job.schedule, job.work, 0, job.catch_up, f"to {overlap}", overlap=overlap)
    return changing.update_job(world.ports, job_id, job.version, lambda _: new)


def skipped(world: World, key: LedgerKey) -> dict[str, str]:
    run = world.run(key)
    assert (run.status, run.reason) == ("skipped", "overlap")
    assert run.held_by is not None
    return dict(run.held_by)


def held_by(key: LedgerKey, status: str) -> dict[str, str]:
    return {"run_id": key.run_id, "occurrence": key.occurrence, "status": status}


# --- the holder, state by state -----------------------------------------------------------------------------------


def queued(world: World, key: LedgerKey) -> None:
    """Nobody has started it."""


def running(world: World, key: LedgerKey) -> None:
    world.must_start(key, lease_s=900)


def waiting(world: World, key: LedgerKey) -> None:
    world.fail(key, world.must_start(key).token)


def lost(world: World, key: LedgerKey) -> None:
    """Its worker is dead, and the next start is to say so."""
    world.must_start(key, lease_s=30)


def succeeded(world: World, key: LedgerKey) -> None:
    world.complete(key, world.must_start(key).token)


def dead(world: World, key: LedgerKey) -> None:
    world.fail(key, world.must_start(key).token, permanent=True)


def cancelled(world: World, key: LedgerKey) -> None:
    cancelling.cancel_run(world.ports, key, "not wanted")


def expired(world: World, key: LedgerKey) -> None:
    world.after(31)
    world.start(key)


def gone(world: World, key: LedgerKey) -> None:
    """Its record is not kept any longer."""
    world.store.commit([Delete(TIMERS, key.as_item(), Anyway("a test"))])


HOLDS = {queued: "pending", running: "running", waiting: "waiting", lost: "running"}
LETS_GO = (succeeded, dead, cancelled, expired, gone)


@pytest.mark.parametrize("state", HOLDS, ids=lambda state: state.__name__)
def test_what_has_not_ended_holds_and_the_skipped_one_names_it(world: World, state: Any) -> None:
    job_id = job_of(world, start_within_s=30 if state is expired else 0)
    first = world.until_due(job_id)
    state(world, first)
    second = world.until_due(job_id)
    assert skipped(world, second) == held_by(first, HOLDS[state])
    assert world.messages(second) == []
    third = world.until_due(job_id)
    assert skipped(world, third) == held_by(first, HOLDS[state]), "one late run, and the others skipped and recorded"


@pytest.mark.parametrize("state", LETS_GO, ids=lambda state: state.__name__)
def test_what_has_ended_lets_the_next_one_fire(world: World, state: Any) -> None:
    job_id = job_of(world, start_within_s=30 if state is expired else 0)
    first = world.until_due(job_id)
    state(world, first)
    second = world.until_due(job_id)
    assert world.run(second).status == "pending"
    assert len(world.messages(second)) == 1


def test_where_it_is_allowed_both_run_and_nothing_is_put_down(world: World) -> None:
    job_id = job_of(world, ALLOW)
    keys = [world.until_due(job_id) for _ in range(3)]
    assert [len(world.messages(key)) for key in keys] == [1, 1, 1]
    (item,) = world.store.items(JOBS)
    assert not {"overlap", "holders", "held_through_ms"} & item.keys()


def test_a_job_of_before_allows(world: World) -> None:
    job_id = job_of(world, ALLOW)
    job = registering.get_job(world.ports, job_id)
    assert job.overlap == ALLOW
    assert "overlap" not in job.to_item()


def test_one_that_is_to_stop_and_whose_worker_is_dead_holds_nothing(world: World) -> None:
    """Nobody begins it again: its next start ends it."""
    job_id = job_of(world)
    first = world.until_due(job_id)
    world.must_start(first, lease_s=30)
    cancelling.cancel_run(world.ports, first, "too slow")
    second = world.until_due(job_id)
    assert world.run(second).status == "pending"
    assert world.start(first, message={"ref": first.ref, "attempt": 1}).reason == "cancelled"  # type: ignore[union-attr]


def test_one_that_is_to_stop_holds_as_long_as_its_worker_may_run(world: World) -> None:
    job_id = job_of(world)
    first = world.until_due(job_id)
    world.must_start(first, lease_s=900)
    cancelling.cancel_run(world.ports, first, "too slow")
    assert skipped(world, world.until_due(job_id)) == held_by(first, "running")


@pytest.mark.parametrize(("lapsed_ms", "does"), [(0, True), (1_999, True), (2_001, False)])
def test_a_lease_that_has_just_lapsed_may_be_trusted_by_a_worker_whose_clock_is_late(
    lapsed_ms: int, does: bool
) -> None:
    item = {"status": "running", "cancel_requested": True, "lease_until_ms": 1_800_000_000_000}
    assert holds(item, item["lease_until_ms"] + lapsed_ms) is does  # type: ignore[operator]


# --- what it costs, and what is refused ---------------------------------------------------------------------------


def test_it_costs_no_write_and_one_item_read_more(world: World) -> None:
    """Where nothing overlaps."""
    figures = []
    for overlap in (ALLOW, SKIP):
        own = World()
        job_id = job_of(own, overlap)
        reads: list[int] = []
        get_many = own.store.get_many

        def counted(table: Any, keys: Any, reads: list[int] = reads, get_many: Any = get_many) -> Any:
            reads.append(len(keys) if table is TIMERS else 0)
            return get_many(table, keys)

        own.store.get_many = counted  # type: ignore[method-assign]
        succeeded(own, own.until_due(job_id))
        before, reads[:] = len(own.store.commits), []
        own.until_due(job_id)
        figures.append((sum(len(one) for one in own.store.commits[before:]), sum(reads)))
    (allowed, skipping) = figures
    assert skipping[0] == allowed[0]
    assert skipping[1] == allowed[1] + 1


class ReplayedBeforeTheStep:
    """Tables on which somebody else does something just before the first step of a chain is written."""

    def __init__(self, tables: Any, other: Callable[[], None]) -> None:
        self._tables, self._other, self.was_there = tables, other, False

    def commit(self, writes: Sequence[Write]) -> Any:
        if not self.was_there and any(write.table is JOBS for write in writes):
            self.was_there = True
            self._other()
        return self._tables.commit(writes)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._tables, verb)


def test_a_step_that_was_planned_before_a_replay_is_refused_and_looks_again(world: World) -> None:
    """The holder was dead when it was read, and is replayed before the step is written: the same holder, once more
    alive. Without the number of its replays the value would be the same."""
    job_id = job_of(world)
    first = world.until_due(job_id)
    dead(world, first)
    second = world.next_key(job_id)
    world.clock.at_ms = second.fire_at_ms

    def replay() -> None:
        order = dead_letters.Order("ops", "again", 10, world.clock.at_ms + 5_000)
        assert dead_letters.replay_runs(world.ports, [first], order)[0].refusal == ""

    between = ReplayedBeforeTheStep(world.store, replay)
    world.ports = replace(world.ports, store=between)  # type: ignore[arg-type]
    world.scan()
    assert between.was_there
    assert skipped(world, second) == held_by(first, "waiting")


def test_a_replay_is_refused_while_another_run_holds_and_names_it(world: World) -> None:
    job_id = job_of(world)
    first = world.until_due(job_id)
    dead(world, first)
    second = world.until_due(job_id)
    order = dead_letters.Order("ops", "again", 10, world.clock.at_ms)
    (outcome,) = dead_letters.replay_runs(world.ports, [first], order)
    assert (outcome.refusal, outcome.held_by) == ("held", held_by(second, "pending"))
    assert world.run(first).status == "dead"
    succeeded(world, second)
    assert dead_letters.replay_runs(world.ports, [first], order)[0].refusal == ""
    third = world.until_due(job_id)
    assert skipped(world, third) == held_by(first, "waiting"), "the replayed one holds it now"


def test_of_many_dead_runs_one_is_replayed_at_a_time(world: World) -> None:
    job_id = job_of(world)
    keys = []
    for _ in range(3):
        keys.append(world.until_due(job_id))
        dead(world, keys[-1])
    order = dead_letters.Order("ops", "again", 10, world.clock.at_ms)
    outcomes = dead_letters.replay_runs(world.ports, keys, order)
    assert [one.refusal for one in outcomes] == ["", "held", "held"]


# --- changes of the policy ----------------------------------------------------------------------------------------


def test_from_allow_to_skip_all_that_has_not_ended_is_waited_for(world: World) -> None:
    job_id = job_of(world, ALLOW)
    first, second, third = (world.until_due(job_id) for _ in range(3))
    changed_to(world, job_id, SKIP)
    assert skipped(world, world.until_due(job_id)) == held_by(third, "pending")
    succeeded(world, third)
    assert skipped(world, world.until_due(job_id)) == held_by(second, "pending")
    succeeded(world, second)
    assert skipped(world, world.until_due(job_id)) == held_by(first, "pending")
    succeeded(world, first)
    assert world.run(world.until_due(job_id)).status == "pending"


def test_more_that_have_not_ended_than_a_job_names_are_all_waited_for(world: World) -> None:
    job_id = job_of(world, ALLOW)
    keys = [world.until_due(job_id) for _ in range(HOLDERS_MAX + 5)]
    changed_to(world, job_id, SKIP)
    skipped(world, world.until_due(job_id))
    (item,) = world.store.items(JOBS)
    assert len(item["holders"].split()) == HOLDERS_MAX
    for key in reversed(keys[1:]):
        succeeded(world, key)
    assert skipped(world, world.until_due(job_id)) == held_by(keys[0], "pending")
    succeeded(world, keys[0])
    assert world.run(world.until_due(job_id)).status == "pending"


def test_those_that_a_job_has_no_room_to_name_are_not_forgotten_when_the_named_have_ended(world: World) -> None:
    job_id = job_of(world, ALLOW)
    keys = [world.until_due(job_id) for _ in range(HOLDERS_MAX + 5)]
    changed_to(world, job_id, SKIP)
    skipped(world, world.until_due(job_id))
    for key in keys[:HOLDERS_MAX]:
        succeeded(world, key)
    assert skipped(world, world.until_due(job_id)) == held_by(keys[-1], "pending")


def test_from_skip_to_allow_the_next_one_fires_beside_the_holder(world: World) -> None:
    job_id = job_of(world)
    first = world.until_due(job_id)
    changed_to(world, job_id, ALLOW)
    (item,) = world.store.items(JOBS)
    assert not {"holders", "held_through_ms"} & item.keys()
    second = world.until_due(job_id)
    assert (world.run(first).status, world.run(second).status) == ("pending", "pending")
    changed_to(world, job_id, SKIP)
    assert skipped(world, world.until_due(job_id)) == held_by(second, "pending")


def test_a_replay_that_read_the_job_before_it_was_changed_is_refused(world: World) -> None:
    """Else the change would have looked for runs too early, and the replayed one would run beside the next."""
    job_id = job_of(world, ALLOW)
    first = world.until_due(job_id)
    dead(world, first)

    def change() -> None:
        changed_to(world, job_id, SKIP)
        world.until_due(job_id)

    world.store.before_commit = change
    order = dead_letters.Order("ops", "again", 10, world.clock.at_ms)
    (outcome,) = dead_letters.replay_runs(world.ports, [first], order)
    assert outcome.refusal == "held"


def test_what_an_older_version_has_fired_is_waited_for(world: World) -> None:
    """It leaves alone what it does not know, and fires as under `allow`."""
    job_id = job_of(world)
    first = world.until_due(job_id)
    succeeded(world, first)
    second = world.next_key(job_id)
    (item,) = world.store.items(JOBS)
    known = {name: item[name] for name in ("holders", "held_through_ms")}
    world.until_due(job_id)
    world.store.commit([Update(JOBS, {"job_id": job_id}, Anyway("as it leaves it"), set=known)])
    assert skipped(world, world.until_due(job_id)) == held_by(second, "pending")


def test_a_run_that_is_named_and_was_passed_is_read_once(world: World) -> None:
    """It was replayed, and then an older version has fired: what the job has passed is looked for, with it among."""
    job_id = job_of(world)
    first = world.until_due(job_id)
    dead(world, first)
    order = dead_letters.Order("ops", "again", 10, world.clock.at_ms + 600_000)
    assert dead_letters.replay_runs(world.ports, [first], order)[0].refusal == ""
    unknown = Update(JOBS, {"job_id": job_id}, Anyway("as an older version leaves it"), remove=("held_through_ms",))
    world.store.commit([unknown])
    assert skipped(world, world.until_due(job_id)) == held_by(first, "waiting")


def test_a_run_by_hand_is_waited_for_also_before_the_first_occurrence_and_after_allow(world: World) -> None:
    job_id = job_of(world)
    wanted = asking.Wanted(job_id, "ann", "to see it work")
    by_hand = asking.ask_for_run(world.ports, wanted).key
    changed_to(world, job_id, ALLOW)
    changed_to(world, job_id, SKIP)
    assert skipped(world, world.until_due(job_id)) == held_by(by_hand, "pending")


def test_a_job_that_is_made_anew_waits_for_the_runs_of_the_one_before(world: World) -> None:
    job_id = job_of(world)
    first = world.until_due(job_id)
    registering.delete_job(world.ports, job_id)
    job_of(world)
    assert skipped(world, world.until_due(job_id)) == held_by(first, "pending")


# --- with other policies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "fates"),
    [
        ("latest", ["skipped_outage", "skipped_outage", "overlap"]),
        ("all", ["overlap", "overlap", "overlap"]),
        ("none", ["skipped_outage", "skipped_outage", "skipped_outage"]),
    ],
)
def test_after_an_outage_catch_up_is_asked_first_and_then_overlap(world: World, policy: str, fates: list[str]) -> None:
    job_id = job_of(world, catch_up=CatchUp(policy))
    first = world.until_due(job_id)
    running(world, first)
    world.after(3 * EVERY_S + 10)
    missed = [first.scheduled_at_ms + n * EVERY_S * 1_000 for n in (1, 2, 3)]
    for _ in range(4):
        world.scan()
        world.after(1)
    found = {one["scheduled_at_ms"]: one.get("reason") for one in world.store.items(TIMERS) if "job_id" in one}
    assert [found[at_ms] for at_ms in missed] == fates


def test_after_an_outage_all_are_caught_up_with_one_at_a_time(world: World) -> None:
    """Under `all` and `skip` the first that was missed fires, and holds the others that are due by then."""
    job_id = job_of(world, catch_up=CatchUp("all"))
    first = world.next_key(job_id)
    world.clock.at_ms = first.fire_at_ms + (2 * EVERY_S + 10) * 1_000
    for _ in range(4):
        world.scan()
        world.after(1)
    found = sorted((one["scheduled_at_ms"], one["status"]) for one in world.store.items(TIMERS) if "job_id" in one)
    assert [status for _, status in found] == ["pending", "skipped", "skipped", "pending"]


def test_a_retry_of_the_holder_is_none_of_its_jobs_occurrences(world: World) -> None:
    job_id = job_of(world, retry=RetryPolicy(3, 1, 1, 0))
    first = world.until_due(job_id)
    waiting(world, first)
    token = world.must_start(first, message=world.until_retry(first)).token
    world.complete(first, token)
    assert world.run(world.until_due(job_id)).status == "pending"


# --- what fails costs its own job ---------------------------------------------------------------------------------


def test_a_holder_of_a_newer_version_leaves_its_own_job_and_no_other(world: World) -> None:
    job_id = job_of(world)
    first = world.until_due(job_id)
    world.store.commit([Update(TIMERS, first.as_item(), Anyway("a newer version"), set={"status": "strange"})])
    other = world.job("other", every_s=EVERY_S)
    upcoming, others = world.next_key(job_id), world.next_key(other)
    world.clock.at_ms = max(upcoming.fire_at_ms, others.fire_at_ms)
    world.scan()
    assert world.run(upcoming).status == "pending"
    assert world.messages(upcoming) == []
    assert len(world.messages(others)) == 1
    world.store.commit([Update(TIMERS, first.as_item(), Anyway("it ends"), set={"status": "succeeded"})])
    for _ in range(3):
        world.after(1)
        world.scan()
    assert len(world.messages(upcoming)) == 1


def test_a_store_that_is_busy_while_holders_are_read_costs_lag_only(world: World) -> None:
    job_id = job_of(world)
    first = world.until_due(job_id)
    succeeded(world, first)
    upcoming = world.next_key(job_id)
    world.clock.at_ms = upcoming.fire_at_ms
    get_many = world.store.get_many

    def busy(table: Any, keys: Any) -> Any:
        if table is TIMERS and first.as_item() in keys:
            raise Throttled("busy")
        return get_many(table, keys)

    world.store.get_many = busy  # type: ignore[method-assign]
    world.scan()
    assert world.messages(upcoming) == []
    world.store.get_many = get_many  # type: ignore[method-assign]
    for _ in range(3):
        world.after(1)
        world.scan()
    assert len(world.messages(upcoming)) == 1


def test_an_index_that_is_behind_leaves_the_job_until_it_shows_what_was_fired(world: World) -> None:
    job_id = job_of(world, ALLOW)
    first = world.until_due(job_id)
    changed_to(world, job_id, SKIP)
    upcoming = world.next_key(job_id)
    query_index = world.store.query_index
    world.store.query_index = lambda *_, **__: ([], None)  # type: ignore[method-assign]
    world.clock.at_ms = upcoming.fire_at_ms - 1
    job = registering.get_job(world.ports, job_id)
    assert isinstance(holdings(world.ports, [job])[job_id], Unheard)
    world.store.query_index = query_index  # type: ignore[method-assign]
    assert skipped(world, world.until_due(job_id)) == held_by(first, "pending")


def test_an_old_run_is_waited_for_also_where_the_index_comes_in_short_pages(world: World) -> None:
    job_id = job_of(world, ALLOW)
    first, *others = (world.until_due(job_id) for _ in range(8))
    for key in others:
        succeeded(world, key)
    changed_to(world, job_id, SKIP)
    query_index = world.store.query_index
    world.store.query_index = lambda *which, **how: query_index(*which, **{**how, "limit": 1})  # type: ignore[method-assign]
    assert skipped(world, world.until_due(job_id)) == held_by(first, "pending")


def test_a_replayed_run_that_the_job_names_and_the_index_shows_is_one(world: World) -> None:
    job_id = job_of(world)
    key = world.until_due(job_id)
    dead(world, key)
    dead_letters.replay_runs(world.ports, [key], dead_letters.Order("ops", "again", 1, world.clock.at_ms))
    job = replace(registering.get_job(world.ports, job_id), held_through_ms=0)
    assert [(one.key, one.life) for one in job.holders] == [(key, 1)]
    holding = holdings(world.ports, [job])[job_id]
    assert not isinstance(holding, Unheard)
    assert [(one.key, one.life) for one in holding.holders] == [(key, 1)]
