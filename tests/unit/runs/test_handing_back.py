"""A run whose worker has to stop is handed back (W12): at once another's, and no attempt used up, up to ten times."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.http import ApiUnderTest
from tests.support.queues import WorldQueue
from tests.support.runs_world import World

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.tables import RESOURCES, TIMERS
from tickwork.core.ledger.work import UNSAFE, Resource, RetryPolicy, Work
from tickwork.core.ledger.writes import Anyway, Update
from tickwork.core.runs.attempts import Declined, StartRequest, Try, decide_start
from tickwork.flows.ledger.commit import commit
from tickwork.flows.runs import cancelling, dead_letters, worker_calls
from tickwork.flows.runs.finishing import Ended
from tickwork.ports import Ports

ONCE = RetryPolicy(max_attempts=1)


def give(world: World, key: LedgerKey, token: int, stops_in_s: int = 0) -> Ended | Declined:
    return worker_calls.hand_back(world.ports, key, token, stops_in_s)


def interrupted(world: World, key: LedgerKey, times: int = 1) -> None:
    """Start it and hand it back, so often."""
    for _ in range(times):
        assert isinstance(give(world, key, world.must_start(key).token), Ended)


# --- what it is ---------------------------------------------------------------------------------------------------


def test_a_run_that_was_handed_back_is_started_at_once_by_another_with_the_next_token(world: World) -> None:
    key = world.timer()
    first = world.must_start(key, lease_s=900)
    give(world, key, first.token)
    second = world.must_start(key)
    assert (second.attempt, second.token) == (2, 2)
    (record,) = second.attempts
    assert (record["outcome"], record["attempt"], record["error"]) == (
        "interrupted",
        1,
        "its worker had to stop, and handed it back",
    )
    assert not second.is_handed_back


def test_the_clocks_of_two_hosts_may_differ(world: World) -> None:
    key = world.timer()
    give(world, key, world.must_start(key).token)
    world.after(-2)
    assert world.must_start(key).attempt == 2


def test_an_interrupted_attempt_is_none_to_the_retry_policy(world: World) -> None:
    key = world.timer(retry=RetryPolicy(max_attempts=2, base_s=10, jitter_percent=0))
    interrupted(world, key, 3)
    run = world.must_start(key)
    assert isinstance(ended := world.fail(key, run.token), Ended)
    assert ended.status == lifecycle.WAITING
    assert ended.retry_at_ms - world.clock.at_ms == 20_000, "the wait of a first failure"
    last = world.must_start(key, message=world.until_retry(key))
    assert isinstance(dead := world.fail(key, last.token), Ended)
    assert dead.status == lifecycle.DEAD
    assert world.outcomes(key) == ["interrupted"] * 3 + ["failed"] * 2


def test_after_ten_times_it_counts(world: World) -> None:
    key = world.timer(retry=ONCE)
    interrupted(world, key, 11)
    assert isinstance(declined := world.start(key), Declined)
    assert (declined.reason, declined.discard) == (lifecycle.DEAD, True)
    run = world.run(key)
    assert (run.status, run.reason, run.attempt, run.interrupted) == (lifecycle.DEAD, "interrupted", 11, 10)


def test_a_replay_begins_to_count_anew(world: World) -> None:
    key = world.timer(retry=ONCE)
    interrupted(world, key, 10)
    world.fail(key, world.must_start(key).token)
    order = dead_letters.Order("ops", "again", 10, world.clock.at_ms)
    dead_letters.replay_runs(world.ports, [key], order)
    again = world.must_start(key, message=world.until_retry(key))
    give(world, key, again.token)
    assert world.must_start(key).interrupted == 1


def test_what_is_unsafe_is_not_begun_again(world: World) -> None:
    key = world.timer(idempotency_class=UNSAFE, sign_off={"who": "ops", "why": "x"})
    give(world, key, world.must_start(key).token)
    assert isinstance(declined := world.start(key), Declined)
    assert declined.reason == lifecycle.DEAD
    assert world.run(key).reason == "interrupted, not repeated: unsafe"


def test_a_job_that_may_go_on_for_a_moment_keeps_its_lease_for_that(world: World) -> None:
    key = world.timer()
    give(world, key, world.must_start(key, lease_s=300).token, 5)
    assert isinstance(held := world.start(key), Declined)
    assert (held.reason, held.retry_after_ms) == ("held", 5_000)
    world.after(5)
    assert world.must_start(key).attempts[0]["outcome"] == "interrupted"


def test_a_lease_is_never_lengthened_by_that(world: World) -> None:
    key = world.timer()
    run = world.must_start(key, lease_s=30)
    world.after(29)
    give(world, key, run.token, 60)
    world.after(1)
    assert world.must_start(key).attempts[0]["outcome"] == "interrupted"


# --- whose it is --------------------------------------------------------------------------------------------------


def test_only_the_holder_can_hand_it_back(world: World) -> None:
    key = world.timer()
    first = world.must_start(key, lease_s=30)
    world.after(31)
    second = world.must_start(key, lease_s=30)
    assert isinstance(stale := give(world, key, first.token), Declined)
    assert (stale.reason, stale.discard) == ("stale_token", False)
    assert world.run(key).lease_until_ms == second.lease_until_ms
    world.complete(key, second.token)
    assert isinstance(ended := give(world, key, second.token), Declined)
    assert (ended.reason, ended.discard) == (lifecycle.SUCCEEDED, True)
    gone = LedgerKey("main", 0, world.clock.at_ms, "shop", "x", world.clock.at_ms)
    assert isinstance(unknown := give(world, gone, 1), Declined)
    assert unknown.reason == "unknown"


def test_handing_it_back_again_is_harmless_also_when_it_is_another_s(world: World) -> None:
    key = world.timer()
    first = world.must_start(key)
    for _ in range(3):
        assert isinstance(give(world, key, first.token), Ended)
    second = world.must_start(key)
    assert isinstance(give(world, key, first.token), Declined)
    assert world.run(key).lease_until_ms == second.lease_until_ms
    assert world.outcomes(key) == ["interrupted"]


@pytest.mark.parametrize("work", [{}, {"max_duration_s": 600}, {"resources": (Resource("db", 1),)}])
def test_a_late_heartbeat_revives_nothing(world: World, work: dict[str, Any]) -> None:
    key = world.timer(**work)
    run = world.must_start(key)
    give(world, key, run.token)
    late = worker_calls.heartbeat(world.ports, key, run.token, 900)
    assert isinstance(late, Declined)
    assert (late.reason, late.discard) == ("handed_back", False)
    assert world.must_start(key).attempt == 2


def test_the_old_claim_asked_again_is_not_granted_what_it_gave_back(world: World) -> None:
    key = world.timer()
    run = world.must_start(key, claim="claim-the-first")
    give(world, key, run.token, 5)
    assert isinstance(world.start(key, "claim-the-first"), Declined)


def test_an_end_that_is_told_after_all_counts_while_nobody_has_begun_again(world: World) -> None:
    for end, status in ((world.complete, lifecycle.SUCCEEDED), (world.fail, lifecycle.WAITING)):
        key = world.timer()
        run = world.must_start(key)
        give(world, key, run.token)
        assert isinstance(ended := end(key, run.token), Ended)
        assert ended.status == status
        assert not world.run(key).is_handed_back


def test_a_run_that_was_to_be_cancelled_is_cancelled_by_that(world: World) -> None:
    key = world.timer()
    run = world.must_start(key)
    cancelling.cancel_run(world.ports, key, "not wanted")
    assert isinstance(ended := give(world, key, run.token), Ended)
    assert ended.status == lifecycle.CANCELLED
    asked_after = world.timer()
    give(world, asked_after, world.must_start(asked_after).token)
    assert cancelling.cancel_run(world.ports, asked_after, "nor this").status == lifecycle.CANCELLED
    assert world.outcomes(asked_after) == ["interrupted"]


def test_a_mark_that_an_older_version_has_left_says_nothing_of_a_later_attempt(world: World) -> None:
    """An older version takes over a run that was handed back and does not know the mark."""
    key = world.timer()
    run = world.must_start(key, lease_s=30)
    commit(
        world.ports,
        Update(TIMERS, key.as_item(), Anyway("as it was left"), set={"token": 2, "attempt": 2, "handed_back": 1}),
    )
    assert isinstance(worker_calls.heartbeat(world.ports, key, 2, 60), worker_calls.Beat)
    world.after(61)
    assert world.must_start(key).attempts[-1]["outcome"] == "lost"
    assert run.token == 1


def test_a_beat_past_its_bound_leaves_the_message_to_who_has_taken_the_run_over_with_it(world: World) -> None:
    key = world.timer(max_duration_s=30)
    first = world.must_start(key)
    world.after(31)
    assert world.must_start(key).attempt == 2
    late = worker_calls.heartbeat(world.ports, key, first.token, 60)
    assert isinstance(late, Declined)
    assert (late.reason, late.discard) == ("timed_out", False)


# --- slots --------------------------------------------------------------------------------------------------------


def test_its_slots_are_free_at_once_and_who_waits_is_woken(world: World) -> None:
    limit = (Resource("db", 1),)
    holder, waiter = world.timer(resources=limit), world.timer(resources=limit)
    run = world.must_start(holder, lease_s=900)
    assert isinstance(world.start(waiter), Declined)
    sent = len(world.messages(waiter))
    give(world, holder, run.token)
    assert [row for row in world.store.items(RESOURCES) if "holder" in row] == []
    assert len(world.messages(waiter)) == sent + 1
    world.must_start(waiter)


def test_the_slots_of_a_job_that_may_go_on_are_free_when_it_cannot_any_more(world: World) -> None:
    limit = (Resource("db", 1),)
    holder, waiter = world.timer(resources=limit), world.timer(resources=limit, retry=ONCE)
    run = world.must_start(holder, lease_s=900)
    give(world, holder, run.token, 5)
    assert isinstance(world.start(waiter), Declined)
    world.after(5)
    world.must_start(waiter)
    standing = world.run(holder)
    assert (standing.status, world.outcomes(holder)) == (lifecycle.WAITING, ["interrupted"])
    assert standing.retry_at_ms <= world.clock.at_ms + 1_000, "it waits for no backoff"


def test_a_cancelled_run_whose_job_may_go_on_has_not_ended_and_keeps_its_slots_until_it_cannot(world: World) -> None:
    limit = (Resource("db", 1),)
    holder, waiter = world.timer(resources=limit), world.timer(resources=limit)
    run = world.must_start(holder, lease_s=900)
    cancelling.cancel_run(world.ports, holder, "not wanted")
    assert give(world, holder, run.token, 5) == Ended(lifecycle.RUNNING)
    assert isinstance(world.start(waiter), Declined), "its job may still use what the slot stands for"
    world.after(5)
    world.must_start(waiter)
    assert world.run(holder).status == lifecycle.CANCELLED


def test_the_next_attempt_stands_in_the_ledger_without_the_slots_of_the_last(world: World) -> None:
    """Whatever the definition asks for by then: what it holds is what it has taken."""
    key = world.timer(resources=(Resource("db", 1),))
    world.must_start(key, lease_s=30)
    world.after(31)
    lapsed, request = world.run(key), StartRequest(key, "claim-of-the-next", "w2", 60)
    assert lapsed.slots
    decided = decide_start(lapsed, request, Work("default", "job"), world.clock.at_ms, 86_400)
    assert isinstance(decided, Try)
    world.store.commit(decided.writes)
    assert (world.run(key).attempt, world.run(key).slots) == (2, ())


# --- over HTTP ----------------------------------------------------------------------------------------------------


@pytest.fixture
def api(world: World) -> ApiUnderTest:
    p = world.ports
    world.ports = Ports(p.clock, p.store, p.sender, p.signals, p.ids, p.layout, WorldQueue(world))
    return ApiUnderTest(world.ports)


def lease(api: ApiUnderTest, **more: Any) -> list[dict[str, Any]]:
    status, answer = api.call("POST", "/pools/default:lease", {"worker": "w", "max": 5, "lease_s": 300} | more)
    assert status == 200, answer
    return list(answer["runs"])


def test_of_a_leased_run_the_message_is_visible_at_once(world: World, api: ApiUnderTest) -> None:
    world.timer()
    world.scan()
    (run,) = lease(api)
    assert lease(api) == []
    entry = {name: run[name] for name in ("ref", "token", "receipt")}
    status, answer = api.call("POST", "/runs:release", {"runs": [entry]})
    assert (status, answer["runs"]) == (200, [{"ref": run["ref"], "accepted": True, "status": "running"}])
    (again,) = lease(api)
    assert (again["run_id"], again["attempt"], again["token"]) == (run["run_id"], 2, 2)


def test_or_when_its_job_has_stopped_for_sure(world: World, api: ApiUnderTest) -> None:
    world.timer()
    world.scan()
    (run,) = lease(api)
    entry = {name: run[name] for name in ("ref", "token", "receipt")} | {"stops_in_s": 5}
    api.call("POST", "/runs:release", {"runs": [entry]})
    world.after(4)
    assert lease(api) == []
    world.after(1)
    assert [one["attempt"] for one in lease(api)] == [2]


def test_each_entry_of_a_release_has_its_own_fate(world: World, api: ApiUnderTest) -> None:
    keys = [world.timer() for _ in range(3)]
    held = [{"ref": key.ref, "token": world.must_start(key).token} for key in keys]
    runs = [held[0] | {"token": 9}, held[1], held[2] | {"stops_in_s": 61}]
    answers = api.call("POST", "/runs:release", {"runs": runs})[1]["runs"]
    assert [one.get("reason") for one in answers] == ["stale_token", None, "invalid"]


def test_the_history_shows_it(world: World, api: ApiUnderTest) -> None:
    key = world.timer()
    interrupted(world, key)
    world.complete(key, world.must_start(key).token)
    shown = api.call("GET", f"/timers/{key.job_id}")[1]
    assert (shown["status"], shown["attempt"]) == ("succeeded", 2)
    assert [one["outcome"] for one in shown["attempts"]] == ["interrupted"]
    assert parse_ref(shown["ref"]) == key
