"""Dead letters (W6): listed with their cause, replayed by a person as the same run, at a pace, and on record."""

from __future__ import annotations

import pytest
from tests.support.runs_world import Crash, World

from tickwork.core.instants import second_of
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import BAD_ENDS, JOBS, TIMERS
from tickwork.core.ledger.work import RetryPolicy
from tickwork.core.ledger.writes import Anyway, Delete
from tickwork.core.runs.replays import NOT_DEAD, REPLAYS_MAX, TOO_OFTEN
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.runs import dead_letters
from tickwork.flows.runs.cancelling import cancel_run
from tickwork.flows.runs.dead_letters import NO_DEFINITION, Order, Replayed, Wanted

ONCE = RetryPolicy(max_attempts=1)


def kill(world: World, *, error: str = "boom", error_class: str = "KeyError", team: str = "shop") -> LedgerKey:
    key = world.timer(team=team, retry=ONCE)
    world.fail(key, world.must_start(key).token, error, error_class=error_class)
    return key


def replay(
    world: World, *keys: LedgerKey, per_second: int = 10, reason: str = "the database is back"
) -> list[Replayed]:
    order = Order("ann", reason, per_second, world.clock.at_ms)
    return dead_letters.replay_runs(world.ports, keys, order)


def listed(world: World, wanted: Wanted | None = None, team: str = "shop", limit: int = 100) -> list[LedgerKey]:
    keys: list[LedgerKey] = []
    position = None
    for _ in range(100):
        page = dead_letters.list_dead(world.ports, team, wanted or Wanted(), limit=limit, after=position)
        keys, position = keys + [run.key for run in page.found], page.after
        if position is None:
            return keys
    raise AssertionError("a list without end")


def test_dead_runs_are_listed_newest_first_and_only_the_team_s_own(world: World) -> None:
    keys = []
    for _ in range(7):
        keys.append(kill(world))
        world.after(1)
    kill(world, team="other")
    assert listed(world) == keys[::-1]
    assert sorted(listed(world, limit=2), key=lambda k: k.ref) == sorted(keys, key=lambda k: k.ref)


def test_a_list_loses_and_repeats_none_when_many_die_at_one_instant(world: World) -> None:
    keys = {kill(world).ref for _ in range(30)}
    found = [key.ref for key in listed(world, limit=4)]
    assert len(found) == 30
    assert set(found) == keys


def test_a_run_that_succeeds_never_touches_the_index(world: World) -> None:
    key = world.timer()
    world.complete(key, world.must_start(key).token)
    written = {name for writes in world.store.commits for write in writes for name in getattr(write, "set", {})}
    assert BAD_ENDS.partition_key not in written


def test_a_filter_goes_by_cause_and_time(world: World) -> None:
    first = kill(world, error="no such host", error_class="OSError")
    world.after(60)
    second = kill(world)
    at_ms = world.clock.at_ms
    assert listed(world, Wanted(error_class="OSError")) == [first]
    assert listed(world, Wanted(error="boom")) == [second]
    assert listed(world, Wanted(reason="out of attempts")) == [second, first]
    assert listed(world, Wanted(since_ms=at_ms)) == [second]
    assert listed(world, Wanted(until_ms=at_ms)) == [first]
    assert listed(world, Wanted(job_id=first.job_id)) == [first]


def test_a_replayed_run_is_the_same_run_with_the_next_attempt(world: World) -> None:
    key = kill(world)
    (outcome,) = replay(world, key)
    assert (outcome.run_id, outcome.refusal) == (key.run_id, "")
    assert listed(world) == []
    item = world.item(key)
    assert "expires_at_s" not in item, "a run that is to start again must not expire"
    run = world.must_start(key, message=world.until_retry(key))
    assert (run.attempt, run.token, run.run_id) == (2, 2, key.run_id)
    assert world.complete(key, run.token).status == lifecycle.SUCCEEDED
    (record,) = world.run(key).replays
    assert (record["by"], record["reason"], record["after_attempt"]) == ("ann", "the database is back", 1)


def test_a_replay_gives_as_many_attempts_as_the_policy_says(world: World) -> None:
    key = world.timer(retry=RetryPolicy(max_attempts=2, base_s=1, jitter_percent=0))
    run = world.must_start(key)
    world.fail(key, run.token)
    world.fail(key, world.must_start(key, message=world.until_retry(key)).token)
    assert world.run(key).status == lifecycle.DEAD
    replay(world, key)
    third = world.must_start(key, message=world.until_retry(key))
    retried = world.fail(key, third.token)
    assert retried.retry_at_ms == world.clock.at_ms + 2_000, "the waits count from the replay, too"
    assert world.fail(key, world.must_start(key, message=world.until_retry(key)).token).status == lifecycle.DEAD
    assert world.run(key).attempt == 4
    assert listed(world) == [key]


def test_replays_keep_their_pace_without_anybody_watching(world: World) -> None:
    keys = [kill(world) for _ in range(25)]
    replay(world, *keys, per_second=10)
    due = sorted(world.run(key).retry_at_ms for key in keys)
    begin = second_of(due[0])
    assert [second_of(at_ms) - begin for at_ms in due] == [0] * 10 + [1] * 10 + [2] * 5


def test_the_pace_goes_on_over_pages(world: World) -> None:
    order = Order("ann", "why", 10, world.clock.at_ms, before=40)
    assert order.due_ms(0) - world.clock.at_ms == 4_000


def test_replaying_again_changes_nothing(world: World) -> None:
    key = kill(world)
    first = replay(world, key)
    world.after(5)
    assert replay(world, key) == first
    assert len(world.run(key).replays) == 1
    run = world.must_start(key, message=world.until_retry(key))
    assert replay(world, key) == first
    assert replay(world, key, reason="another")[0].refusal == NOT_DEAD
    world.complete(key, run.token)
    assert replay(world, key) == first
    assert replay(world, key, reason="another")[0].refusal == NOT_DEAD


def test_a_crash_after_the_replay_was_written_loses_nothing(world: World) -> None:
    """no-lost-timer: nobody repeats the call, and the scanner has passed the second; the audit finds the item."""
    key = kill(world)
    world.scan()
    world.store.crash_after_commits = 1
    with pytest.raises(Crash):
        replay(world, key)
    world.after(600)
    world.scan()
    reconcile(world.ports)
    assert world.must_start(key, message=world.message(key)).attempt == 2


def test_a_run_that_was_replayed_too_often_stays_dead(world: World) -> None:
    key = kill(world)
    for _ in range(REPLAYS_MAX):
        assert not replay(world, key)[0].refusal
        world.fail(key, world.must_start(key, message=world.until_retry(key)).token)
    assert replay(world, key)[0].refusal == TOO_OFTEN
    assert len(str(world.item(key))) < 10_000


def test_a_replayed_run_can_be_cancelled_before_it_starts(world: World) -> None:
    key = kill(world)
    replay(world, key)
    assert cancel_run(world.ports, key, "no").status == lifecycle.CANCELLED
    assert {item["status"] for item in world.store.items(TIMERS)} == {lifecycle.CANCELLED, lifecycle.SPENT}


def test_a_run_whose_definition_is_gone_is_not_replayed(world: World) -> None:
    job_id = world.job(retry=ONCE)
    key = world.until_due(job_id)
    world.fail(key, world.must_start(key).token)
    world.store.commit([Delete(JOBS, {"job_id": job_id}, Anyway("a tombstone that has expired"))])
    assert replay(world, key)[0].refusal == NO_DEFINITION
    assert world.run(key).status == lifecycle.DEAD


def test_two_replays_at_once_leave_one_retry_item(world: World) -> None:
    key = kill(world)
    world.store.before_commit = lambda: replay(world, key)
    assert not replay(world, key)[0].refusal
    assert len(world.run(key).replays) == 1
    assert sum(1 for item in world.store.items(TIMERS) if "run_ref" in item) == 1
