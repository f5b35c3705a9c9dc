"""What a life may cost: whoever adds a write or a read to the path of every timer finds out here."""

from __future__ import annotations

import pytest
from benchmarks import cost, idle
from benchmarks.meter.bill import READS, SQS, WRITES, usd
from benchmarks.world import World, make_world

from tickwork.core.access.actors import LOCAL
from tickwork.core.access.teams import TeamContent
from tickwork.core.ledger.work import Work
from tickwork.flows.access import teams
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.runs import timers
from tickwork.ports import Layout

COUNT, RATE = 500, 250


@pytest.fixture
def world() -> World:
    return make_world(Layout(shards=8, slices=2))


def _per_timer(world: World, name: str, *but: str) -> float:
    steps = {
        step: counts for step, counts in world.bill.by_step.items() if not step.startswith("(") and step not in but
    }
    return sum(counts[name] for counts in steps.values()) / COUNT


def test_a_one_shot_writes_at_creation_start_and_end_and_never_at_fire(world: World) -> None:
    cost.one_shots(world, COUNT, RATE, 100)
    assert _per_timer(world, WRITES, "fire") == 3
    assert _per_timer(world, READS, "fire") == 0
    windows = 4 * world.ports.layout.slices
    assert world.bill.by_step["fire"][WRITES] == 2 * windows  # take and advance
    assert _per_timer(world, SQS) <= 0.42  # send, receive, hide, delete, by tens


def test_a_one_shot_that_is_cancelled_writes_twice(world: World) -> None:
    cost.cancelled(world, COUNT)
    assert (_per_timer(world, WRITES), _per_timer(world, READS)) == (2, 0)


def test_an_occurrence_of_a_job_writes_eight_times_and_its_share_of_the_fence(world: World) -> None:
    cost.recurring(world, COUNT, RATE)
    windows = 2 * 4 * world.ports.layout.slices / COUNT
    fence = _per_timer(world, WRITES) - windows - 8
    assert 0 < fence < 2 / 30


def test_a_near_timer_alone_costs_its_creator_one_read(world: World) -> None:
    cost.create(world, 20, 100, 1, ahead_s=600)
    assert world.bill.by_step["create"] == {WRITES: 20, READS: 20}


def test_the_mark_of_a_registered_team_costs_a_write_a_minute_at_most(world: World) -> None:
    teams.put_team(world.ports, "payments", TeamContent(contact="ann"), None, LOCAL)
    world.bill.by_step.clear()
    for _ in range(10):
        cost.create(world, 20, 100, 1, ahead_s=600)
        world.clock.sleep_ms(6_000)
    assert world.bill.by_step["create"][WRITES] == 200
    marks = world.bill.by_step["(first look at the team)"][WRITES]
    assert 1 <= marks <= 2


def test_an_idle_month_of_dev_settings_costs_less_than_a_dollar() -> None:
    world = make_world(Layout(shards=4, slices=2))
    idle.idle(world, 60)
    assert usd(idle.month(world, 1 / 24)) < 1


def test_the_ticker_reads_a_known_second_no_second_time(world: World) -> None:
    issue_ticks(world.ports)
    due_ms = world.clock.now_ms() + 300_000
    for second in range(60):
        work = Work("default", "greet", payload="{}")
        timers.create_timers(world.ports, [timers.NewTimer("team", due_ms + second * 1_000, work)] * 30)
    world.bill.by_step.clear()
    for _ in range(3):
        world.clock.sleep_ms(60_000)
        issue_ticks(world.ports)
    shards, minutes = world.ports.layout.shards, 3
    assert world.bill.by_step[""][READS] <= 2 * 60 + (shards + 2) * minutes


def test_a_tick_for_something_due_comes_just_after_its_second_has_begun(world: World) -> None:
    world.clock.sleep_ms(730)  # SQS delays by whole seconds: from here each tick would come 730 ms late
    due_ms = world.clock.now_ms() // 1_000 * 1_000 + 100_000
    timers.create_timers(world.ports, [timers.NewTimer("team", due_ms, Work("default", "greet", payload="{}"))])
    world.queues.waiting.clear()
    issue_ticks(world.ports)
    assert due_ms in {at_ms for at_ms, _ in world.queues.waiting["ticks"]}


def test_the_ticker_does_not_wait_when_nothing_is_due(world: World) -> None:
    issue_ticks(world.ports)
    world.clock.sleep_ms(60_730)
    before_ms = world.clock.now_ms()
    world.scan_all("")
    issue_ticks(world.ports)
    assert world.clock.now_ms() == before_ms
