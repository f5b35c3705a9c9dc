"""`buffer_all`: what is due while another run has not ended waits, in its order, so many and for so long."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.support.runs_world import Crash, World
from tests.unit.dispatch.test_buffer_one import buffer_of, looks, status
from tests.unit.dispatch.test_overlap import EVERY_S, changed_to, held_by, running, succeeded
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.overlap import ALLOW, BUFFER_ALL, BUFFER_ONE, SKIP
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Anyway, Delete
from tickwork.core.schedule import parse_schedule
from tickwork.flows.dispatch import freeing
from tickwork.flows.jobs import registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import cancelling


@pytest.fixture
def world() -> World:
    return World()


def held(
    world: World, waiting: int, catch_up: CatchUp | None = None, **bounds: int
) -> tuple[LedgerKey, list[LedgerKey]]:
    """The run that holds a job, and those that were due since."""
    spec = parse_schedule({"rate": f"{EVERY_S}s"}, now_ms=world.clock.at_ms, job_id="shop:x").spec
    policy: dict[str, Any] = {"overlap": BUFFER_ALL, **bounds}
    new = NewJob("shop", "x", spec, Work("default", "job"), 0, catch_up or CatchUp(), "f", **policy)
    job_id = registering.create_job(world.ports, new)[0].job_id
    first = world.until_due(job_id)
    running(world, first)
    return first, [world.until_due(job_id) for _ in range(waiting)]


def test_what_is_due_waits_in_its_order_and_goes_one_after_the_other(world: World) -> None:
    first, keys = held(world, 3)
    assert [status(world, key) for key in keys] == ["buffered"] * 3
    assert buffer_of(world) == (keys[0].ref, keys[2].ref, "3")
    assert [world.run(key).behind for key in keys] == [keys[1].ref, keys[2].ref, ""]
    assert [look.run_ref for look in looks(world)] == [keys[0].ref], "one look, at the oldest"
    world.complete(first, world.run(first).token)
    for number, key in enumerate(keys):
        assert [len(world.messages(one)) for one in keys] == [1] * (number + 1) + [0] * (2 - number)
        left = keys[number + 1 :]
        assert {look.run_ref for look in looks(world)} >= {one.ref for one in left[:1]}
        succeeded(world, key)
    assert buffer_of(world) == ("None", "None", "None")


def test_who_ends_a_run_sees_to_the_look_at_the_one_that_waits_then(world: World) -> None:
    first, keys = held(world, 2)
    world.after(20)
    world.complete(first, world.run(first).token)
    (look,) = [look for look in looks(world) if look.run_ref == keys[1].ref]
    assert look.key.fire_second in {int(body["second"]) for body in world.outbox.bodies("ticks")}


def test_what_is_more_than_may_wait_is_skipped_and_says_so(world: World) -> None:
    first, keys = held(world, 3, buffer_max=2)
    assert [status(world, key) for key in keys] == ["buffered", "buffered", "skipped"]
    assert (world.run(keys[2]).reason, world.run(keys[2]).held_by) == ("buffer_full", held_by(first, "running"))


def test_what_has_waited_for_too_long_is_skipped_and_says_so(world: World) -> None:
    first, keys = held(world, 3, buffer_age_s=90)
    assert [status(world, key) for key in keys] == ["skipped", "buffered", "buffered"]
    assert world.run(keys[0]).reason == "waited_too_long"
    assert buffer_of(world) == (keys[1].ref, keys[2].ref, "2")
    world.complete(first, world.run(first).token)
    assert [len(world.messages(key)) for key in keys] == [0, 1, 0]


def test_the_job_stays_small_however_many_wait(world: World) -> None:
    held(world, 3)
    (few,) = (len(repr(item)) for item in world.store.items(JOBS))
    other = World()
    held(other, 40)
    (many,) = (len(repr(item)) for item in other.store.items(JOBS))
    assert many <= few + 1


def test_one_that_is_cancelled_while_it_waits_is_stepped_over(world: World) -> None:
    first, keys = held(world, 3)
    cancelling.cancel_run(world.ports, keys[1], "not wanted")
    assert buffer_of(world) == (keys[0].ref, keys[2].ref, "3"), "it is forgotten when its turn comes"
    world.complete(first, world.run(first).token)
    succeeded(world, keys[0])
    assert [len(world.messages(key)) for key in keys] == [1, 0, 1]
    assert buffer_of(world) == ("None", "None", "None")


def test_a_step_that_was_planned_before_one_ceased_to_wait_is_refused_and_looks_again(world: World) -> None:
    _, keys = held(world, 2)
    third = world.next_key("shop:x")
    world.clock.at_ms = third.fire_at_ms
    commit = world.store.commit

    def cancelled_before(writes: Any) -> Any:
        if any(getattr(write, "set", {}).get("status") == "buffered" for write in writes):
            world.store.commit = commit  # type: ignore[method-assign]
            cancelling.cancel_run(world.ports, keys[0], "not wanted")
        return commit(writes)

    world.store.commit = cancelled_before  # type: ignore[method-assign]
    world.scan()
    assert status(world, third) == "buffered"
    assert buffer_of(world) == (keys[1].ref, third.ref, "2")


def test_one_behind_the_last_that_was_cancelled_is_found(world: World) -> None:
    first, keys = held(world, 2)
    cancelling.cancel_run(world.ports, keys[1], "not wanted")
    third = world.until_due("shop:x")
    assert (status(world, third), world.run(keys[1]).behind) == ("buffered", third.ref)
    world.complete(first, world.run(first).token)
    succeeded(world, keys[0])
    assert len(world.messages(third)) == 1


def test_a_record_that_is_gone_loses_no_more_than_what_it_alone_knew(world: World) -> None:
    first, keys = held(world, 3)
    world.store.commit([Delete(TIMERS, keys[0].as_item(), Anyway("a hand"))])
    world.complete(first, world.run(first).token)
    assert (len(world.messages(keys[2])), status(world, keys[1])) == (1, "buffered")
    succeeded(world, keys[2])
    freeing.see_to(world.ports, keys[1])
    assert (status(world, keys[1]), world.run(keys[1]).reason) == ("skipped", "overlap"), "the audit ends it"


@pytest.mark.parametrize(
    ("to", "fates"), [(SKIP, ["skipped"] * 3), (ALLOW, ["pending"] * 3), (BUFFER_ONE, ["buffered"] * 3)]
)
def test_a_change_of_the_policy_does_with_all_what_it_does_with_one(world: World, to: str, fates: list[str]) -> None:
    _, keys = held(world, 3)
    changed_to(world, "shop:x", to)
    assert [status(world, key) for key in keys] == fates
    assert [len(world.messages(key)) for key in keys] == [1 if to == ALLOW else 0] * 3
    fourth = world.until_due("shop:x")
    assert status(world, fourth) == ("pending" if to == ALLOW else "skipped")


def test_a_deleted_job_cancels_all_that_wait(world: World) -> None:
    _, keys = held(world, 3)
    registering.delete_job(world.ports, "shop:x")
    assert [status(world, key) for key in keys] == ["cancelled"] * 3
    assert looks(world) == [] or all(look.run_ref in {key.ref for key in keys} for look in looks(world))


def test_after_an_outage_all_that_was_missed_runs_one_after_the_other(world: World) -> None:
    first, _ = held(world, 0, CatchUp("all"))
    world.after(3 * EVERY_S + 10)
    times = [first.scheduled_at_ms + number * EVERY_S * 1_000 for number in (1, 2, 3)]
    for _ in range(5):
        world.scan()
        world.after(1)
    found = {item["scheduled_at_ms"]: item["status"] for item in world.store.items(TIMERS) if "job_id" in item}
    assert [found[at_ms] for at_ms in times] == ["buffered"] * 3


def test_a_crash_after_any_write_loses_none_of_them() -> None:
    for after in range(1, 8):
        world = World()
        first, keys = held(world, 3)
        token = world.run(first).token
        world.store.crash_after_commits = after
        with suppress(Crash):
            world.complete(first, token)
        world.store.crash_after_commits = None
        for key in keys:
            for _ in range(2):
                world.after(61)
                world.scan()
            assert world.messages(key), f"{key.ref} after {after} writes"
            succeeded(world, key)
