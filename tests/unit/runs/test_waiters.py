"""Waiting for a slot (F11): whoever frees one wakes the oldest, nobody overtakes, and no slot stays idle for
one who does not come."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.runs_world import Crash, World

from tickwork.core.errors import Throttled
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, RESOURCES, TIMERS
from tickwork.core.ledger.work import Resource, RetryPolicy, Work
from tickwork.core.ledger.writes import Anyway, Delete, Item, Put
from tickwork.core.runs import slots, waiters
from tickwork.core.runs.attempts import Declined
from tickwork.flows.runs import timers
from tickwork.flows.runs.cancelling import cancel_run

ONE = Resource("printer", 1)
COMES_S = waiters.COMES_WITHIN_MS / 1_000


def waiting(world: World) -> list[Item]:
    return [item for item in world.store.items(RESOURCES) if "holder" not in item]


def woken(world: World) -> list[str]:
    """The runs that were sent for, in this order."""
    return [body["ref"] for body in world.outbox.bodies("ready-default") if body["dispatched_by"] == "slot"]


def tagged(world: World, *resources: Resource, pool: str = "default", **work: Any) -> LedgerKey:
    """A timer that is due now. Each is due a second after the one before."""
    world.after(1)
    new = timers.NewTimer("shop", world.clock.at_ms, Work(pool, "job", resources=resources or (ONE,), **work))
    (created,) = timers.create_timers(world.ports, [new])
    return created.run.key


def refused(world: World, key: LedgerKey) -> Declined:
    answer = world.start(key)
    assert isinstance(answer, Declined), answer
    assert answer.reason == "no_slot"
    return answer


@pytest.fixture
def full(world: World) -> tuple[LedgerKey, int]:
    """A holder of the only slot."""
    key = tagged(world, lease_s=600)
    return key, world.must_start(key, lease_s=600).token


type Holder = tuple[LedgerKey, int]


def test_whoever_frees_a_slot_wakes_the_one_who_has_waited_longest(world: World, full: Holder) -> None:
    first, second = tagged(world), tagged(world)
    refused(world, second)
    refused(world, first)
    world.complete(*full)
    assert woken(world) == [first.ref]
    assert world.message(first)["attempt"] == 1
    assert world.must_start(first, message=world.message(first))
    assert [row["ref"] for row in waiting(world)] == [second.ref], "who has started waits no more"


def test_the_message_that_wakes_a_retry_carries_its_retry(world: World) -> None:
    first = tagged(world, retry=RetryPolicy(base_s=1))
    world.fail(first, world.must_start(first).token)
    holder = tagged(world)
    token = world.must_start(holder).token
    message = world.until_retry(first)
    assert world.start(first, message=message).reason == "no_slot"
    world.complete(holder, token)
    assert woken(world) == [first.ref]
    assert world.must_start(first, message=world.message(first)).attempt == 2


@pytest.mark.parametrize("end", ["fail", "time_out", "lapse"])
def test_every_end_of_an_attempt_wakes(world: World, end: str) -> None:
    holder, waiter = tagged(world, max_duration_s=40), tagged(world)
    token = world.must_start(holder).token
    refused(world, waiter)
    if end == "fail":
        world.fail(holder, token)
    else:
        world.after(100)
        newcomer = tagged(world)
        refused(world, newcomer)  # finds the holder lapsed, and leaves its slot to the one before
    assert woken(world) == [waiter.ref]
    world.must_start(waiter)


def test_a_newcomer_leaves_a_free_slot_to_those_who_wait_longer(world: World, full: Holder) -> None:
    old = tagged(world)
    refused(world, old)
    world.complete(*full)
    young = tagged(world)
    answer = refused(world, young)
    assert answer.retry_after_ms == waiters.COMES_WITHIN_MS, "then it is passed over, if it has not come"
    world.must_start(old)


def test_one_who_does_not_come_is_passed_over_and_no_slot_is_idle_for_longer(world: World, full: Holder) -> None:
    gone = tagged(world)
    refused(world, gone)
    world.complete(*full)
    young = tagged(world)
    refused(world, young)
    world.after(COMES_S)
    world.must_start(young)


def test_a_pool_that_does_not_come_holds_up_the_others_once_not_once_for_each_of_its_runs(world: World) -> None:
    holder = tagged(world)
    token = world.must_start(holder, lease_s=600).token
    for _ in range(8):
        refused(world, tagged(world, pool="default"))
    rows = waiting(world)
    for row in rows:
        world.store.commit([Put(RESOURCES, row | {"pool": "dead"}, Anyway("runs of a pool without workers"))])
    world.complete(holder, token)
    world.after(COMES_S)
    started = 0
    for _ in range(4):
        key = tagged(world)
        world.complete(key, world.must_start(key).token)
        started += 1
    assert started == 4


def test_a_slot_that_nobody_was_woken_for_is_given_to_the_oldest_by_a_newcomer(world: World, full: Holder) -> None:
    old = tagged(world)
    refused(world, old)
    world.store.crash_after_commits = 2  # of the try without slots, and of the end itself
    with pytest.raises(Crash):
        world.complete(*full)
    assert woken(world) == []
    young = tagged(world)
    refused(world, young)
    assert woken(world) == [old.ref]


def test_a_slot_freed_just_before_a_waiter_takes_its_place_is_not_missed(world: World, full: Holder) -> None:
    """Whoever freed it saw nobody waiting, and the waiter has seen no free slot: it looks once more."""
    late = tagged(world)
    world.store.before_commit = lambda: setattr(
        world.store, "before_commit", lambda: world.complete(*full)
    )  # between its look and its row
    world.must_start(late)
    assert waiting(world) == []


def test_a_waiter_that_comes_by_itself_is_not_written_again(world: World, full: Holder) -> None:
    key = tagged(world)
    refused(world, key)
    before = len([writes for writes in world.store.commits if writes[0].table is RESOURCES])
    refused(world, key)
    assert len([writes for writes in world.store.commits if writes[0].table is RESOURCES]) == before
    assert len(waiting(world)) == 1


@pytest.mark.parametrize("how", ["cancelled", "gone", "started elsewhere"])
def test_what_is_left_over_of_a_waiter_is_taken_away_by_whoever_would_wake_it(
    world: World, full: Holder, how: str
) -> None:
    left, next_one = tagged(world), tagged(world)
    refused(world, left)
    refused(world, next_one)
    if how == "cancelled":
        cancel_run(world.ports, left, "r")
    elif how == "gone":
        world.store.commit([Delete(TIMERS, left.as_item(), Anyway("its time to live is over"))])
    else:
        item = world.item(left)
        item["work"].pop("resources")
        item.pop("guarded")
        world.store.commit([Put(TIMERS, item, Anyway("its limits were taken away"))])
        world.must_start(left)
    world.complete(*full)
    assert woken(world) == [next_one.ref]
    assert [row["ref"] for row in waiting(world)] == [next_one.ref]


def test_two_ends_at_once_wake_two(world: World) -> None:
    two = Resource("db", 2)
    holders = [(key, world.must_start(key).token) for key in (tagged(world, two), tagged(world, two))]
    old, young = tagged(world, two), tagged(world, two)
    for key in (old, young):
        refused(world, key)

    def second_end() -> None:
        world.store.before_commit = None
        world.complete(*holders[1])

    right = world.store.query

    def query(*arguments: Any, **named: Any) -> Any:
        page = right(*arguments, **named)
        world.store.query = right
        second_end()
        return page

    world.store.query = query
    world.complete(*holders[0])
    assert sorted(woken(world)) == sorted([old.ref, young.ref])


def test_a_busy_store_does_not_take_back_an_end_that_was_accepted(world: World, full: Holder) -> None:
    refused(world, tagged(world))

    def busy(*_: Any, **__: Any) -> Any:
        raise Throttled("busy")

    world.store.query = busy
    assert world.complete(*full).status == lifecycle.SUCCEEDED


def test_a_run_of_two_resources_waits_at_one_of_them(world: World) -> None:
    first, second = Resource("a", 1), Resource("b", 1)
    holder_a, holder_b = tagged(world, first), tagged(world, second)
    token_a, token_b = world.must_start(holder_a).token, world.must_start(holder_b).token
    both = tagged(world, first, second)
    refused(world, both)
    world.complete(holder_a, token_a)
    assert world.start(both, message=world.message(both)).reason == "no_slot"
    assert [row["resource"] for row in waiting(world)] == ["shop#b"]
    other = tagged(world, first)
    world.complete(other, world.must_start(other).token)  # nobody holds up those of the first
    world.complete(holder_b, token_b)
    world.must_start(both)
    assert waiting(world) == []


def test_no_more_than_a_shrunk_limit_are_started_while_holders_beyond_it_end_as_they_would(world: World) -> None:
    wide, narrow = Resource("db", 4), Resource("db", 2)
    holders = [(key, world.must_start(key).token) for key in [tagged(world, wide) for _ in range(4)]]
    key = tagged(world, narrow)
    for holder, token in holders[:2]:
        refused(world, key)
        assert world.complete(holder, token).status == lifecycle.SUCCEEDED
    refused(world, key)  # two are left: as many as there may be
    world.complete(*holders[2])
    run = world.must_start(key)
    assert run.slots[0] in ("db#0000", "db#0001")


def test_a_dead_holder_beyond_a_shrunk_limit_does_not_hold_it_up_for_ever(world: World) -> None:
    wide, narrow = Resource("db", 3), Resource("db", 1)
    keys = [tagged(world, wide) for _ in range(3)]
    for key in keys:
        world.must_start(key)
    world.after(100)
    late = tagged(world, narrow)
    for _ in range(4):
        answer = world.start(late)
        if not isinstance(answer, Declined):
            break
    assert world.run(late).status == lifecycle.RUNNING


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_slot_row_deleted_by_hand_does_not_leave_its_run_contended(world: World, is_taken: bool) -> None:
    key = tagged(world)
    world.must_start(key)
    (row,) = world.store.items(RESOURCES)
    world.store.commit([Delete(RESOURCES, {"resource": row["resource"], "slot": row["slot"]}, Anyway("by hand"))])
    if is_taken:
        world.must_start(tagged(world))
    world.after(700)
    assert world.must_start(key).attempt == 2, "the reclaim would free a slot that is not there, or not its own"
    assert [item["holder"] for item in world.store.items(RESOURCES) if "holder" in item] == [key.ref]


def test_an_uncontended_run_pays_one_query_more_at_its_end_and_no_write(world: World) -> None:
    key = tagged(world)
    queries: list[str] = []
    right = world.store.query

    def counting(table: Any, *arguments: Any, **named: Any) -> Any:
        queries.append(table.name)
        return right(table, *arguments, **named)

    world.store.query = counting
    token = world.must_start(key).token
    queries.remove("teams")  # what is paused, which a process reads once in five seconds
    assert queries == ["resources"]
    before = len(world.store.commits)
    world.complete(key, token)
    assert queries == ["resources"] * 2
    written = [write.table for writes in world.store.commits[before:] for write in writes]
    assert written == [TIMERS, TIMERS, RESOURCES], "the try without slots, then the end with its slot"
    assert JOBS not in written


@pytest.mark.parametrize("garbled", [{}, {"ref": "?", "pool": 7}, {"woken_at_ms": "late"}], ids=str)
def test_a_row_that_cannot_be_read_holds_up_nobody(world: World, full: Holder, garbled: Item) -> None:
    row = {"resource": "shop#printer", "slot": "~wait#0000000000001#x", **garbled}
    world.store.commit([Put(RESOURCES, row, Anyway("garbled"))])
    waiter = tagged(world)
    refused(world, waiter)
    assert world.complete(*full).status == lifecycle.SUCCEEDED
    assert woken(world) == [waiter.ref]
    world.must_start(waiter)
    assert waiting(world) == []


def test_a_waiter_of_a_newer_version_is_passed_over(world: World, full: Holder) -> None:
    strange, waiter = tagged(world), tagged(world)
    refused(world, strange)
    refused(world, waiter)
    item = world.item(strange) | {"status": "in_tongues"}
    world.store.commit([Put(TIMERS, item, Anyway("a newer version's"))])
    world.complete(*full)
    assert woken(world) == [waiter.ref]


def test_when_all_holders_have_died_one_that_notices_has_the_next_look(world: World) -> None:
    three = Resource("db", 3)
    for _ in range(3):
        world.must_start(tagged(world, three))
    late = [tagged(world, three) for _ in range(3)]
    for key in late:
        refused(world, key)
    world.after(100)
    world.must_start(late[0])
    for key in late[1:]:
        assert key.ref in woken(world)
        world.must_start(key, message=world.message(key))
    assert waiting(world) == []


def test_one_who_came_and_found_the_slot_taken_is_woken_by_the_next_end(world: World) -> None:
    older, holder = tagged(world), tagged(world)
    token = world.must_start(holder).token
    waiter = tagged(world)
    refused(world, waiter)
    world.complete(holder, token)
    token = world.must_start(older).token  # due before it, and late
    refused(world, waiter)
    world.complete(older, token)
    assert woken(world) == [waiter.ref] * 2


# --- a limit that is lowered ----------------------------------------------------------------------------------


def test_an_attempt_takes_up_the_slot_of_the_one_before_only_below_the_limit_of_today() -> None:
    """F11: the run of a slot beyond it takes another, or waits like anybody."""
    mine = slots.Slot(2, "main#0000#00000001|mine", 1)
    other = slots.Slot(0, "main#0000#00000001|other", 1)
    one, two = Resource("printer", 1), Resource("printer", 2)
    assert slots.choose(Resource("printer", 3), [other, mine], mine.holder, "claim", 0) == slots.Grab(
        Resource("printer", 3), 2, mine
    )
    assert slots.choose(two, [other, mine], mine.holder, "claim", 0) == slots.Grab(two, 1)
    assert slots.choose(one, [other, mine], mine.holder, "claim", 0) is None
