"""A run whose worker beats for ever is told to its team once it goes on much longer than usual, at no write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.support.runs_world import World
from tests.unit.reported.reports import holds
from tickwork.core.errors import Throttled
from tickwork.core.jobs.durations import LOOK_AFTER_S, NOTED_FROM_S, TIMES_USUAL, UNKNOWN_AFTER_S
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, Table
from tickwork.core.ledger.writes import Anyway, Item, Update
from tickwork.flows.jobs import changing, registering
from tickwork.flows.runs import cancelling, worker_calls
from tickwork.flows.runs.worker_calls import Beat

LEASE_S = 900
TOLD = "runs.overlong_total"


@pytest.fixture
def world() -> World:
    return World()


def beat(world: World, run: Run) -> None:
    answer = worker_calls.heartbeat(world.ports, run.key, run.token, LEASE_S)
    assert isinstance(answer, Beat), answer


def told_after_s(world: World, run: Run, most_s: int) -> int | None:
    """How long a run went on until it was told; None: not in that time. Its worker beats all along."""
    began_ms, before = run.started_at_ms, world.signals.counts[TOLD]
    while world.clock.at_ms < began_ms + most_s * 1000:
        world.after(LEASE_S // 3)
        beat(world, run)
        if world.signals.counts[TOLD] > before:
            return (world.clock.at_ms - began_ms) // 1000
    return None


def succeeded(world: World, job_id: str, took_s: int) -> None:
    """An occurrence whose run takes so long."""
    key = world.until_due(job_id)
    run = world.must_start(key, lease_s=LEASE_S)
    for _ in range(took_s // 300):
        world.after(300)
        beat(world, run)
    world.after(took_s % 300)
    world.complete(key, run.token)


def hung(world: World, job_id: str) -> Run:
    return world.must_start(world.until_due(job_id), lease_s=LEASE_S)


def daily(world: World, **work: Any) -> str:
    return world.job("nightly", every_s=86_400, **work)


# --- when it is told ----------------------------------------------------------------------------------------------


@holds("R2-O-30")
@pytest.mark.parametrize(
    ("took_s", "after_s"),
    [
        (5, LOOK_AFTER_S),
        (NOTED_FROM_S, LOOK_AFTER_S),
        (1_800, TIMES_USUAL * 1_800),
        (7_200, TIMES_USUAL * 7_200),
    ],
)
def test_a_run_is_told_when_it_takes_ten_times_as_long_as_usual_and_an_hour(
    world: World, took_s: int, after_s: int
) -> None:
    job_id = daily(world)
    succeeded(world, job_id, took_s)
    told = told_after_s(world, hung(world, job_id), 2 * after_s)
    assert told is not None
    assert after_s <= told < after_s + LEASE_S // 3


@holds("R2-O-30")
def test_a_night_in_which_there_was_nothing_to_do_makes_the_next_one_no_longer_than_usual(world: World) -> None:
    job_id = daily(world)
    succeeded(world, job_id, 7_200)
    succeeded(world, job_id, 5)
    assert told_after_s(world, hung(world, job_id), 60_000) is None


@holds("R2-O-30")
@pytest.mark.parametrize("failures", [0, 1])
def test_of_a_job_that_is_not_known_to_have_succeeded_after_a_day(world: World, failures: int) -> None:
    job_id = world.job("nightly", every_s=86_400)
    for _ in range(failures):
        key = world.until_due(job_id)
        world.fail(key, world.must_start(key).token, permanent=True)
    told = told_after_s(world, hung(world, job_id), 2 * UNKNOWN_AFTER_S)
    assert told is not None
    assert UNKNOWN_AFTER_S <= told < UNKNOWN_AFTER_S + LEASE_S // 3


@holds("R2-O-30")
def test_and_so_of_a_timer(world: World) -> None:
    told = told_after_s(world, world.must_start(world.timer(), lease_s=LEASE_S), 2 * UNKNOWN_AFTER_S)
    assert told is not None
    assert UNKNOWN_AFTER_S <= told < UNKNOWN_AFTER_S + LEASE_S // 3


@holds("R2-O-30")
def test_what_an_older_version_has_noted_says_nothing_of_how_long_it_took(world: World) -> None:
    job_id = daily(world)
    succeeded(world, job_id, 5)
    last = {name: value for name, value in registering.get_job(world.ports, job_id).last.items() if name != "took_ms"}  # type: ignore[union-attr]
    world.store.commit([Update(JOBS, {"job_id": job_id}, Anyway("an older version"), set={"last": last})])
    assert told_after_s(world, hung(world, job_id), UNKNOWN_AFTER_S - 600) is None


@holds("R2-O-30")
def test_a_change_of_the_job_forgets_nothing_of_it(world: World) -> None:
    job_id = daily(world)
    succeeded(world, job_id, 7_200)
    changing.pause_job(world.ports, job_id, "ops", "maintenance")
    changing.resume_job(world.ports, job_id, "ops")
    assert registering.get_job(world.ports, job_id).usual_s == 7_200


@holds("R2-O-30")
def test_it_is_told_again_as_long_as_it_goes_on(world: World) -> None:
    """So its alarm stays on until somebody has acted."""
    job_id = daily(world)
    succeeded(world, job_id, 5)
    run = hung(world, job_id)
    assert told_after_s(world, run, 2 * LOOK_AFTER_S)
    before = world.signals.counts[TOLD]
    for _ in range(3):
        world.after(LEASE_S // 3)
        beat(world, run)
    assert world.signals.counts[TOLD] == before + 3
    facts = next(facts for action, facts in world.signals.lines if action == "run_overlong")
    assert (facts["ref"], facts["worker"], facts["usual_s"]) == (run.key.ref, "w1", NOTED_FROM_S)
    cancelling.cancel_run(world.ports, run.key, "it hangs")
    answer = worker_calls.heartbeat(world.ports, run.key, run.token, LEASE_S)
    assert isinstance(answer, Beat)
    assert answer.cancel


@holds("R2-O-30")
def test_one_with_a_bound_of_its_own_ends_by_that_and_is_not_told(world: World) -> None:
    job_id = daily(world, max_duration_s=3 * LOOK_AFTER_S)
    succeeded(world, job_id, 5)
    assert told_after_s(world, hung(world, job_id), 2 * LOOK_AFTER_S) is None


# --- what it costs ------------------------------------------------------------------------------------------------


@holds("R2-O-30")
def test_it_costs_no_write_and_before_its_hour_no_read(world: World) -> None:
    job_id = daily(world)
    succeeded(world, job_id, 5)
    run = hung(world, job_id)
    writes, reads = len(world.store.commits), world.store.reads
    many, asked = world.store.get_many, list[Table]()

    def get_many(table: Table, keys: Any) -> list[Item | None]:
        asked.append(table)
        return many(table, keys)

    world.store.get_many = get_many
    beats = 2 * LOOK_AFTER_S // 300
    for _ in range(beats):
        world.after(300)
        beat(world, run)
    assert len(world.store.commits) - writes == beats
    assert world.store.reads == reads
    assert asked == [JOBS] * (beats // 2 + 1), "a job a heartbeat, from its hour on"


@holds("R2-O-30")
@pytest.mark.parametrize("took_s", [5, 7_200])
def test_the_end_of_a_run_writes_as_often_as_it_did(world: World, took_s: int) -> None:
    job_id = daily(world)
    key = world.until_due(job_id)
    run = world.must_start(key, lease_s=LEASE_S)
    world.after(took_s)
    before = len(world.store.commits)
    world.complete(key, run.token)
    assert len(world.store.commits) - before == 2


@holds("R2-O-30")
@pytest.mark.parametrize("fault", ["busy", "garbled", "gone"])
def test_a_job_that_cannot_be_read_costs_no_heartbeat(world: World, fault: str) -> None:
    job_id = daily(world)
    succeeded(world, job_id, 5)
    run = hung(world, job_id)
    world.after(LEASE_S - 1)
    beat(world, run)

    def get_many(table: Table, keys: Any) -> list[Item | None]:
        if fault == "busy":
            raise Throttled("slow down")
        return [None if fault == "gone" else {"job_id": job_id, "status": 17}]

    world.store.get_many = get_many
    for _ in range(12):
        world.after(LEASE_S // 3)
        beat(world, run)
    assert world.signals.counts[TOLD] == 0


# --- where it is seen ---------------------------------------------------------------------------------------------


def shown(world: World, path: str, **query: str) -> Any:
    status, answer = ApiUnderTest(world.ports).call("GET", path, **query)
    assert status == 200, answer
    return answer


def key_of_hung(world: World) -> LedgerKey:
    job_id = daily(world)
    succeeded(world, job_id, 5)
    run = hung(world, job_id)
    assert told_after_s(world, run, 2 * LOOK_AFTER_S) == LOOK_AFTER_S
    return run.key


@holds("R2-O-30")
def test_lists_and_the_run_itself_show_it(world: World) -> None:
    key = key_of_hung(world)
    other = world.must_start(world.timer(), lease_s=LEASE_S).key
    expected = {"running_s": LOOK_AFTER_S, "usual_s": NOTED_FROM_S}
    assert shown(world, f"/runs/{key.occurrence}")["overlong"] == expected
    listed = shown(world, "/runs", status="running", team="shop")["runs"]
    assert {run["ref"]: run.get("overlong") for run in listed} == {key.ref: expected, other.ref: None}
    of_job = shown(world, f"/jobs/{key.job_id}/runs")["runs"]
    assert [run.get("overlong") for run in of_job] == [None, expected, None]


@holds("R2-O-30")
def test_the_job_shows_how_long_its_last_run_took(world: World) -> None:
    job_id = daily(world)
    succeeded(world, job_id, 5)
    assert shown(world, f"/jobs/{job_id}")["last"]["took_s"] == 5


@holds("R2-O-30")
def test_one_whose_worker_has_gone_is_another_matter(world: World) -> None:
    key = key_of_hung(world)
    world.after(LEASE_S)
    assert "overlong" not in shown(world, f"/runs/{key.occurrence}")
