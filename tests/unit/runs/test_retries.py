"""Retries (W5): by the job's policy, spread, never lost and never for ever."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs_world import Crash, World

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.work import RetryPolicy
from tickwork.core.runs.retrying import RETRY_AFTER_S_MAX, asked_wait_ms, backoff_ms, is_worth_repeating
from tickwork.flows.audit.reconciling import reconcile

POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 50),
    base_s=st.integers(1, 3_600),
    cap_s=st.integers(1, 86_400),
    jitter_percent=st.integers(0, 100),
)


@given(POLICIES, st.integers(0, 10**9), st.text(max_size=8))
def test_a_backoff_never_overflows_and_stays_within_its_jitter(policy: RetryPolicy, attempt: int, run_id: str) -> None:
    whole_ms = min(policy.base_s * 2 ** min(attempt, 60), policy.cap_s) * SECOND_MS
    low, high = 100 - policy.jitter_percent, 100 + policy.jitter_percent
    assert whole_ms * low // 100 <= backoff_ms(run_id, attempt, policy) <= whole_ms * high // 100


@given(POLICIES, st.integers(1, 600), st.integers(-5, 10**12))
def test_a_retry_after_is_never_shortened_and_capped_at_a_day(policy: RetryPolicy, attempt: int, asked_s: int) -> None:
    wait_ms = asked_wait_ms("r", attempt, policy, asked_s)
    capped_ms = min(max(asked_s, 0), RETRY_AFTER_S_MAX) * SECOND_MS
    assert capped_ms <= wait_ms <= 2 * capped_ms


def test_the_retry_echo_of_a_herd_is_spread_over_the_whole_jitter() -> None:
    waits = sorted(backoff_ms(f"run-{i}", 1, RetryPolicy()) for i in range(1_000))
    assert waits[0] < 49_000
    assert waits[-1] > 71_000
    assert max(b - a for a, b in pairwise(waits)) < 500


@dataclass(frozen=True)
class Named:
    policy: RetryPolicy
    error_class: str
    again: bool


@pytest.mark.parametrize(
    "case",
    [
        Named(RetryPolicy(), "ValueError", True),
        Named(RetryPolicy(no_retry_on=("ValueError",)), "ValueError", False),
        Named(RetryPolicy(no_retry_on=("ValueError",)), "shop.errors.ValueError", False),
        Named(RetryPolicy(no_retry_on=("shop.Gone",)), "other.Gone", True),
        Named(RetryPolicy(retry_on=("TimeoutError",)), "TimeoutError", True),
        Named(RetryPolicy(retry_on=("TimeoutError",)), "KeyError", False),
        Named(RetryPolicy(retry_on=("TimeoutError",)), "", True),
        Named(RetryPolicy(retry_on=("E",), no_retry_on=("E",)), "E", False),
    ],
)
def test_the_error_class_decides_whether_an_attempt_is_repeated(case: Named) -> None:
    assert is_worth_repeating(case.policy, case.error_class) is case.again


def test_a_failed_attempt_comes_again_as_the_next_attempt_of_the_same_run(world: World) -> None:
    key = world.timer()
    first = world.must_start(key)
    ended = world.fail(key, first.token, error_class="KeyError")
    assert ended.status == lifecycle.WAITING
    second = world.must_start(key, message=world.until_retry(key))
    assert (second.attempt, second.token, second.run_id) == (2, 2, first.run_id)
    assert second.attempts[0]["error_class"] == "KeyError"


def test_a_policy_of_the_job_overrides_the_default(world: World) -> None:
    key = world.timer(retry=RetryPolicy(max_attempts=2, base_s=1, jitter_percent=0))
    run = world.must_start(key)
    assert world.fail(key, run.token).retry_at_ms == world.clock.at_ms + 2_000
    run = world.must_start(key, message=world.until_retry(key))
    assert world.fail(key, run.token).status == lifecycle.DEAD
    assert world.run(key).reason == "out of attempts (2)"


def test_an_error_class_that_is_not_retried_ends_the_run_at_once(world: World) -> None:
    key = world.timer(retry=RetryPolicy(no_retry_on=("BadAddress",)))
    run = world.must_start(key)
    assert world.fail(key, run.token, error_class="shop.BadAddress").status == lifecycle.DEAD
    assert world.run(key).reason == "failed for good: shop.BadAddress is not retried"


def test_a_job_s_policy_is_read_from_its_definition(world: World) -> None:
    key = world.until_due(world.job(every_s=60, retry=RetryPolicy(max_attempts=1)))
    run = world.must_start(key)
    assert world.fail(key, run.token).status == lifecycle.DEAD


def test_a_retry_after_is_honoured_over_a_shorter_backoff(world: World) -> None:
    key = world.timer(retry=RetryPolicy(base_s=1, jitter_percent=0))
    run = world.must_start(key)
    assert world.fail(key, run.token, retry_after_s=900).retry_at_ms == world.clock.at_ms + 900_000


def test_lost_attempts_count(world: World) -> None:
    key = world.timer(retry=RetryPolicy(max_attempts=2))
    world.must_start(key)
    world.after(61)
    assert world.must_start(key).attempt == 2
    world.after(61)
    declined = world.start(key)
    assert (declined.reason, declined.discard) == (lifecycle.DEAD, True)
    assert world.outcomes(key) == ["lost", "lost"]
    assert world.signals.counts["runs.dead_lettered_total"] == 1


def test_a_crash_after_the_failure_was_written_loses_no_retry(world: World) -> None:
    """no-lost-timer: the worker repeats the call, or the audit finds the item behind the cursor."""
    key = world.timer(retry=RetryPolicy(base_s=1))
    run = world.must_start(key)
    world.scan()
    world.store.crash_after_commits = 1
    with pytest.raises(Crash):
        world.fail(key, run.token)
    again = world.fail(key, run.token)
    assert again.status == lifecycle.WAITING
    assert len(world.run(key).attempts) == 1
    world.after(700)
    world.scan()
    reconcile(world.ports)
    assert world.must_start(key, message=world.message(key)).attempt == 2


def test_a_failure_is_refused_when_the_lease_went_to_another(world: World) -> None:
    key = world.timer()
    late = world.must_start(key)
    world.after(61)
    world.must_start(key)
    assert world.fail(key, late.token).reason == "stale_token"
    assert world.complete(key, late.token).reason == "stale_token"


def test_an_ordinary_one_shot_is_written_three_times_and_stays_under_a_kilobyte(world: World) -> None:
    world.timer(delay_s=5)  # the first of its second brings the tick, and notes it
    world.store.commits.clear()
    key = world.timer(delay_s=5)
    world.after(5)
    before = world.store.reads
    run = world.must_start(key)
    world.complete(key, run.token)
    assert [len(writes) for writes in world.store.commits] == [1, 1, 1]
    assert world.store.reads == before
    assert len(str(world.item(key))) < 1_000
