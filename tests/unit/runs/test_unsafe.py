"""`unsafe` jobs (W7): started at most once, whatever is doubled, lost or retried; and loud when lost."""

from __future__ import annotations

import pytest
from tests.support.runs_world import Crash, World

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.work import UNSAFE
from tickwork.core.runs.attempts import Declined
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.runs import dead_letters
from tickwork.flows.runs.dead_letters import Order


def unsafe(world: World) -> LedgerKey:
    return world.timer(idempotency_class=UNSAFE, sign_off={"who": "ann", "why": "a fax"})


def test_a_duplicate_does_not_start_it_twice(world: World) -> None:
    key = unsafe(world)
    world.must_start(key)
    assert world.start(key).reason == "held"


def test_a_lost_one_ends_dead_and_alarms(world: World) -> None:
    key = unsafe(world)
    world.must_start(key)
    world.after(61)
    assert world.start(key) == Declined(lifecycle.DEAD, discard=True)
    run = world.run(key)
    assert (run.status, run.reason, run.attempt) == (lifecycle.DEAD, "lost, not repeated: unsafe", 1)
    assert world.signals.counts["runs.unsafe_not_repeated_total"] == 1


def test_a_failed_one_is_not_repeated_either(world: World) -> None:
    key = unsafe(world)
    assert world.fail(key, world.must_start(key).token).status == lifecycle.DEAD
    assert world.run(key).reason == "failed, not repeated: unsafe"
    assert world.signals.counts["runs.unsafe_not_repeated_total"] == 1


def test_a_lost_reply_to_its_start_is_answered_again_to_the_same_claim_only(world: World) -> None:
    key = unsafe(world)
    world.store.crash_after_commits = 2  # the first try without reading is refused
    with pytest.raises(Crash):
        world.start(key, "claim-of-w1")
    again = world.must_start(key, claim="claim-of-w1")
    assert (again.attempt, again.token) == (1, 1)
    assert world.start(key, "claim-of-w2").reason == "held"


def test_a_lost_one_does_not_claim_that_it_ran(world: World) -> None:
    """Its worker may never have heard that it was to start: the answer was lost, and it then asked no more."""
    key = unsafe(world)
    world.store.crash_after_commits = 2
    with pytest.raises(Crash):
        world.start(key, "claim-of-w1")
    world.after(61)
    world.start(key, "claim-of-w2")
    (attempt,) = world.run(key).attempts
    assert attempt["outcome"] == "lost"
    assert "whether the job ran is not known" in attempt["error"]


@pytest.mark.parametrize("ended", ["failed", "keyed"])
def test_what_is_known_of_an_attempt_is_said_as_it_is(world: World, ended: str) -> None:
    key = unsafe(world) if ended == "failed" else world.timer()
    token = world.must_start(key).token
    if ended == "failed":
        world.fail(key, token)
    else:
        world.after(61)
        world.start(key)
    assert "not known" not in world.run(key).attempts[0]["error"]


def test_a_job_s_occurrence_is_started_once_too(world: World) -> None:
    key = world.until_due(world.job(idempotency_class=UNSAFE, sign_off={"who": "ann", "why": "a fax"}))
    world.must_start(key)
    world.after(61)
    assert world.start(key).reason == lifecycle.DEAD


def test_a_worker_and_a_message_both_gone_are_found_by_the_audit_and_not_repeated(world: World) -> None:
    key = unsafe(world)
    world.must_start(key)
    world.after(1_000)
    world.scan()
    reconcile(world.ports)
    woken = world.message(key)
    assert world.start(key, message=woken).reason == lifecycle.DEAD
    assert world.run(key).attempt == 1


def test_only_a_person_who_says_so_repeats_it_and_once(world: World) -> None:
    key = unsafe(world)
    world.fail(key, world.must_start(key).token)
    order = Order("ann", "the fax was out of paper", 10, world.clock.at_ms)
    assert dead_letters.replay_runs(world.ports, [key], order)[0].refusal == UNSAFE
    known = Order("ann", "the fax was out of paper", 10, world.clock.at_ms, repeat_unsafe=True)
    assert not dead_letters.replay_runs(world.ports, [key], known)[0].refusal
    message = world.until_retry(key)
    run = world.must_start(key, message=message)
    assert run.attempt == 2
    world.after(61)
    assert world.start(key, message=message).reason == lifecycle.DEAD
