"""`start_within_s`: a run that says by when it has to start is not started later; its message dies there."""

from __future__ import annotations

import pytest
from tests.support.runs_world import World

from tickwork.core.ledger import deadlines
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import PASSES
from tickwork.core.ledger.work import Resource, RetryPolicy, Work
from tickwork.core.runs.attempts import Declined
from tickwork.flows.audit import mending, reconciling
from tickwork.flows.audit.repairs import Repairs
from tickwork.flows.jobs import changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import dead_letters

WHY = "not started within 30 s of its time (start_within_s)"
LIMITS = [{}, {"max_duration_s": 600}, {"resources": (Resource("db", 1),)}]


@pytest.fixture
def world() -> World:
    return World()


def ended(world: World, key: LedgerKey) -> tuple[str, str]:
    run = world.run(key)
    return run.status, run.reason


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_a_start_in_the_last_moment_passes_and_one_after_it_ends_the_run(
    world: World, limit: dict[str, object]
) -> None:
    first, second = (world.timer(start_within_s=30, **limit) for _ in range(2))
    world.clock.at_ms = first.fire_at_ms + 30_000
    token = world.must_start(first).token
    world.complete(first, token)
    world.clock.at_ms += 1
    assert world.start(second) == Declined("expired", discard=True)
    assert ended(world, second) == ("expired", WHY)
    assert world.start(second) == Declined("expired", discard=True), "its other messages die too"


def test_a_start_in_time_reads_and_writes_what_one_without_a_deadline_does(world: World) -> None:
    calls = []
    for within_s in (0, 30):
        key = world.timer(start_within_s=within_s)
        reads, commits = world.store.reads, len(world.store.commits)
        world.must_start(key)
        calls.append((world.store.reads - reads, [len(one) for one in world.store.commits[commits:]]))
    assert calls == [(0, [1]), (0, [1])]


def test_what_was_started_once_has_met_its_deadline(world: World) -> None:
    """Retries, replays and lost attempts begin later, whenever that is."""
    failing = world.timer(start_within_s=30, retry=RetryPolicy(2, 60, 60, 0))
    world.fail(failing, world.must_start(failing).token)
    run = world.must_start(failing, message=world.until_retry(failing))
    world.fail(failing, run.token)
    assert world.run(failing).status == "dead"
    dead_letters.replay_runs(world.ports, [failing], dead_letters.Order("ops", "again", 10, world.clock.at_ms))
    world.must_start(failing, message=world.until_retry(failing))

    lost = world.timer(start_within_s=30)
    world.must_start(lost, lease_s=30)
    world.after(3_600)
    assert world.must_start(lost).attempt == 2


def test_an_occurrence_that_fires_late_counts_from_its_fire_time_and_ends_with_its_chain_moved_on(world: World) -> None:
    job_id = world.job(start_within_s=30)
    key = world.next_key(job_id)
    world.clock.at_ms = key.fire_at_ms + 31_000
    world.scan()
    assert world.start(key, message=world.message(key)) == Declined("expired", discard=True)
    assert ended(world, key) == ("expired", WHY)
    assert world.run(world.next_key(job_id)).start_by_ms == world.next_key(job_id).fire_at_ms + 30_000
    assert registering.get_job(world.ports, job_id).last == {
        "run_id": key.run_id,
        "status": "expired",
        "scheduled_at_ms": key.scheduled_at_ms,
        "ended_at_ms": world.clock.at_ms,
    }


def test_a_change_of_the_deadline_is_a_change_of_the_pending_occurrence(world: World) -> None:
    job_id = world.job(start_within_s=30)
    key = world.next_key(job_id)
    for version, within_s in enumerate((600, 0, 5), start=1):
        work = Work("default", "job", start_within_s=within_s)
        new = lambda job, work=work: NewJob("shop", "hourly", job.schedule, work, 0, job.catch_up, f"{work}")  # noqa: E731
        changing.update_job(world.ports, job_id, version, new)
        assert world.next_key(job_id) == key
        assert world.run(key).start_by_ms == (key.fire_at_ms + within_s * 1_000 if within_s else 0)


def test_what_was_fired_keeps_the_deadline_that_it_was_born_with(world: World) -> None:
    job_id = world.job(start_within_s=30)
    key = world.until_due(job_id)
    work = Work("default", "job", start_within_s=3_000)
    new = lambda job: NewJob("shop", "hourly", job.schedule, work, 0, job.catch_up, "longer")  # noqa: E731
    changing.update_job(world.ports, job_id, 1, new)
    world.after(31)
    assert world.start(key) == Declined("expired", discard=True)


# --- what nobody starts -----------------------------------------------------------------------------------------


def until(world: World, seconds: int) -> None:
    """The reconciler runs every five minutes, and windows do."""
    for _ in range(0, seconds, 300):
        world.after(300)
        world.scan()
        assert reconciling.reconcile(world.ports).failed == 0


@pytest.mark.parametrize("within_s", [30, 1_200, 3 * 3_600, 3 * 86_400])
def test_the_audit_ends_what_nobody_starts_soon_after_its_deadline(world: World, within_s: int) -> None:
    key = world.timer(start_within_s=within_s)
    world.scan()
    until(world, max(300, within_s - 300))
    if within_s > 300:
        assert world.run(key).status == "pending", "late beats lost until then"
    until(world, 900)
    assert ended(world, key) == ("expired", f"not started within {within_s} s of its time (start_within_s)")
    assert world.run(key).ended_at_ms - world.run(key).start_by_ms <= 600_000
    until(world, 300)
    assert not world.store.items(PASSES), "its minute is closed"


def test_a_deadline_costs_the_audit_one_row_and_no_deadline_none(world: World) -> None:
    for _ in range(10):
        world.timer(start_within_s=1_200)
    world.scan()
    until(world, 600)
    assert len(world.store.items(PASSES)) == 1
    other = World()
    other.timer()
    other.scan()
    until(other, 600)
    assert other.store.items(PASSES) == []


def test_the_audit_leaves_alone_what_is_in_time_or_was_started(world: World) -> None:
    started, in_time = world.timer(start_within_s=30), world.timer(start_within_s=5_000)
    world.must_start(started, lease_s=900)
    world.scan()
    until(world, 600)
    assert world.run(started).status == "running"
    assert world.run(in_time).status == "pending"


def test_a_chain_is_stepped_before_its_occurrence_ends(world: World) -> None:
    """Ended as its job's next, nothing would step the chain any more."""
    job_id = world.job(start_within_s=30)
    key = world.next_key(job_id)
    world.clock.at_ms = key.fire_at_ms + 40_000
    repairs = Repairs()
    assert mending.end_too_late(world.ports, [world.item(key)], repairs) == ([world.item(key)], 0)
    world.scan()
    assert mending.end_too_late(world.ports, [world.item(key)], repairs) == ([], 0)
    assert repairs.expired == 1
    assert ended(world, key) == ("expired", WHY)


def test_the_audit_allows_for_a_clock_that_is_late(world: World) -> None:
    key = world.timer(start_within_s=30)
    world.scan()
    world.clock.at_ms = key.fire_at_ms + 30_000 + deadlines.GRACE_MS
    assert mending.end_too_late(world.ports, [world.item(key)], Repairs())[0] == [world.item(key)]
    world.clock.at_ms += 1
    assert mending.end_too_late(world.ports, [world.item(key)], Repairs())[0] == []


def test_a_start_that_comes_first_is_not_undone_by_the_audit(world: World) -> None:
    """It had read the run before."""
    key = world.timer(start_within_s=30)
    seen = world.item(key)
    world.must_start(key)
    world.after(60)
    repairs = Repairs()
    mending.end_too_late(world.ports, [seen], repairs)
    assert (world.run(key).status, repairs.expired) == ("running", 0)
