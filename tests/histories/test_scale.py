"""The design scale on one slice of 64: the production flows at a slice's full load, with AWS's latencies and limits."""

from __future__ import annotations

from benchmarks.percentiles import percentile
from benchmarks.scale import loads as scale
from benchmarks.scale.loads import EXACT, SPREAD
from benchmarks.scale.world import Deployment, ScaleWorld

ONE_OF_64 = Deployment(simulated=1)
TIMERS_P99_MS, DEFAULT_CRON_P99_MS = 5_000, 60_000


def p99(lags_ms: list[int]) -> int:
    return percentile(lags_ms, 99)


def test_a_burst_created_and_due_at_the_full_rate_is_started_in_time() -> None:
    world = scale.run(scale.burst(ONE_OF_64.share, seconds=4), ONE_OF_64, 1)
    created = world.seen["created"]
    assert created > 0.95 * 4 * scale.BURST_PER_S * ONE_OF_64.share
    assert world.seen["completed"] == len(world.begun["timers"]) == created
    assert p99(world.dispatched["timers"]) < p99(world.begun["timers"]) < TIMERS_P99_MS
    assert world.partitions.throttled == 0
    assert world.seen["declined"] == 0


def test_at_midnight_timers_and_default_cron_jobs_start_in_time() -> None:
    world = scale.run(scale.mixed(ONE_OF_64.share, SPREAD), ONE_OF_64, 1)
    jobs = world.seen["registered"]
    assert jobs == round(scale.MIXED_JOBS * ONE_OF_64.share)
    assert len(world.begun["timers"]) + len(world.begun[SPREAD]) == world.seen["created"] + jobs
    assert world.seen["completed"] == world.seen["created"] + jobs
    assert p99(world.begun["timers"]) < TIMERS_P99_MS
    assert p99(world.begun[SPREAD]) < DEFAULT_CRON_P99_MS
    assert world.scanner.timed_out == 0


def test_one_shard_for_everything_is_reported_as_hot_and_throttled() -> None:
    hot = scale.run(scale.burst(1 / 50, seconds=4), Deployment(shards=1, slices=1, simulated=1), 1)
    spread = scale.run(scale.burst(1 / 50, seconds=4), Deployment(shards=32, slices=1, simulated=1), 1)
    (worst,) = hot.partitions.hottest(1)
    assert (worst.place[0], worst.kind) == ("timers", "write")
    assert worst.share >= 1
    assert worst.throttled > 0
    (mild,) = spread.partitions.hottest(1)
    assert mild.share < 0.5
    assert spread.partitions.throttled == 0
    assert p99(hot.begun["timers"]) > 2 * p99(spread.begun["timers"])


def test_a_throttled_start_is_tried_again_until_it_passes() -> None:
    world = scale.run(scale.burst(1 / 50, seconds=2), Deployment(shards=1, slices=1, simulated=1), 1)
    assert world.partitions.throttled > 0
    assert world.seen["completed"] == len(world.begun["timers"]) == world.seen["created"] > 0


def test_a_seed_is_one_history() -> None:
    def history(seed: int) -> tuple[list[int], list[int]]:
        world: ScaleWorld = scale.run(scale.herd(1 / 640), Deployment(shards=16, slices=1, simulated=1), seed)
        return world.dispatched["timers"], world.begun["timers"]

    assert history(1) == history(1) != history(2)


def test_exact_cron_jobs_are_the_dearest_herd() -> None:
    exact = scale.run(scale.mixed(ONE_OF_64.share, EXACT), ONE_OF_64, 1)
    assert exact.seen["completed"] == exact.seen["created"] + exact.seen["registered"]
    assert p99(exact.begun[EXACT]) < DEFAULT_CRON_P99_MS
