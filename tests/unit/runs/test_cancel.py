"""Cancelling a run wherever it stands (W11): nothing starts after the answer, and the worker learns of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.runs_world import Crash, World

from tickwork.core.errors import NotFound, TooLate
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key
from tickwork.core.ledger.tables import JOBS, LEASES, TIMERS
from tickwork.core.ledger.work import RetryPolicy
from tickwork.core.ledger.writes import Anyway, Delete, Update
from tickwork.core.runs.attempts import Declined
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.jobs import changing, registering
from tickwork.flows.runs import cancelling, naming, worker_calls
from tickwork.flows.runs.worker_calls import Beat


def cancel(world: World, key: LedgerKey) -> cancelling.Cancelled:
    return cancelling.cancel_run(world.ports, key, "not needed any more")


def beat(world: World, key: LedgerKey, token: int) -> Beat | Declined:
    return worker_calls.heartbeat(world.ports, key, token, 60)


def test_a_pending_run_is_cancelled_and_never_starts(world: World) -> None:
    key = world.timer(delay_s=5)
    assert cancel(world, key).status == lifecycle.CANCELLED
    world.after(5)
    assert world.start(key) == Declined(lifecycle.CANCELLED, discard=True)


def test_cancelling_again_is_a_no_op(world: World) -> None:
    key = world.timer(delay_s=5)
    cancel(world, key)
    commits = len(world.store.commits)
    assert cancel(world, key).status == lifecycle.CANCELLED
    assert len(world.store.commits) == commits


def test_cancelling_the_pending_occurrence_of_a_job_moves_its_chain_on(world: World) -> None:
    job_id = world.job(every_s=3600)
    key = world.next_key(job_id)
    cancel(world, key)
    following = world.next_key(job_id)
    assert following.scheduled_at_ms == key.scheduled_at_ms + 3_600_000
    assert world.run(key).status == lifecycle.CANCELLED
    assert world.run(following).status == lifecycle.PENDING
    assert reconcile(world.ports).without_next == 0


def test_a_crash_after_the_chain_was_moved_leaves_a_next_item_that_is_found(world: World) -> None:
    job_id = world.job(every_s=60)
    key = world.next_key(job_id)
    world.store.crash_after_commits = 1
    with pytest.raises(Crash):
        cancel(world, key)
    assert world.messages(world.until_due(job_id))


def test_a_repeated_cancellation_sees_to_what_the_first_has_put_next(world: World) -> None:
    """no-lost-timer: the first call died before it had looked whether a window has passed the next occurrence."""
    job_id = world.job(every_s=60)
    key = world.next_key(job_id)
    world.store.crash_after_commits = 1
    with pytest.raises(Crash):
        cancel(world, key)
    passed = {"closing": key.fire_second + 60, "done": key.fire_second + 60}
    for lease in world.store.items(LEASES):
        world.store.commit([Update(LEASES, {"slice": lease["slice"]}, Anyway("another clock is ahead"), set=passed)])
    following = world.next_key(job_id)
    assert cancel(world, key).status == lifecycle.CANCELLED
    assert world.messages(following)


def test_a_dispatched_occurrence_is_cancelled_without_touching_the_chain(world: World) -> None:
    job_id = world.job()
    key = world.until_due(job_id)
    following = world.next_key(job_id)
    assert cancel(world, key).status == lifecycle.CANCELLED
    assert world.next_key(job_id) == following
    assert world.start(key).discard


def test_a_waiting_run_is_cancelled_with_its_retry_item(world: World) -> None:
    key = world.timer()
    world.fail(key, world.must_start(key).token)
    cancel(world, key)
    assert {item["status"] for item in world.store.items(TIMERS)} == {lifecycle.CANCELLED, lifecycle.SPENT}
    world.after(7_200)
    sent = len(world.outbox.sent)
    world.scan()
    assert len(world.outbox.sent) == sent


def test_a_retry_already_dispatched_dies_at_start(world: World) -> None:
    key = world.timer()
    world.fail(key, world.must_start(key).token)
    message = world.until_retry(key)
    cancel(world, key)
    assert world.start(key, message=message) == Declined(lifecycle.CANCELLED, discard=True)


def test_a_running_attempt_learns_of_it_with_its_next_heartbeat(world: World) -> None:
    key = world.timer()
    run = world.must_start(key)
    assert beat(world, key, run.token) == Beat(world.clock.at_ms + 60_000, cancel=False)
    assert cancel(world, key).requested
    assert beat(world, key, run.token).cancel
    ended = worker_calls.acknowledge_cancel(world.ports, key, run.token)
    assert ended.status == lifecycle.CANCELLED
    assert world.outcomes(key) == ["cancelled"]
    assert world.run(key).reason == "not needed any more"
    assert worker_calls.acknowledge_cancel(world.ports, key, run.token) == ended


def test_a_run_that_succeeds_before_it_learns_of_it_has_succeeded(world: World) -> None:
    key = world.timer()
    run = world.must_start(key)
    cancel(world, key)
    assert world.complete(key, run.token).status == lifecycle.SUCCEEDED
    with pytest.raises(TooLate):
        cancel(world, key)


def test_a_run_that_fails_after_it_was_asked_to_stop_is_not_tried_again(world: World) -> None:
    key = world.timer()
    run = world.must_start(key)
    cancel(world, key)
    assert world.fail(key, run.token).status == lifecycle.CANCELLED


def test_a_request_that_comes_between_reading_and_writing_a_failure_is_not_lost(world: World) -> None:
    """cancelled-stays: the failure's write is conditional on what it was decided from."""
    key = world.timer()
    run = world.must_start(key)
    world.store.before_commit = lambda: cancel(world, key)
    assert world.fail(key, run.token).status == lifecycle.CANCELLED


def test_a_worker_that_died_after_the_request_is_not_followed_by_another(world: World) -> None:
    key = world.timer()
    world.must_start(key)
    cancel(world, key)
    world.after(61)
    assert world.start(key) == Declined(lifecycle.CANCELLED, discard=True)
    assert world.outcomes(key) == ["lost"]


def test_a_run_whose_worker_is_gone_already_is_cancelled_at_once(world: World) -> None:
    key = world.timer()
    run = world.must_start(key)
    world.after(61)
    assert cancel(world, key).status == lifecycle.CANCELLED
    assert beat(world, key, run.token).reason == lifecycle.CANCELLED
    assert world.complete(key, run.token).reason == lifecycle.CANCELLED


def test_a_request_between_reading_and_reclaiming_stops_the_next_attempt(world: World) -> None:
    key = world.timer()
    world.must_start(key)
    world.after(61)
    first_refusal = len(world.store.commits)
    world.store.before_commit = lambda: None
    original = world.store.commit

    def interfere(writes: object) -> object:
        if len(world.store.commits) == first_refusal + 1:
            world.store.commit = original
            cancel(world, key)
        return original(writes)

    world.store.commit = interfere
    assert world.start(key).reason == lifecycle.CANCELLED


def test_a_worker_can_not_cancel_what_nobody_asked_it_to(world: World) -> None:
    key = world.timer()
    run = world.must_start(key)
    assert worker_calls.acknowledge_cancel(world.ports, key, run.token).reason == "not_cancelled"
    assert world.run(key).status == lifecycle.RUNNING


def test_a_run_of_a_job_is_found_by_its_nominal_time(world: World) -> None:
    job_id = world.job()
    key = world.until_due(job_id)
    assert naming.find_run(world.ports, job_id, key.scheduled_at_ms) == key
    with pytest.raises(NotFound):
        naming.find_run(world.ports, job_id, key.scheduled_at_ms - 1_000)


# --- an index that lags ---------------------------------------------------------------------------------------


class Lagging:
    """The index as it was when this was made."""

    def __init__(self, world: World) -> None:
        rows = [item for item in world.store.items(TIMERS) if "job_id" in item]
        self.rows = [{name: item[name] for name in ("job_id", "scheduled_at_ms", "pk", "sk")} for item in rows]
        world.store.query_index = self  # type: ignore[assignment]

    def __call__(self, *_: object, **__: object) -> tuple[list[dict[str, object]], None]:
        return list(self.rows), None


def move(world: World, job_id: str, tolerance_s: int) -> None:
    """Change the job so that its pending occurrence, of the same nominal time, gets another item."""
    job = registering.get_job(world.ports, job_id)
    team, name = job_id.split(":")
    new = registering.NewJob(team, name, job.schedule, job.work, tolerance_s, CatchUp(), f"with {tolerance_s}")
    changing.update_job(world.ports, job_id, job.version, lambda _: new)


def starts(world: World, job_id: str, at_ms: int) -> list[object]:
    """Starts of all items of that nominal time, when they are due."""
    world.after(4_000)
    world.scan()
    items = [i for i in world.store.items(TIMERS) if i.get("job_id") == job_id and i["scheduled_at_ms"] == at_ms]
    return [world.start(parse_ledger_key(item["pk"], item["sk"])) for item in items]


def test_a_run_that_a_change_has_moved_is_cancelled_also_while_the_index_shows_its_old_item(world: World) -> None:
    job_id = world.job()
    key = world.next_key(job_id)
    Lagging(world)
    move(world, job_id, 600)
    moved = world.next_key(job_id)
    assert (moved.scheduled_at_ms, moved == key) == (key.scheduled_at_ms, False)
    found = naming.find_run(world.ports, job_id, key.scheduled_at_ms)
    assert cancel(world, found).run.key == moved
    assert all(isinstance(one, Declined) for one in starts(world, job_id, key.scheduled_at_ms))


def test_it_is_cancelled_also_when_it_has_just_been_fired(world: World) -> None:
    job_id = world.job()
    key = world.next_key(job_id)
    Lagging(world)
    move(world, job_id, 600)
    moved = world.until_due(job_id)
    found = naming.find_run(world.ports, job_id, key.scheduled_at_ms)
    assert found == moved
    assert cancel(world, found).status == lifecycle.CANCELLED
    assert all(isinstance(one, Declined) for one in starts(world, job_id, key.scheduled_at_ms))


@pytest.mark.parametrize("when", ["before", "fired"])
def test_a_run_that_is_moved_between_being_found_and_cancelled_is_cancelled_where_it_is(
    world: World, when: str
) -> None:
    job_id = world.job()
    found = naming.find_run(world.ports, job_id, world.next_key(job_id).scheduled_at_ms)
    move(world, job_id, 600)
    if when == "fired":
        world.until_due(job_id)
    assert cancel(world, found).run.key != found
    assert all(isinstance(one, Declined) for one in starts(world, job_id, found.scheduled_at_ms))


def test_a_moved_run_that_has_succeeded_is_too_late_to_cancel_not_cancelled(world: World) -> None:
    job_id = world.job()
    old = world.next_key(job_id)
    move(world, job_id, 600)
    key = world.until_due(job_id)
    world.complete(key, world.must_start(key).token)
    with pytest.raises(TooLate):
        cancel(world, old)


# --- max_duration_s -------------------------------------------------------------------------------------------


def test_a_heartbeat_after_the_longest_duration_is_declined_and_the_attempt_retried(world: World) -> None:
    key = world.timer(max_duration_s=100, retry=RetryPolicy(base_s=1, jitter_percent=0))
    run = world.must_start(key)
    world.after(50)
    assert beat(world, key, run.token) == Beat(run.started_at_ms + 100_000)
    world.after(50)
    assert beat(world, key, run.token) == Declined("timed_out", discard=True)
    assert beat(world, key, run.token) == Declined("timed_out", discard=True)
    assert world.outcomes(key) == ["timed_out"]
    assert world.complete(key, run.token).reason == "stale_token"
    assert world.must_start(key, message=world.until_retry(key)).attempt == 2


class LosesTheReply:
    """A store that carries out the end of an attempt, and refuses it: its reply was lost, and it was sent again."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, writes: Any) -> Any:
        result = self._inner.commit(writes)
        ends = isinstance(writes[0], Update) and writes[0].set.get("status") == lifecycle.WAITING
        return self._inner.commit(writes) if ends else result


def test_a_time_out_whose_reply_was_lost_sees_to_the_retry_that_it_has_written(world: World) -> None:
    key = world.timer(max_duration_s=100, retry=RetryPolicy(base_s=1, jitter_percent=0))
    run = world.must_start(key)
    world.after(100)
    ahead_s = world.clock.at_ms // 1000 + 10
    passed = {"closing": ahead_s, "done": ahead_s}
    for lease in world.store.items(LEASES):
        world.store.commit([Update(LEASES, {"slice": lease["slice"]}, Anyway("another clock is ahead"), set=passed)])
    ports = replace(world.ports, store=LosesTheReply(world.store))
    assert worker_calls.heartbeat(ports, key, run.token, 60) == Declined("timed_out", discard=True)
    assert world.message(key)["attempt"] == 2, "a window that has passed it will not send it"


def test_a_lease_never_lasts_beyond_the_longest_duration(world: World) -> None:
    """one-attempt-running: by the time the attempt is given up, its worker's lease has lapsed."""
    key = world.timer(max_duration_s=40)
    assert world.must_start(key, lease_s=900).lease_until_ms == world.clock.at_ms + 40_000


def test_an_attempt_that_never_beats_again_is_recorded_as_timed_out_by_the_next_start(world: World) -> None:
    key = world.until_due(world.job(max_duration_s=40))
    first = world.must_start(key)
    world.after(40)
    assert world.must_start(key).attempt == 2
    assert world.outcomes(key) == ["timed_out"]
    # W2: the second attempt came by a copy of the first one's message, which must bring the run back if it is lost.
    assert beat(world, key, first.token) == Declined("timed_out", discard=False)


def test_a_time_out_beyond_the_last_attempt_ends_the_run(world: World) -> None:
    key = world.timer(max_duration_s=40, retry=RetryPolicy(max_attempts=1))
    run = world.must_start(key)
    world.after(41)
    assert beat(world, key, run.token).reason == "timed_out"
    assert (world.run(key).status, world.run(key).reason) == (lifecycle.DEAD, "timed_out")


def test_a_start_of_a_limited_run_without_its_definition_waits(world: World) -> None:
    job_id = world.job(max_duration_s=40)
    key = world.until_due(job_id)
    world.store.commit([Delete(JOBS, {"job_id": job_id}, Anyway("a tombstone that has expired"))])
    declined = world.start(key)
    assert (declined.reason, declined.discard) == ("no_definition", False)
