"""`buffer_one`: the first that is due while another run has not ended waits until it has, and is never overtaken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.runs_world import Crash, World
from tests.unit.dispatch.test_overlap import (
    ALLOW,
    EVERY_S,
    HOLDS,
    LETS_GO,
    SKIP,
    changed_to,
    dead,
    held_by,
    job_of,
    running,
    skipped,
    succeeded,
)
from tickwork.core.audit.passes import EXPIRES_AFTER_MS, has_expired
from tickwork.core.dispatch import chain, set_aside
from tickwork.core.errors import Throttled
from tickwork.core.instants import SECOND_MS, iso
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.overlap import BUFFER_ONE, Holding
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Look
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Anyway, Delete, Update
from tickwork.core.schedule import parse_schedule
from tickwork.flows.audit import mending
from tickwork.flows.audit.repairs import Repairs
from tickwork.flows.dispatch import creating, freeing, releasing
from tickwork.flows.dispatch.fired import Firing
from tickwork.flows.dispatch.firing import fire
from tickwork.flows.jobs import calendars, changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import cancelling, dead_letters, worker_calls
from tickwork.ports import SendReport


@pytest.fixture
def world() -> World:
    return World()


def status(world: World, key: LedgerKey) -> str:
    return world.run(key).status


def buffer_of(world: World) -> tuple[str, ...]:
    (item,) = world.store.items(JOBS)
    return tuple(str(item.get(name)) for name in ("buffer_first", "buffer_last", "buffer_count"))


NONE = ("None", "None", "None")


def looks(world: World) -> list[Look]:
    items = [item for item in world.store.items(TIMERS) if str(item["sk"]).endswith("#look")]
    return [Look.from_item(item) for item in items if item["status"] == "pending"]


def held(world: World, **work: Any) -> tuple[str, LedgerKey, LedgerKey]:
    """A job, the run that holds it, and the one that waits."""
    job_id = job_of(world, BUFFER_ONE, **work)
    first = world.until_due(job_id)
    running(world, first)
    second = world.until_due(job_id)
    assert status(world, second) == "buffered"
    return job_id, first, second


def until_look(world: World) -> None:
    (look,) = looks(world)
    world.clock.at_ms = max(world.clock.at_ms, look.key.fire_at_ms)
    world.scan()


# --- it waits, and goes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", HOLDS, ids=lambda state: state.__name__)
def test_the_first_that_is_due_waits_and_those_after_it_are_skipped(world: World, state: Any) -> None:
    job_id = job_of(world, BUFFER_ONE)
    first = world.until_due(job_id)
    state(world, first)
    second, third = world.until_due(job_id), world.until_due(job_id)
    assert (status(world, second), world.run(second).reason) == ("buffered", "overlap")
    assert world.run(second).held_by == held_by(first, HOLDS[state])
    assert skipped(world, third) == held_by(first, HOLDS[state])
    assert world.messages(second) == []
    assert buffer_of(world) == (second.ref, second.ref, "1")
    assert [look.run_ref for look in looks(world)] == [second.ref], "one look, whatever is due meanwhile"


@pytest.mark.parametrize("state", LETS_GO, ids=lambda state: state.__name__)
def test_where_nothing_holds_it_fires(world: World, state: Any) -> None:
    job_id = job_of(world, BUFFER_ONE, start_within_s=30 if state.__name__ == "expired" else 0)
    state(world, world.until_due(job_id))
    assert len(world.messages(world.until_due(job_id))) == 1
    assert (buffer_of(world), looks(world)) == (NONE, [])


def test_who_ends_the_holder_lets_it_go_at_once(world: World) -> None:
    job_id, first, second = held(world)
    world.complete(first, world.run(first).token)
    assert (status(world, second), len(world.messages(second)), buffer_of(world)) == ("pending", 1, NONE)
    assert world.run(second).released_at_ms == world.clock.at_ms
    third = world.until_due(job_id)
    assert (status(world, third), world.run(third).held_by) == ("buffered", held_by(second, "pending"))
    succeeded(world, second)
    assert len(world.messages(third)) == 1, "in their order, one at a time"


@pytest.mark.parametrize("how", ["dead", "cancelled by hand while it was queued", "cancelled by its worker"])
def test_so_does_who_ends_it_in_another_way(world: World, how: str) -> None:
    job_id = job_of(world, BUFFER_ONE)
    first = world.until_due(job_id)
    if how != "cancelled by hand while it was queued":
        running(world, first)
    second = world.until_due(job_id)
    if how == "dead":
        world.fail(first, world.run(first).token, permanent=True)
    else:
        cancelling.cancel_run(world.ports, first, "not wanted")
    if how == "cancelled by its worker":
        assert world.messages(second) == []
        worker_calls.acknowledge_cancel(world.ports, first, world.run(first).token)
    assert (status(world, second), len(world.messages(second))) == ("pending", 1)


def test_a_holder_that_expires_by_the_audit_lets_it_go(world: World) -> None:
    job_id = job_of(world, BUFFER_ONE, start_within_s=90)
    first = world.until_due(job_id)
    second = world.until_due(job_id)
    world.after(40)
    world.start(first)
    assert status(world, first) == "expired"
    assert (status(world, second), len(world.messages(second))) == ("pending", 1)


def test_when_all_have_died_the_look_lets_it_go_within_a_minute(world: World, monkeypatch: Any) -> None:
    _, first, second = held(world)
    with monkeypatch.context() as nobody_looks:
        nobody_looks.setattr(freeing, "free_job", lambda *_: None)
        world.complete(first, world.run(first).token)
    assert status(world, second) == "buffered"
    before_ms = world.clock.at_ms
    until_look(world)
    assert world.clock.at_ms - before_ms <= 60_000
    assert (status(world, second), len(world.messages(second)), looks(world)) == ("pending", 1, [])


def test_a_look_moves_on_as_long_as_the_holder_holds(world: World) -> None:
    _, first, second = held(world)
    for _ in range(3):
        until_look(world)
        assert status(world, second) == "buffered"
    assert len(looks(world)) == 1
    world.complete(first, world.run(first).token)
    until_look(world)
    assert second.ref not in [look.run_ref for look in looks(world)]
    assert len(world.messages(second)) == 2, "nobody has started it: it is sent once more, and dies at the start"


def test_a_look_that_is_served_before_its_time_moves_on_to_a_later_one(world: World) -> None:
    """By a creator, behind a cursor that a clock ahead of his has moved."""
    held(world)
    (look,) = looks(world)
    creating.fire_overdue(world.ports, [look], "creator")
    (again,) = looks(world)
    assert again.key.fire_at_ms == look.key.fire_at_ms + 50_000


def test_who_buffers_looks_whether_the_holder_has_ended_meanwhile(world: World) -> None:
    """It ended between the read and the write, and whoever ended it saw that nothing waits."""
    job_id = job_of(world, BUFFER_ONE)
    first = world.until_due(job_id)
    running(world, first)
    second = world.next_key(job_id)
    world.clock.at_ms = second.fire_at_ms
    token = world.run(first).token
    commit = world.store.commit

    def ended_before(writes: Any) -> Any:
        if any(getattr(write, "set", {}).get("status") == "buffered" for write in writes):
            world.store.commit = commit  # type: ignore[method-assign]
            world.complete(first, token)
        return commit(writes)

    world.store.commit = ended_before  # type: ignore[method-assign]
    world.scan()
    assert (status(world, second), len(world.messages(second)), buffer_of(world)) == ("pending", 1, NONE)


def test_a_newer_one_never_overtakes(world: World, monkeypatch: Any) -> None:
    """The holder has ended, and nobody has looked: the one that waited goes first, the one that is due waits now."""
    job_id, first, second = held(world)
    monkeypatch.setattr(freeing, "free_job", lambda *_: None)
    world.complete(first, world.run(first).token)
    third = world.next_key(job_id)
    (look,) = looks(world)
    world.store.commit([Update(TIMERS, look.key.as_item(), Anyway("lost"), set={"status": "spent"})])
    world.clock.at_ms = third.fire_at_ms
    world.scan()
    assert (status(world, second), len(world.messages(second))) == ("pending", 1)
    assert (status(world, third), world.run(third).held_by) == ("buffered", held_by(second, "pending"))


def test_a_start_of_a_run_that_waits_is_declined(world: World) -> None:
    _, first, second = held(world)
    declined = world.start(second)
    assert (declined.reason, declined.discard) == ("buffered", True)  # type: ignore[union-attr]
    world.complete(first, world.run(first).token)
    assert world.must_start(second).attempt == 1


def ticks(world: World) -> set[int]:
    return {int(body["second"]) for body in world.outbox.bodies("ticks")}


def test_the_look_has_its_tick_whoever_puts_it(world: World) -> None:
    held(world)
    (look,) = looks(world)
    assert look.key.fire_second in ticks(world)
    until_look(world)
    (again,) = looks(world)
    assert again.key.fire_second in ticks(world), "it has moved on"


def test_what_had_to_wait_is_no_lag_of_the_dispatch(world: World) -> None:
    _, first, second = held(world)
    world.after(40)
    before = world.signals.counts["scheduler.fire_lag_seconds"]
    world.complete(first, world.run(first).token)
    assert len(world.messages(second)) == 1
    assert world.signals.counts["scheduler.fire_lag_seconds"] == before > 0


def test_what_is_due_is_left_while_what_waits_could_go_and_did_not(world: World, monkeypatch: Any) -> None:
    job_id, first, _ = held(world)
    monkeypatch.setattr(freeing, "free_job", lambda *_: None)
    world.complete(first, world.run(first).token)
    monkeypatch.setattr(releasing, "free", lambda *_: ([], set()))
    third = world.next_key(job_id)
    fired = fire(world.ports, [world.run(third)], Firing("a test"))
    assert set_aside.job(job_id) in fired.left
    assert (status(world, third), world.messages(third)) == ("pending", [])


def test_what_waits_keeps_a_newer_one_from_firing_also_by_itself(world: World) -> None:
    """As planned: no run holds the job, and one waits."""
    job_id, _, second = held(world)
    job = registering.get_job(world.ports, job_id)
    assert job.next is not None
    step = chain.plan_step(job, job.next, job.next.fire_at_ms, 2, Holding())
    assert (step.fires, [one.reason for one in step.skipped]) == (False, ["overlap"])
    (update, record, *_) = chain.step_writes(job, world.next_key(job_id), step, world.clock.at_ms, 60)
    assert isinstance(record, Update)
    assert record.set["held_by"] == held_by(second, "buffered")
    assert isinstance(update, Update)


# --- it is dropped --------------------------------------------------------------------------------------------


def test_it_starts_no_later_than_its_job_lets_it(world: World) -> None:
    job_id, first, second = held(world, catch_up=CatchUp(max_lateness_s=90))
    world.after(91)
    world.complete(first, world.run(first).token)
    assert (status(world, second), world.run(second).reason) == ("skipped", "too_late")
    assert world.messages(second) == []
    assert buffer_of(world) == NONE
    assert job_id


def test_one_that_may_start_no_more_makes_room(world: World) -> None:
    job_id, first, second = held(world, catch_up=CatchUp(max_lateness_s=90))
    third = world.until_due(job_id)
    assert skipped(world, third) == held_by(first, "running")
    fourth = world.until_due(job_id)
    assert (status(world, second), world.run(second).reason) == ("skipped", "too_late")
    assert status(world, fourth) == "buffered"


def test_one_with_a_deadline_for_its_start_is_not_sent_after_it(world: World) -> None:
    _, first, second = held(world, start_within_s=30)
    world.after(31)
    world.complete(first, world.run(first).token)
    assert (status(world, second), world.run(second).reason) == (
        "skipped",
        "not started within 30 s of its time (start_within_s)",
    )


def test_it_does_not_start_in_a_pause(world: World) -> None:
    job_id, first, second = held(world)
    changing.pause_job(world.ports, job_id, "ann", "deploy")
    world.complete(first, world.run(first).token)
    assert (status(world, second), world.run(second).reason) == ("skipped", "paused by ann: deploy")
    changing.resume_job(world.ports, job_id, "ann")
    assert world.messages(second) == []


def test_a_pause_that_is_over_before_the_holder_ends_drops_nothing(world: World) -> None:
    job_id, first, second = held(world)
    changing.pause_job(world.ports, job_id, "ann", "deploy")
    until_look(world)
    changing.resume_job(world.ports, job_id, "ann")
    world.after(1)
    world.complete(first, world.run(first).token)
    assert len(world.messages(second)) == 1


def bounded(world: World, **bounds: Any) -> tuple[LedgerKey, LedgerKey]:
    """A job whose schedule ends, or is excluded, soon: its holder, and the one that waits."""
    spec = parse_schedule({"rate": f"{EVERY_S}s", **bounds}, now_ms=world.clock.at_ms, job_id="shop:x").spec
    new = NewJob("shop", "x", spec, Work("default", "job"), 0, CatchUp(), "f", overlap=BUFFER_ONE)
    job_id = registering.create_job(world.ports, new)[0].job_id
    first = world.until_due(job_id)
    running(world, first)
    second = world.until_due(job_id)
    assert status(world, second) == "buffered"
    return first, second


def test_it_does_not_start_where_its_schedule_is_over(world: World) -> None:
    end_ms = world.clock.at_ms + 2 * EVERY_S * SECOND_MS + 20_000
    first, second = bounded(world, end=iso(end_ms))
    world.clock.at_ms = end_ms
    world.complete(first, world.run(first).token)
    assert (status(world, second), world.run(second).reason) == ("skipped", f"its schedule ended at {iso(end_ms)}")


def test_the_last_one_of_a_schedule_still_goes_before_its_end(world: World) -> None:
    end_ms = world.clock.at_ms + 2 * EVERY_S * SECOND_MS + 20_000
    first, second = bounded(world, end=iso(end_ms))
    world.complete(first, world.run(first).token)
    assert len(world.messages(second)) == 1


def test_it_does_not_start_where_a_calendar_excludes_it(world: World) -> None:
    begins_ms = world.clock.at_ms + 2 * EVERY_S * SECOND_MS + 10_000
    span = {"from": iso(begins_ms)[:19], "to": iso(begins_ms + 3_600_000)[:19]}
    calendars.put_calendar(world.ports, "shop", "freeze", {"ranges": [span], "zone": "UTC"}, None)
    first, second = bounded(world, calendars={"exclude": ["freeze"]})
    world.clock.at_ms = begins_ms + 1_000
    world.complete(first, world.run(first).token)
    assert status(world, second) == "skipped"
    assert world.run(second).reason == "freeze excludes the time at which it could have started"


def test_a_buffered_run_can_be_cancelled_and_its_job_forgets_it(world: World) -> None:
    job_id, first, second = held(world)
    cancelled = cancelling.cancel_run(world.ports, second, "not wanted")
    assert (cancelled.status, status(world, second), buffer_of(world)) == ("cancelled", "cancelled", NONE)
    third = world.until_due(job_id)
    assert (status(world, third), world.run(third).held_by) == ("buffered", held_by(first, "running"))


def test_a_deleted_job_cancels_what_waits_and_a_new_one_of_its_name_begins_with_none(world: World) -> None:
    job_id, first, second = held(world)
    registering.delete_job(world.ports, job_id)
    assert (status(world, second), world.run(second).reason) == ("cancelled", "the job was deleted")
    job_of(world, BUFFER_ONE)
    assert buffer_of(world) == NONE
    third = world.until_due(job_id)
    assert world.run(third).held_by == held_by(first, "running")


def test_what_a_deletion_has_not_come_to_end_is_ended_before_the_name_is_used_again(
    world: World, monkeypatch: Any
) -> None:
    job_id, _, second = held(world)
    with monkeypatch.context() as dies:
        dies.setattr(freeing, "free_job", lambda *_: None)
        registering.delete_job(world.ports, job_id)
    assert status(world, second) == "buffered"
    job_of(world, BUFFER_ONE)
    assert (status(world, second), buffer_of(world)) == ("cancelled", NONE)


# --- changes and replays --------------------------------------------------------------------------------------


def test_to_skip_what_waits_is_a_recorded_skip(world: World) -> None:
    job_id, first, second = held(world)
    changed_to(world, job_id, SKIP)
    assert skipped(world, second) == held_by(first, "running")
    assert buffer_of(world) == NONE


def test_to_allow_what_waits_goes_at_once(world: World) -> None:
    job_id, first, second = held(world)
    changed_to(world, job_id, ALLOW)
    assert len(world.messages(second)) == 1
    (item,) = world.store.items(JOBS)
    assert not {"holders", "held_through_ms", "buffer_first", "buffer_count"} & item.keys()
    assert status(world, first) == "running"


@pytest.mark.parametrize("to", [SKIP, ALLOW])
def test_who_changes_the_policy_and_dies_leaves_it_to_the_look(world: World, monkeypatch: Any, to: str) -> None:
    job_id, first, second = held(world)
    with monkeypatch.context() as dies:
        dies.setattr(freeing, "free_job", lambda *_: None)
        changed_to(world, job_id, to)
    until_look(world)
    if to == SKIP:
        assert skipped(world, second) == held_by(first, "running")
    else:
        assert len(world.messages(second)) == 1


def test_from_allow_the_first_that_is_held_up_waits(world: World) -> None:
    job_id = job_of(world, ALLOW)
    first, second = world.until_due(job_id), world.until_due(job_id)
    changed_to(world, job_id, BUFFER_ONE)
    third = world.until_due(job_id)
    assert (status(world, third), world.run(third).held_by) == ("buffered", held_by(second, "pending"))
    succeeded(world, second)
    assert status(world, third) == "buffered", "all that have not ended are waited for"
    succeeded(world, first)
    assert len(world.messages(third)) == 1


def test_a_replay_is_refused_while_one_waits_and_names_it(world: World, monkeypatch: Any) -> None:
    job_id = job_of(world, BUFFER_ONE)
    gone = world.until_due(job_id)
    dead(world, gone)
    first = world.until_due(job_id)
    running(world, first)
    second = world.until_due(job_id)
    with monkeypatch.context() as nobody_looks:
        nobody_looks.setattr(freeing, "free_job", lambda *_: None)
        world.complete(first, world.run(first).token)
    order = dead_letters.Order("ops", "again", 10, world.clock.at_ms)
    (outcome,) = dead_letters.replay_runs(world.ports, [gone], order)
    assert (outcome.refusal, outcome.held_by) == ("held", held_by(second, "buffered"))


# --- crashes --------------------------------------------------------------------------------------------------


def commits_of(act: Callable[[World], object]) -> int:
    world, at = ready()
    before = len(world.store.commits)
    at.act(world, act)
    return len(world.store.commits) - before


class At:
    """A job with a holder that has just ended unseen, and one that waits."""

    def __init__(self, world: World) -> None:
        self.job_id, self.first, self.second = held(world)
        world.store.commit(
            [Update(TIMERS, self.first.as_item(), Anyway("a test"), set={"status": "succeeded", "ended_at_ms": 1})]
        )

    def act(self, world: World, act: Callable[[World], object]) -> None:
        act(world)


def ready() -> tuple[World, At]:
    world = World()
    return world, At(world)


def by_look(world: World) -> None:
    until_look(world)


def by_step(world: World) -> None:
    world.until_due("shop:x")


def by_ender(world: World) -> None:
    freeing.free_job(world.ports, "shop:x")


@pytest.mark.parametrize("act", [by_look, by_step, by_ender], ids=lambda act: act.__name__)
def test_a_crash_after_any_write_of_a_release_loses_nothing_and_doubles_nothing(act: Callable[[World], object]) -> None:
    for after in range(1, commits_of(act) + 1):
        world, at = ready()
        world.store.crash_after_commits = after
        with pytest.raises(Crash):
            act(world)
        world.store.crash_after_commits = None
        for _ in range(3):
            world.after(61)
            world.scan()
            fired = [key for key in (at.second,) if world.messages(key)]
        assert fired == [at.second], f"after {after} writes"
        live = [item for item in world.store.items(TIMERS) if item["status"] in ("pending", "running")]
        refs = {f"{item['pk']}|{item['sk']}" for item in live if "job_id" in item}
        assert refs - {world.next_key("shop:x").ref} == {at.second.ref}


def test_a_crash_after_any_write_of_buffering_loses_nothing() -> None:
    for after in range(1, 6):
        world = World()
        job_id = job_of(world, BUFFER_ONE)
        first = world.until_due(job_id)
        running(world, first)
        second = world.next_key(job_id)
        world.clock.at_ms = second.fire_at_ms
        world.store.crash_after_commits = after
        try:
            world.scan()
        except Crash:
            world.after(45)
            world.scan()
        world.store.crash_after_commits = None
        assert status(world, second) == "buffered"
        assert len(looks(world)) == 1
        world.complete(first, world.run(first).token)
        assert len(world.messages(second)) == 1


def test_a_release_that_could_not_be_sent_is_sent_by_the_look(world: World) -> None:
    _, first, second = held(world)
    send = world.outbox.send

    def refused(queue: str, messages: Any) -> Any:
        if queue == "ticks":
            return send(queue, messages)
        return SendReport(failed=tuple(range(len(messages))), why="busy")

    world.outbox.send = refused  # type: ignore[method-assign]
    world.complete(first, world.run(first).token)
    assert (status(world, second), world.messages(second)) == ("pending", [])
    world.outbox.send = send  # type: ignore[method-assign]
    until_look(world)
    assert (len(world.messages(second)), looks(world)) == (1, [])


def test_a_look_that_cannot_send_stays_until_it_can(world: World) -> None:
    _, first, second = held(world)
    world.store.commit([Update(TIMERS, first.as_item(), Anyway("a test"), set={"status": "succeeded"})])
    send = world.outbox.send

    def refused(queue: str, messages: Any) -> Any:
        return send(queue, messages) if queue == "ticks" else SendReport(failed=tuple(range(len(messages))), why="busy")

    world.outbox.send = refused  # type: ignore[method-assign]
    until_look(world)
    assert (status(world, second), len(looks(world))) == ("pending", 1)
    world.outbox.send = send  # type: ignore[method-assign]
    for _ in range(3):
        world.after(10)
        world.scan()
    assert len(world.messages(second)) == 1
    assert second.ref not in [look.run_ref for look in looks(world)]


def test_a_look_waits_with_its_job_where_that_is_left(world: World) -> None:
    """Its job cannot be stepped in the same batch: the look is left with what is due, wherever it lies."""
    job_id, _, _ = held(world)
    (look,) = looks(world)
    due = world.run(world.next_key(job_id))
    world.clock.at_ms = due.key.fire_at_ms
    commit = world.store.commit

    def busy(writes: Any) -> Any:
        if any(write.table is JOBS for write in writes):
            raise Throttled("busy")
        return commit(writes)

    world.store.commit = busy  # type: ignore[method-assign]
    fired = fire(world.ports, [look, due], Firing("a test"))
    assert fired.left[set_aside.job(job_id)].begin == look.key.fire_second < due.key.fire_second
    assert [one.key for one in looks(world)] == [look.key]


def test_one_that_had_to_wait_expires_only_when_its_message_has_waited_as_long(world: World) -> None:
    _, first, second = held(world)
    world.after(EXPIRES_AFTER_MS / 1_000)
    world.complete(first, world.run(first).token)
    assert len(world.messages(second)) == 1
    assert not has_expired(world.run(second), 0, world.clock.at_ms)
    assert has_expired(world.run(second), 0, world.clock.at_ms + EXPIRES_AFTER_MS)


# --- what fails, and what was tampered with -------------------------------------------------------------------


def test_one_whose_record_is_gone_holds_up_nobody(world: World) -> None:
    job_id, first, second = held(world)
    world.store.commit([Delete(TIMERS, second.as_item(), Anyway("a hand"))])
    third = world.until_due(job_id)
    assert buffer_of(world) == (third.ref, third.ref, "1")
    world.complete(first, world.run(first).token)
    assert len(world.messages(third)) == 1


def test_the_audit_ends_one_that_its_job_does_not_name(world: World) -> None:
    job_id, _, second = held(world)
    names = ("buffer_first", "buffer_last", "buffer_count")
    world.store.commit([Update(JOBS, {"job_id": job_id}, Anyway("a hand"), remove=names)])
    freeing.see_to(world.ports, second)
    assert (status(world, second), world.run(second).reason) == ("skipped", "overlap")


@pytest.mark.parametrize("job", ["names nothing", "is gone"])
def test_so_does_the_look_which_is_spent_then(world: World, job: str) -> None:
    job_id, _, second = held(world)
    names = ("buffer_first", "buffer_last", "buffer_count")
    hand = Anyway("a hand")
    gone = Delete(JOBS, {"job_id": job_id}, hand)
    world.store.commit([gone if job == "is gone" else Update(JOBS, {"job_id": job_id}, hand, remove=names)])
    until_look(world)
    assert (status(world, second), looks(world)) == ("skipped", [])


def test_the_audit_lets_go_one_whose_look_is_lost(world: World) -> None:
    _, first, second = held(world)
    (look,) = looks(world)
    world.store.commit([Delete(TIMERS, look.key.as_item(), Anyway("a hand"))])
    world.store.commit([Update(TIMERS, first.as_item(), Anyway("a test"), set={"status": "succeeded"})])
    mending.mend(world.ports, [world.item(second)], Repairs())
    assert len(world.messages(second)) == 1


def test_it_costs_nothing_where_nothing_overlaps(world: World) -> None:
    figures = []
    for overlap in (SKIP, BUFFER_ONE):
        own = World()
        job_id = job_of(own, overlap)
        succeeded(own, own.until_due(job_id))
        before, reads = len(own.store.commits), own.store.reads
        succeeded(own, own.until_due(job_id))
        figures.append((sum(len(one) for one in own.store.commits[before:]), own.store.reads - reads))
    assert figures[0] == figures[1]


def test_a_job_with_one_that_waits_stays_below_a_kilobyte(world: World) -> None:
    held(world)
    (item,) = world.store.items(JOBS)
    assert len(repr(item)) < 1_000


def test_a_creator_that_follows_a_chain_buffers_as_a_scanner_does(world: World) -> None:
    job_id = job_of(world, BUFFER_ONE)
    first = world.until_due(job_id)
    running(world, first)
    second = world.next_key(job_id)
    world.clock.at_ms = second.fire_at_ms
    creating.fire_overdue(world.ports, creating.read_pending(world.ports, [second]), "audit")
    assert (status(world, second), len(looks(world))) == ("buffered", 1)
    assert replace(second, kind="") == second
