"""Work that outgrows its lease, holders that wake too late (W2 to W4; cases LEASE-01 and LEASE-03)."""

from __future__ import annotations

from typing import Any

from tests.scenarios.stage import NOW_MS, Stage
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.runs.attempts import Declined
from tickwork.flows.dispatch import leasing
from tickwork.flows.runs import worker_calls
from tickwork.ports import Layout

LEASE_S = 60


def one_report_due() -> tuple[Stage, LedgerKey, dict[str, Any]]:
    stage = Stage(Layout(shards=1, slices=1, pools=("default",)))
    (key,) = stage.timers(1, NOW_MS, lease_s=LEASE_S)
    stage.at_ms += SECOND_MS
    stage.process().window()
    (body,) = stage.bodies()
    return stage, key, body


def start(stage: Stage, body: dict[str, Any], worker: str) -> Run:
    started = worker_calls.start(stage.process().ports, stage.start_request(body, worker=worker))
    assert isinstance(started, worker_calls.Started), started
    return started.run


def refused(stage: Stage, body: dict[str, Any]) -> Declined:
    declined = worker_calls.start(stage.process().ports, stage.start_request(body))
    assert isinstance(declined, Declined)
    return declined


def test_a_report_that_outgrows_its_lease_with_heartbeats_has_one_copy() -> None:
    """Six times its lease, a heartbeat every third of it, and its message received by others all the while."""
    stage, key, body = one_report_due()
    first = start(stage, body, "w1")
    turned_away = 0
    for _ in range(6 * 3):
        stage.at_ms += LEASE_S * SECOND_MS // 3
        beat = worker_calls.heartbeat(stage.process().ports, key, first.token, LEASE_S)
        assert isinstance(beat, worker_calls.Beat)
        declined = refused(stage, body)
        assert (declined.reason, declined.discard) == ("held", False), "its message stays: the holder may die"
        turned_away += 1
    assert isinstance(worker_calls.complete(stage.process().ports, key, first.token), worker_calls.Ended)
    run = stage.run(key)
    assert (run.status, run.attempt, run.attempts) == ("succeeded", 1, ())
    assert turned_away == 18
    assert refused(stage, body).discard, "now the message is of no more use"


def test_without_heartbeats_the_second_attempt_starts_only_after_the_first_was_recorded_lost() -> None:
    stage, key, body = one_report_due()
    first = start(stage, body, "w1")
    lease_ends_ms = first.lease_until_ms
    while stage.at_ms < lease_ends_ms:
        declined = refused(stage, body)
        assert declined.reason == "held"
        assert declined.retry_after_ms == lease_ends_ms - stage.at_ms, "and the other is told when to come again"
        stage.at_ms += SECOND_MS
    second = start(stage, body, "w2")
    assert (second.attempt, second.token) == (2, first.token + 1)
    (lost,) = second.attempts
    assert (lost["attempt"], lost["outcome"], lost["worker"]) == (1, "lost", "w1")
    assert lost["ended_at_ms"] <= second.started_at_ms, "recorded in the very write that starts the second"

    late = worker_calls.complete(stage.process().ports, key, first.token)
    assert isinstance(late, Declined)
    assert (late.reason, late.discard) == ("stale_token", False)
    assert isinstance(worker_calls.complete(stage.process().ports, key, second.token), worker_calls.Ended)
    run = stage.run(key)
    assert (run.status, run.attempt, run.worker) == ("succeeded", 2, "w2")
    assert run.run_id == first.run_id


def test_a_worker_frozen_past_its_lease_is_refused_in_all_it_says() -> None:
    """LEASE-03: W1 claims at 0 s, stops at 5; W2 reclaims at 61 and succeeds at 70; W1 wakes at 90."""
    stage, key, body = one_report_due()
    began_ms = stage.at_ms
    w1 = start(stage, body, "w1")
    stage.at_ms = began_ms + 61 * SECOND_MS
    w2 = start(stage, body, "w2")
    assert (w1.token, w2.token) == (1, 2)
    stage.at_ms = began_ms + 70 * SECOND_MS
    assert isinstance(worker_calls.complete(stage.process().ports, key, w2.token), worker_calls.Ended)
    ended = stage.run(key)

    stage.at_ms = began_ms + 90 * SECOND_MS
    ports = stage.process().ports
    answers = [
        worker_calls.complete(ports, key, w1.token),
        worker_calls.heartbeat(ports, key, w1.token, LEASE_S),
        worker_calls.fail(ports, key, w1.token, "boom", permanent=False),
    ]
    assert all(isinstance(answer, Declined) for answer in answers)
    assert stage.run(key) == ended
    assert [one["outcome"] for one in ended.attempts] == ["lost"]
    assert (ended.status, ended.worker) == ("succeeded", "w2")


def test_a_holder_that_was_cut_off_can_neither_renew_nor_release_nor_advance_what_is_anothers() -> None:
    """LEASE-01: A holds with one token, B takes over with the next, A returns and renews."""
    stage, _, _ = one_report_due()
    stage.at_ms += SECOND_MS
    cut_off, other = stage.process(), stage.process()
    a = leasing.take(cut_off.ports, 0, stage.second, "A")
    assert isinstance(a, leasing.Holding)
    stage.at_ms += 10 * SECOND_MS
    b = leasing.take(other.ports, 0, stage.second, "B")
    assert isinstance(b, leasing.Holding)
    assert b.lease.token == a.lease.token + 1
    standing = stage.lease()

    cut_off.frozen_ms = 10 * SECOND_MS  # it does not even know that time has passed
    cut_off.frozen_ms -= 4 * SECOND_MS  # but it is time to renew
    assert not leasing.keep(cut_off.ports, a)
    assert not leasing.advance(cut_off.ports, a, stage.second, release=True)
    leasing.give_back(cut_off.ports, a)
    assert stage.lease() == standing, "B is undisturbed"
    assert leasing.advance(other.ports, b, stage.second, release=True)
    assert stage.signals.counts["scheduler.dispatch_rejected_stale_token_total"] == 1


def test_a_renewal_that_took_long_is_trusted_from_when_it_was_asked_for() -> None:
    """F4: the lease it grants began before the answer came, and others may take the slice when that has lapsed."""
    stage, _, _ = one_report_due()
    stage.at_ms += SECOND_MS
    slow = stage.process()
    held = leasing.take(slow.ports, 0, stage.second, "A")
    assert isinstance(held, leasing.Holding)
    stage.at_ms += 4 * SECOND_MS
    slow.after(lambda call: call.verb == "commit", lambda: slow.pause(8_500))
    assert not leasing.keep(slow.ports, held), "it was renewed, eight and a half seconds ago"
    assert not held.is_refused
    stage.at_ms += 2 * SECOND_MS
    assert isinstance(leasing.take(stage.process().ports, 0, stage.second, "B"), leasing.Holding)


def test_a_wall_clock_set_back_by_two_hours_lengthens_no_trust_in_a_lease() -> None:
    """LEASE-05: trust is measured on the monotonic clock; the wall clock only says when to try."""
    stage, _, _ = one_report_due()
    stage.at_ms += SECOND_MS
    owner = stage.process()
    held = leasing.take(owner.ports, 0, stage.second, "A")
    assert isinstance(held, leasing.Holding)
    owner.skew_ms = -7_200 * SECOND_MS
    assert held.is_sure(owner.ports)
    stage.at_ms += 8 * SECOND_MS
    assert not held.is_sure(owner.ports)
