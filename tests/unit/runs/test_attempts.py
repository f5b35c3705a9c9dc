"""May this claim start the run: each state of the run, and what the answer says about the message."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.work import RetryPolicy, Work
from tickwork.core.runs import attempts
from tickwork.core.runs.attempts import Declined, Granted, StartRequest, Try
from tickwork.core.runs.endings import retry_key

NOW_MS = 1_793_318_400_000
KEY = LedgerKey("main", 0, NOW_MS, "pay", "x", NOW_MS)
WORK = Work("default", "job", retry=RetryPolicy(max_attempts=2))
REQUEST = StartRequest(KEY, "claim", "worker", 30)
RUNNING = Run(KEY, lifecycle.RUNNING, work=WORK, attempt=1, token=1, claim="other", lease_until_ms=NOW_MS + 1)


def decide(run: Run | None, request: StartRequest = REQUEST) -> Granted | Declined | Try:
    return attempts.decide_start(run, request, WORK, NOW_MS, 60)


@pytest.mark.parametrize("status", sorted(lifecycle.ENDED - {lifecycle.SPENT}))
def test_the_message_of_a_run_that_has_ended_is_discarded(status: str) -> None:
    assert decide(Run(KEY, status, work=WORK)) == Declined(status, discard=True)


def test_the_message_of_a_run_that_nobody_knows_is_discarded() -> None:
    assert decide(None) == Declined("unknown", discard=True)


def test_the_message_of_a_claim_lost_to_a_live_attempt_is_kept() -> None:
    """The winner may die: then this message, or its own, starts the next attempt."""
    assert decide(RUNNING) == Declined("held", discard=False, retry_after_ms=1)


def test_a_claim_that_was_granted_before_is_granted_again() -> None:
    run = replace(RUNNING, claim=REQUEST.claim)
    assert decide(run) == Granted(run)


def test_a_pending_run_is_started_as_attempt_one_with_token_one() -> None:
    decision = decide(Run(KEY, work=WORK))
    assert isinstance(decision, Try)
    (write,) = decision.writes
    assert (write.set["status"], write.set["attempt"], write.set["token"]) == ("running", 1, 1)
    assert write.set["lease_until_ms"] == NOW_MS + 30_000


def test_a_lapsed_attempt_is_recorded_as_lost_by_the_start_of_the_next() -> None:
    decision = decide(replace(RUNNING, lease_until_ms=NOW_MS))
    assert isinstance(decision, Try)
    write = decision.writes[0]
    assert (write.set["attempt"], write.set["token"]) == (2, 2)
    assert [record["outcome"] for record in write.append["attempts"]] == ["lost"]


def test_a_lapsed_last_attempt_ends_the_run() -> None:
    decision = decide(replace(RUNNING, attempt=2, token=2, lease_until_ms=NOW_MS))
    assert isinstance(decision, Try)
    assert decision.ends == lifecycle.DEAD


def test_a_waiting_run_starts_only_by_the_message_of_its_retry() -> None:
    waiting = Run(KEY, lifecycle.WAITING, work=WORK, attempt=1, token=1)
    assert decide(waiting) == Declined("superseded", discard=True)
    retry = retry_key(KEY, NOW_MS + 5_000, 2)
    decision = decide(waiting, replace(REQUEST, attempt=2, retry=retry))
    assert isinstance(decision, Try)
    start, spend = decision.writes
    assert (start.set["attempt"], start.set["token"]) == (2, 2)
    assert (spend.key, spend.set["status"]) == (retry.as_item(), lifecycle.SPENT)


def test_the_message_of_an_earlier_retry_is_superseded() -> None:
    waiting = Run(KEY, lifecycle.WAITING, work=WORK, attempt=2, token=2)
    stale = replace(REQUEST, attempt=2, retry=retry_key(KEY, NOW_MS, 2))
    assert decide(waiting, stale) == Declined("superseded", discard=True)


def test_a_stale_token_is_told_from_a_run_that_has_ended() -> None:
    assert attempts.stale(RUNNING) == Declined("stale_token", discard=False)
    assert attempts.stale(replace(RUNNING, status="succeeded")) == Declined("succeeded", discard=True)
