"""Concurrency tags (F11): never more than N at a time, whoever dies, and no slot is lost for good."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.support.runs_world import Crash, World

from tickwork.core.errors import OutcomeUnknown, Throttled
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import RESOURCES, TIMERS
from tickwork.core.ledger.work import Resource, RetryPolicy
from tickwork.core.ledger.writes import Anyway, Committed, Item, Put, Refused, Write
from tickwork.core.runs.attempts import Declined
from tickwork.core.runs.endings import release, retry_key
from tickwork.flows.runs import worker_calls
from tickwork.flows.runs.cancelling import cancel_run
from tickwork.flows.runs.worker_calls import Started

DB = Resource("reporting-db", 2)


def tagged(world: World, *resources: Resource, **work: object) -> LedgerKey:
    return world.timer(resources=resources or (DB,), **work)


def holders(world: World) -> list[str]:
    return sorted(item["holder"] for item in slots_of(world))


def slots_of(world: World) -> list[Item]:
    return [item for item in world.store.items(RESOURCES) if "holder" in item]


def running(world: World) -> list[Run]:
    return [run for run in map(Run.from_item, _runs(world)) if run.status == lifecycle.RUNNING]


def _runs(world: World) -> list[dict[str, object]]:
    return [item for item in world.store.items(TIMERS) if "run_ref" not in item]


def test_no_more_start_than_there_are_slots_and_the_others_wait(world: World) -> None:
    keys = [tagged(world) for _ in range(4)]
    started = [world.start(key) for key in keys]
    assert [isinstance(one, Started) for one in started] == [True, True, False, False]
    declined = started[2]
    assert isinstance(declined, Declined)
    assert (declined.reason, declined.discard) == ("no_slot", False)
    assert declined.retry_after_ms >= 2_000
    assert world.run(keys[2]).status == lifecycle.PENDING


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "time_out"])
def test_a_slot_is_freed_in_the_transaction_that_ends_the_attempt(world: World, end: str) -> None:
    key = tagged(world, max_duration_s=40)
    run = world.must_start(key)
    assert holders(world) == [key.ref]
    before = len(world.store.commits)
    if end == "complete":
        assert world.complete(key, run.token).status == lifecycle.SUCCEEDED
    elif end == "fail":
        world.fail(key, run.token)
    elif end == "cancel":
        cancel_run(world.ports, key, "r")
        assert holders(world) == [key.ref], "it holds its slot until its worker has stopped"
        worker_calls.acknowledge_cancel(world.ports, key, run.token)
    else:
        world.after(40)
        worker_calls.heartbeat(world.ports, key, run.token, 60)
    assert holders(world) == []
    assert "slots" not in world.item(key)
    freeing = [writes for writes in world.store.commits[before:] if any(w.table is RESOURCES for w in writes)]
    assert [writes[0].table for writes in freeing] == [TIMERS]


def test_a_start_needs_a_slot_of_each_of_its_resources_and_takes_all_or_none(world: World) -> None:
    one = Resource("printer", 1)
    world.must_start(tagged(world, one))
    assert world.start(tagged(world, DB, one)).reason == "no_slot"
    assert len(holders(world)) == 1


def test_a_killed_holder_keeps_its_slot_until_its_lease_lapses_and_loses_it_then(world: World) -> None:
    first, second, third = (tagged(world) for _ in range(3))
    dead, alive = world.must_start(first), world.must_start(second)
    world.after(59)
    worker_calls.heartbeat(world.ports, second, alive.token, 60)
    assert world.start(third).reason == "no_slot"
    world.after(2)
    world.must_start(third)
    assert holders(world) == sorted([second.ref, third.ref])
    assert world.outcomes(first) == ["lost"]
    assert world.run(first).status == lifecycle.WAITING
    assert worker_calls.heartbeat(world.ports, first, dead.token, 60).reason == "stale_token"
    assert world.complete(first, dead.token).reason == "stale_token"
    world.complete(second, alive.token)
    assert world.must_start(first, message=world.until_retry(first)).attempt == 2


def test_the_retry_of_a_holder_is_sent_also_when_the_service_is_busy_after_its_end(world: World) -> None:
    """no-lost-timer: the start that took its slot is repeated, and then knows nothing of that run any more."""
    only = Resource("printer", 1)
    first, second = tagged(world, only), tagged(world, only)
    world.must_start(first)
    world.after(300)
    world.scan()
    world.after(-239)  # whoever answers the start has a clock that is late: the retry lies behind the cursor
    right, calls = world.store.get_many, []

    def busy(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:  # the first reads the holders, the second is the creator's look
            raise Throttled("busy")
        return right(*arguments)

    world.store.get_many = busy
    world.must_start(second)
    assert world.run(first).status == lifecycle.WAITING
    assert [body["ref"] for body in world.outbox.bodies("ready-default") if body["attempt"] == 2] == [first.ref]


def test_the_retry_of_a_holder_has_its_tick_also_where_the_reply_to_its_end_was_lost(world: World) -> None:
    """The repeated write is refused by what the first one wrote: nobody else has ended it."""
    only = Resource("printer", 1)
    first, second = (tagged(world, only, retry=RetryPolicy(3, 5)) for _ in range(2))
    world.must_start(first)
    world.scan()
    world.after(61)
    right, lost = world.store.commit, []

    def lossy(writes: Sequence[Write]) -> Committed | Refused:
        done = right(writes)
        if not lost and any(isinstance(write, Put) and "run_ref" in write.item for write in writes):
            lost.append(done)
            raise OutcomeUnknown("the reply was lost")
        return done

    world.store.commit = lossy  # type: ignore[method-assign]
    world.must_start(second)
    assert len(lost) == 1
    due = world.run(first).retry_at_ms // 1_000
    assert due in [tick["second"] for tick in world.outbox.bodies("ticks")]


def test_a_lapsed_attempt_that_is_reclaimed_passes_its_slot_on_to_the_next(world: World) -> None:
    keys = [tagged(world), tagged(world)]
    for key in keys:
        world.must_start(key)
    world.after(61)
    again = world.must_start(keys[0])
    assert again.attempt == 2
    slots = {item["holder"]: item["token"] for item in slots_of(world)}
    assert slots[keys[0].ref] == 2


def test_a_job_that_no_longer_names_the_resource_frees_it_when_it_is_reclaimed(world: World) -> None:
    key = tagged(world)
    world.must_start(key)
    item = world.item(key)
    item["work"].pop("resources")
    world.store.commit([Put(TIMERS, item, Anyway("the definition was changed"))])
    world.after(61)
    world.must_start(key)
    assert holders(world) == []


def test_a_slot_that_nobody_can_hold_is_taken_over(world: World) -> None:
    first, second = tagged(world, Resource("printer", 1)), tagged(world, Resource("printer", 1))
    orphan = {"resource": "shop#printer", "slot": "0000", "holder": first.ref, "token": 9}
    world.store.commit([Put(RESOURCES, orphan, Anyway("left behind by a bug"))])
    world.must_start(second)
    assert holders(world) == [second.ref]


def test_a_slot_that_went_to_another_does_not_hold_up_a_completion(world: World) -> None:
    key = tagged(world, Resource("printer", 1))
    run = world.must_start(key)
    foreign = {"resource": "shop#printer", "slot": "0000", "holder": "else", "token": 1}
    world.store.commit([Put(RESOURCES, foreign, Anyway("a bug"))])
    assert world.complete(key, run.token).status == lifecycle.SUCCEEDED
    assert holders(world) == ["else"]
    assert world.signals.counts["resources.foreign_slot_total"] == 1


def test_resources_of_one_name_are_a_team_s_own(world: World) -> None:
    for team in ("shop", "bank"):
        world.must_start(world.timer(team=team, resources=(Resource("db", 1),)))
    assert len(holders(world)) == 2


def test_two_starts_that_want_the_same_slot_at_once_do_not_share_it(world: World) -> None:
    first, second = tagged(world, Resource("printer", 1)), tagged(world, Resource("printer", 1))

    def rival() -> None:
        world.store.before_commit = lambda: world.must_start(second)

    world.store.before_commit = rival  # the first commit is the refused try; the second is the start itself
    assert world.start(first).reason == "no_slot"
    assert holders(world) == [second.ref]


def test_a_completion_whose_reply_was_lost_is_accepted_again(world: World) -> None:
    key = tagged(world)
    run = world.must_start(key)
    world.store.crash_after_commits = 2
    with pytest.raises(Crash):
        world.complete(key, run.token)
    assert world.complete(key, run.token).status == lifecycle.SUCCEEDED
    assert holders(world) == []


def test_a_run_without_tags_never_reads_or_writes_the_resources(world: World) -> None:
    key = world.timer()
    run = world.must_start(key)
    assert release(run) == ()
    world.complete(key, run.token)
    assert all(write.table is not RESOURCES for writes in world.store.commits for write in writes)


class History:
    """Random starts, ends, deaths and lapses of many runs, and what must be true after each."""

    LIMIT = 3

    def __init__(self, seed: int) -> None:
        self.draw, self.world = random.Random(seed), World()
        policy = RetryPolicy(max_attempts=3, base_s=1)
        self.keys = [tagged(self.world, Resource("db", self.LIMIT), retry=policy) for _ in range(12)]

    def check(self) -> None:
        live = [run for run in running(self.world) if run.lease_until_ms > self.world.clock.at_ms]
        assert len(live) <= self.LIMIT
        held = {(item["holder"], item["token"]) for item in slots_of(self.world)}
        assert held == {(run.key.ref, run.token) for run in running(self.world)}, "a slot without its attempt"

    def start_retry(self, run: Run) -> object:
        """A worker's start of the waiting run's retry, at its time."""
        self.world.clock.at_ms = max(self.world.clock.at_ms, run.retry_at_ms)
        retry = retry_key(run.key, run.retry_at_ms, run.attempt + 1)
        return self.world.start(run.key, message={"attempt": run.attempt + 1, "retry_ref": retry.ref})

    def step(self) -> None:
        world, key = self.world, self.draw.choice(self.keys)
        run = world.run(key)
        steps: list[Callable[[], object]] = [
            lambda: world.start(key),
            lambda: world.after(self.draw.choice([1, 20, 61])),
        ]
        if run.status == lifecycle.RUNNING:
            steps += [lambda: world.complete(key, run.token), lambda: world.fail(key, run.token)]
            steps += [lambda: worker_calls.heartbeat(world.ports, key, run.token, 60)]
        if run.status == lifecycle.WAITING:
            steps += [lambda: self.start_retry(run)] * 2
        self.draw.choice(steps)()
        self.check()

    def steps(self, count: int) -> None:
        """Steps, with another worker's step between any read and write."""
        for _ in range(count):
            if self.draw.random() < 0.3:
                self.world.store.before_commit = self.step
            self.step()

    def heal(self, rounds_max: int = 200) -> None:
        """No more deaths: everything comes to its end."""
        for _ in range(rounds_max):
            self.world.after(61)
            for run in self.left():
                self.start_retry(run) if run.status == lifecycle.WAITING else self.world.start(run.key)
            for run in running(self.world):
                self.world.complete(run.key, run.token)
            self.check()
            if not self.left():
                return
        raise AssertionError(f"still alive: {self.left()}")

    def left(self) -> list[Run]:
        return [run for run in map(Run.from_item, _runs(self.world)) if not run.ended]


@pytest.mark.parametrize("seed", range(40))
def test_never_more_than_n_at_a_time_in_any_history(seed: int) -> None:
    history = History(seed)
    history.steps(150)
    history.heal()
    assert history.world.store.items(RESOURCES) == [], "nothing is held, and nobody waits"
