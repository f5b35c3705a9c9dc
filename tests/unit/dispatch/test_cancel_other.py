"""`cancel_other`: what is due has the run that holds its job cancelled, and waits until that has ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.runs_world import Crash, World
from tests.unit.dispatch.test_buffer_one import NONE, buffer_of, looks, status, until_look
from tests.unit.dispatch.test_overlap import (
    ALLOW,
    EVERY_S,
    LETS_GO,
    SKIP,
    changed_to,
    dead,
    held_by,
    job_of,
    lost,
    queued,
    running,
    succeeded,
    waiting,
)
from tickwork.core.dispatch import chain
from tickwork.core.instants import iso
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.overlap import BUFFER_ALL, BUFFER_ONE, CANCEL_OTHER, Holding
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Anyway, Delete, Update
from tickwork.core.runs.endings import retry_key
from tickwork.flows.dispatch import freeing, giving_way, releasing
from tickwork.flows.jobs import changing, registering
from tickwork.flows.runs import cancelling, dead_letters, worker_calls


@pytest.fixture
def world() -> World:
    return World()


def held(world: World, **policies: Any) -> tuple[str, LedgerKey, LedgerKey]:
    """A job, the run that is to stop, and the one that waits for it."""
    job_id = job_of(world, CANCEL_OTHER, **policies)
    first = world.until_due(job_id)
    running(world, first)
    second = world.until_due(job_id)
    assert status(world, second) == "buffered"
    return job_id, first, second


def asked(world: World, key: LedgerKey) -> str:
    return world.run(key).cancel_requested


def why(key: LedgerKey) -> str:
    return f"cancel_other: {key.occurrence} is due"


def stopped(world: World, key: LedgerKey) -> None:
    """Its worker has heard of it, and says that it has stopped."""
    worker_calls.acknowledge_cancel(world.ports, key, world.run(key).token)


# --- the one that holds, and the one that comes ---------------------------------------------------------------------


def test_a_running_holder_learns_of_it_with_its_heartbeat_and_is_waited_for(world: World) -> None:
    job_id, first, second = held(world)
    assert (world.run(second).reason, world.run(second).held_by) == ("overlap", held_by(first, "running"))
    beat = worker_calls.heartbeat(world.ports, first, world.run(first).token, 900)
    assert (asked(world, first), getattr(beat, "cancel", None)) == (why(second), True)
    assert world.messages(second) == []
    stopped(world, first)
    assert (status(world, first), world.run(first).reason) == ("cancelled", why(second))
    assert (status(world, second), len(world.messages(second)), buffer_of(world)) == ("pending", 1, NONE)
    assert registering.get_job(world.ports, job_id).last is not None


def test_one_that_ends_before_it_hears_of_it_keeps_its_end(world: World) -> None:
    _, first, second = held(world)
    world.complete(first, world.run(first).token)
    assert (status(world, first), len(world.messages(second))) == ("succeeded", 1)


@pytest.mark.parametrize("state", [queued, waiting], ids=lambda state: state.__name__)
def test_one_that_does_not_run_ends_at_once_and_never_starts(world: World, state: Any) -> None:
    job_id = job_of(world, CANCEL_OTHER)
    first = world.until_due(job_id)
    state(world, first)
    second = world.until_due(job_id)
    assert (status(world, first), world.run(first).reason) == ("cancelled", why(second))
    assert (status(world, second), len(world.messages(second)), buffer_of(world)) == ("pending", 1, NONE)
    assert world.start(first).discard  # type: ignore[union-attr]
    last = registering.get_job(world.ports, job_id).last
    assert (last and last["status"]) == (None if state is queued else "cancelled")


def test_a_lost_one_is_not_waited_for_and_nobody_begins_it_again(world: World) -> None:
    job_id = job_of(world, CANCEL_OTHER)
    first = world.until_due(job_id)
    lost(world, first)
    second = world.until_due(job_id)
    assert len(world.messages(second)) == 1
    assert world.start(first).discard  # type: ignore[union-attr]
    assert status(world, first) == "cancelled"


def test_one_whose_worker_dies_after_it_was_asked_is_waited_for_until_its_lease_has_lapsed(world: World) -> None:
    job_id = job_of(world, CANCEL_OTHER)
    first = world.until_due(job_id)
    world.must_start(first, lease_s=90)
    second = world.until_due(job_id)
    world.clock.at_ms = world.run(first).lease_until_ms + 1_000
    freeing.free_job(world.ports, job_id)
    assert status(world, second) == "buffered", "clocks may differ"
    until_look(world)
    assert len(world.messages(second)) == 1


@pytest.mark.parametrize("state", LETS_GO, ids=lambda state: state.__name__)
def test_where_nothing_holds_it_fires_and_nothing_is_cancelled(world: World, state: Any) -> None:
    job_id = job_of(world, CANCEL_OTHER, start_within_s=30 if state.__name__ == "expired" else 0)
    first = world.until_due(job_id)
    state(world, first)
    assert len(world.messages(world.until_due(job_id))) == 1
    assert (buffer_of(world), looks(world)) == (NONE, [])
    assert world.signals.counts["scheduler.holders_cancelled_total"] == 0


def test_a_newer_one_replaces_the_one_that_waits_which_names_it(world: World) -> None:
    job_id, first, second = held(world)
    third = world.until_due(job_id)
    run = world.run(second)
    assert (run.status, run.reason, run.replaced_by) == ("skipped", "replaced", third.occurrence)
    assert run.held_by == held_by(first, "running")
    assert (status(world, third), buffer_of(world)) == ("buffered", (third.ref, third.ref, "1"))
    assert third.ref in [look.run_ref for look in looks(world)]
    assert asked(world, first) == why(second), "it was asked once"
    stopped(world, first)
    assert (len(world.messages(third)), world.messages(second)) == (1, [])


def test_the_holder_is_asked_once_however_many_come(world: World) -> None:
    job_id, first, _ = held(world)
    for _ in range(3):
        world.until_due(job_id)
    assert (world.signals.counts["scheduler.holders_cancelled_total"], bool(asked(world, first))) == (1, True)


def test_one_that_was_replaced_does_not_come_back_when_its_successor_is_cancelled(world: World) -> None:
    job_id, first, second = held(world)
    third = world.until_due(job_id)
    cancelling.cancel_run(world.ports, third, "not wanted")
    assert buffer_of(world) == NONE
    stopped(world, first)
    assert (world.messages(second), world.messages(third)) == ([], [])


def test_what_waits_and_is_too_late_is_dropped_and_the_holder_stays_cancelled(world: World) -> None:
    _, first, second = held(world, start_within_s=30)
    world.after(31)
    stopped(world, first)
    assert (status(world, second), status(world, first)) == ("skipped", "cancelled")


# --- after an outage ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [CatchUp("all"), CatchUp("last", last=2)], ids=lambda one: one.policy)
@pytest.mark.parametrize("state", [succeeded, running], ids=lambda state: state.__name__)
def test_of_what_an_outage_leaves_the_newest_alone_is_started(world: World, policy: CatchUp, state: Any) -> None:
    job_id = job_of(world, CANCEL_OTHER, policy)
    state(world, world.until_due(job_id))
    due = world.next_key(job_id)
    world.clock.at_ms = due.fire_at_ms + 2 * EVERY_S * 1_000 + 10_000
    world.scan()
    span = range(due.scheduled_at_ms, world.clock.at_ms)
    items = {one["scheduled_at_ms"]: one for one in world.store.items(TIMERS) if "job_id" in one}
    missed = [items[at_ms] for at_ms in sorted(items) if at_ms in span]
    reasons = [one.get("reason") for one in missed[:-1]]
    assert reasons == (["replaced"] * 2 if policy.policy == "all" else ["skipped_outage", "replaced"])
    assert missed[1]["replaced_by"] == f"{job_id}@" + iso(missed[-1]["scheduled_at_ms"])
    assert missed[-1]["status"] == ("buffered" if state is running else "pending")


def test_one_that_is_paused_replaces_nothing(world: World) -> None:
    job_id = job_of(world, CANCEL_OTHER, CatchUp("all"))
    due = world.next_key(job_id)
    world.clock.at_ms = due.fire_at_ms + 1_000
    changing.pause_job(world.ports, job_id, "ann", "deploy")
    job = registering.get_job(world.ports, job_id)
    assert job.next is not None
    step = chain.plan_step(job, job.next, due.fire_at_ms + EVERY_S * 1_000, 2, Holding())
    assert (step.fires, step.skipped) == (True, ())


# --- crashes, one after the other -----------------------------------------------------------------------------------


def test_who_has_buffered_it_and_dies_leaves_the_asking_to_the_look(world: World, monkeypatch: Any) -> None:
    job_id = job_of(world, CANCEL_OTHER)
    first = world.until_due(job_id)
    running(world, first)
    with monkeypatch.context() as dies:
        dies.setattr(releasing, "look_again", lambda *_: [])
        second = world.until_due(job_id)
    assert (status(world, second), asked(world, first)) == ("buffered", "")
    until_look(world)
    assert (asked(world, first), len(looks(world))) == (why(second), 1)


def test_a_crash_after_any_write_ends_with_the_newest_sent_and_the_other_cancelled() -> None:
    for state in (queued, running, waiting):
        for after in range(1, 8):
            world = World()
            job_id = job_of(world, CANCEL_OTHER)
            first = world.until_due(job_id)
            state(world, first)
            second = world.next_key(job_id)
            world.clock.at_ms = second.fire_at_ms
            world.store.crash_after_commits = after
            with suppress(Crash):
                world.scan()
            world.store.crash_after_commits = None
            world.after(11)
            world.scan()
            world.clock.at_ms = second.fire_at_ms + 51_000
            world.scan()
            if state is running:
                assert asked(world, first), after
                stopped(world, first)
            assert status(world, first) == "cancelled", (state.__name__, after)
            assert (status(world, second), bool(world.messages(second))) == ("pending", True), (state.__name__, after)


def interleaved(monkeypatch: Any, act: Callable[[], object]) -> None:
    """Once, between the look at a holder and the write that asks it, something happens."""
    read, acts = giving_way.read_run, [act]

    def after(ports: Any, key: LedgerKey) -> Any:
        run = read(ports, key)
        if acts:
            acts.pop()()
        return run

    monkeypatch.setattr(giving_way, "read_run", after)


def test_one_that_is_started_between_the_look_and_the_write_is_asked_and_not_ended(
    world: World, monkeypatch: Any
) -> None:
    job_id = job_of(world, CANCEL_OTHER)
    first = world.until_due(job_id)
    interleaved(monkeypatch, lambda: running(world, first))
    second = world.until_due(job_id)
    assert (status(world, first), asked(world, first), status(world, second)) == ("running", why(second), "buffered")


def test_a_change_of_the_policy_in_between_cancels_nothing(world: World, monkeypatch: Any) -> None:
    job_id = job_of(world, CANCEL_OTHER)
    first = world.until_due(job_id)
    running(world, first)
    interleaved(monkeypatch, lambda: changed_to(world, job_id, BUFFER_ONE))
    second = world.until_due(job_id)
    assert (asked(world, first), status(world, second)) == ("", "buffered")


def test_nothing_is_cancelled_for_one_that_waits_no_more(world: World, monkeypatch: Any) -> None:
    job_id = job_of(world, CANCEL_OTHER)
    first = world.until_due(job_id)
    running(world, first)
    second = world.next_key(job_id)
    interleaved(monkeypatch, lambda: cancelling.cancel_run(world.ports, second, "not wanted"))
    world.until_due(job_id)
    assert (status(world, second), asked(world, first), status(world, first)) == ("cancelled", "", "running")


def test_nor_for_one_that_its_job_still_names(world: World, monkeypatch: Any) -> None:
    """Who has cancelled it has died before he had its job forget it."""
    job_id = job_of(world, CANCEL_OTHER)
    first = world.until_due(job_id)
    running(world, first)
    second = world.next_key(job_id)

    def cancels_and_dies() -> None:
        with monkeypatch.context() as dies:
            dies.setattr(freeing, "free_job", lambda *_: None)
            cancelling.cancel_run(world.ports, second, "not wanted")

    interleaved(monkeypatch, cancels_and_dies)
    world.until_due(job_id)
    assert (status(world, second), asked(world, first), buffer_of(world)) == ("cancelled", "", NONE)


def test_a_run_that_was_replayed_since_it_was_seen_to_hold_is_not_cancelled(world: World, monkeypatch: Any) -> None:
    """Who looks sleeps: meanwhile it dies, what waited goes and ends, and somebody has the dead one tried again."""
    job_id = job_of(world, CANCEL_OTHER)
    first = world.until_due(job_id)
    running(world, first)
    second = world.next_key(job_id)

    def meanwhile() -> None:
        world.fail(first, world.run(first).token, permanent=True)
        succeeded(world, second)
        order = dead_letters.Order("ops", "again", 10, world.clock.at_ms)
        assert not dead_letters.replay_runs(world.ports, [first], order)[0].refusal
        retry = retry_key(first, world.run(first).retry_at_ms, 2)
        world.must_start(first, message={"ref": first.ref, "attempt": 2, "retry_ref": retry.ref})

    interleaved(monkeypatch, meanwhile)
    world.until_due(job_id)
    assert (status(world, first), asked(world, first), status(world, second)) == ("running", "", "succeeded")


def test_a_step_that_would_replace_one_which_was_cancelled_meanwhile_is_left_and_comes_again(world: World) -> None:
    job_id, first, second = held(world)
    third = world.next_key(job_id)
    world.clock.at_ms = third.fire_at_ms
    commit = world.store.commit

    def cancelled_before(writes: Any) -> Any:
        if any(getattr(write, "set", {}).get("reason") == "replaced" for write in writes):
            world.store.commit = commit  # type: ignore[method-assign]
            cancelling.cancel_run(world.ports, second, "not wanted")
        return commit(writes)

    world.store.commit = cancelled_before  # type: ignore[method-assign]
    for _ in range(3):
        world.scan()
        world.after(10)
    assert (status(world, second), status(world, third)) == ("cancelled", "buffered")
    assert (world.run(second).replaced_by, bool(asked(world, first))) == ("", True)


# --- changes of the policy, replays -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "fate", "sent"), [(SKIP, "skipped", 0), (ALLOW, "pending", 1), (BUFFER_ONE, "buffered", 0)]
)
def test_a_change_to_another_policy_does_with_what_waits_as_that_says(
    world: World, to: str, fate: str, sent: int
) -> None:
    job_id, first, second = held(world)
    changed_to(world, job_id, to)
    assert (status(world, second), len(world.messages(second))) == (fate, sent)
    assert asked(world, first), "what was asked to stop stays so"


def test_a_change_to_it_has_the_holder_cancelled_for_what_waits_already(world: World) -> None:
    job_id = job_of(world, BUFFER_ONE)
    first = world.until_due(job_id)
    running(world, first)
    second = world.until_due(job_id)
    assert asked(world, first) == ""
    changed_to(world, job_id, CANCEL_OTHER)
    assert (asked(world, first), status(world, second)) == (why(second), "buffered")


def test_of_several_that_wait_the_newest_goes_on_waiting(world: World) -> None:
    job_id = job_of(world, BUFFER_ALL)
    first = world.until_due(job_id)
    running(world, first)
    keys = [world.until_due(job_id) for _ in range(3)]
    changed_to(world, job_id, CANCEL_OTHER)
    assert [status(world, key) for key in keys] == ["skipped", "skipped", "buffered"]
    assert [world.run(key).replaced_by for key in keys] == [keys[2].occurrence] * 2 + [""]
    assert asked(world, first) == why(keys[2])
    stopped(world, first)
    assert len(world.messages(keys[2])) == 1


def test_from_allow_all_that_have_not_ended_are_cancelled(world: World) -> None:
    job_id = job_of(world, ALLOW)
    first, second = world.until_due(job_id), world.until_due(job_id)
    running(world, second)
    changed_to(world, job_id, CANCEL_OTHER)
    assert (status(world, first), asked(world, second)) == ("pending", ""), "nothing is due"
    third = world.until_due(job_id)
    assert (status(world, first), asked(world, second)) == ("cancelled", why(third))
    assert status(world, third) == "buffered"
    stopped(world, second)
    assert len(world.messages(third)) == 1


def test_what_an_older_version_has_fired_beside_it_is_found_and_cancelled(world: World) -> None:
    """To it the policy is as `allow`: it moves the chain, and puts down no holder."""
    job_id, first, second = held(world)
    stopped(world, first)
    world.store.commit([Update(JOBS, {"job_id": job_id}, Anyway("an older version"), set={"overlap": ALLOW})])
    third = world.until_due(job_id)
    world.store.commit([Update(JOBS, {"job_id": job_id}, Anyway("a newer one"), set={"overlap": CANCEL_OTHER})])
    assert world.messages(second)
    assert world.messages(third)
    fourth = world.until_due(job_id)
    assert [status(world, key) for key in (second, third)] == ["cancelled"] * 2
    assert len(world.messages(fourth)) == 1
    assert world.signals.counts["scheduler.holders_looked_for_total"]


def test_a_replay_is_refused_while_one_waits_and_may_be_cancelled_afterwards(world: World) -> None:
    job_id = job_of(world, CANCEL_OTHER)
    gone = world.until_due(job_id)
    dead(world, gone)
    first = world.until_due(job_id)
    running(world, first)
    second = world.until_due(job_id)
    order = dead_letters.Order("ops", "again", 10, world.clock.at_ms)
    assert dead_letters.replay_runs(world.ports, [gone], order)[0].refusal == "held"
    stopped(world, first)
    succeeded(world, second)
    assert not dead_letters.replay_runs(world.ports, [gone], order)[0].refusal
    third = world.until_due(job_id)
    assert (status(world, gone), len(world.messages(third))) == ("cancelled", 1)


def test_a_job_that_is_deleted_cancels_what_waits(world: World) -> None:
    job_id, _, second = held(world)
    registering.delete_job(world.ports, job_id)
    assert status(world, second) == "cancelled"


def test_a_holder_whose_record_goes_meanwhile_is_waited_for_no_more(world: World, monkeypatch: Any) -> None:
    job_id = job_of(world, CANCEL_OTHER)
    first = world.until_due(job_id)
    running(world, first)
    gone = Delete(TIMERS, first.as_item(), Anyway("a hand"))
    interleaved(monkeypatch, lambda: world.store.commit([gone]))
    assert len(world.messages(world.until_due(job_id))) == 1


def test_it_costs_nothing_where_nothing_overlaps(world: World) -> None:
    figures = []
    for overlap in (SKIP, CANCEL_OTHER):
        own = World()
        job_id = job_of(own, overlap)
        succeeded(own, own.until_due(job_id))
        before, reads = len(own.store.commits), own.store.reads
        succeeded(own, own.until_due(job_id))
        figures.append((sum(len(one) for one in own.store.commits[before:]), own.store.reads - reads))
    assert figures[0] == figures[1]
