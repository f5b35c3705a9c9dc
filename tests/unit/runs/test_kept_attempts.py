"""The attempts of a run over its whole life: which policies judge them, and what its item keeps of them."""

from __future__ import annotations

import json

from tests.support.runs_world import World

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.work import RetryPolicy
from tickwork.core.runs.attempts import Declined
from tickwork.core.runs.replays import REPLAYS_MAX
from tickwork.flows.runs import dead_letters


def test_the_same_claim_asked_again_after_its_lease_lapsed_is_judged_by_the_run_s_own_policies(world: World) -> None:
    key = world.timer(retry=RetryPolicy(max_attempts=1))
    world.must_start(key, claim="claim-of-one")
    world.after(61)
    again = world.start(key, claim="claim-of-one")
    assert isinstance(again, Declined)
    assert (again.reason, again.discard) == (lifecycle.DEAD, True)
    assert world.outcomes(key) == ["lost"]


def test_a_run_of_hundreds_of_long_failures_stays_small_and_says_how_many_there_were(world: World) -> None:
    """Ten replays of fifty attempts, each with the longest error: all of them would be more than an item may have."""
    key = world.timer(retry=RetryPolicy(max_attempts=50, base_s=1, cap_s=1))
    run = world.must_start(key)
    for replay in range(REPLAYS_MAX + 1):
        for attempt in range(50):
            error = f"{run.attempt} " + "\U0001f4a5" * 1_000
            world.fail(key, run.token, error, error_class="m" * 80)
            if attempt < 49:
                run = world.must_start(key, message=world.until_retry(key))
        if replay < REPLAYS_MAX:
            order = dead_letters.Order("anna", "r" * 200, 1, world.clock.at_ms)
            dead_letters.replay_runs(world.ports, [key], order)
            run = world.must_start(key, message=world.until_retry(key))
    ended = world.run(key)
    assert (ended.status, ended.attempt) == (lifecycle.DEAD, 550)
    numbers = [record["attempt"] for record in ended.attempts]
    assert numbers == [1, 2, 3, *range(544, 551)]
    assert ended.attempts[-1]["error"].startswith("550 \U0001f4a5")
    assert ended.attempts[0]["error"].startswith("1 \U0001f4a5")
    assert len(json.dumps(world.item(key), ensure_ascii=False).encode()) < 12_000


def test_an_ordinary_run_s_failures_are_kept_whole(world: World) -> None:
    key = world.timer(retry=RetryPolicy(max_attempts=9, base_s=1))
    run = world.must_start(key)
    for _ in range(9):
        world.fail(key, run.token, f"boom {run.attempt} " + "x" * 100)
        if run.attempt < 9:
            run = world.must_start(key, message=world.until_retry(key))
    errors = [record["error"] for record in world.run(key).attempts]
    assert errors == [f"boom {n} " + "x" * 100 for n in range(1, 10)]
