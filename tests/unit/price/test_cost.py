"""The price of a load: held to what the meter counts on the real flows, and to what a person would work out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import cost as measured
from benchmarks import doors
from benchmarks.idle import idle as measured_idle
from benchmarks.idle import month
from benchmarks.meter.bill import READS, SQS, WRITES
from benchmarks.price import table
from benchmarks.world import make_world as metered_world
from click.testing import CliRunner

from tests.support.worlds import create_timer, make_world, move, serve
from tickwork.aws.signals import PowertoolsSignals
from tickwork.cli.main import main
from tickwork.ports import Layout
from tickwork.price import cost
from tickwork.price.cost import bill_of, same_around_eventbridge, total
from tickwork.price.loads import ENVIRONMENTS, MONTH_S, Load, per_month, runs_per_month
from tickwork.price.prices import AS_OF, PER_MILLION, PER_UNIT, REGION, SOURCES, usd

RUNS = 400
ADDED_BY_CLOUDWATCH = 26
"""Bytes, to each event of a log."""


def counted(life: object) -> Counter[str]:
    world = metered_world(Layout(shards=8, slices=1))
    life(world)  # type: ignore[operator]
    total: Counter[str] = Counter()
    for step, counts in world.bill.by_step.items():
        total.update({} if step.startswith("(") else counts)
    return total


@pytest.mark.parametrize(
    ("life", "each"),
    [
        (lambda world: measured.one_shots(world, RUNS, 100, 100), cost.ONE_SHOT),
        (lambda world: measured.recurring(world, RUNS, 100), cost.OCCURRENCE),
    ],
    ids=["a one-shot", "an occurrence"],
)
def test_a_run_uses_what_the_meter_counts_within_three_percent(life: object, each: dict[str, float]) -> None:
    per_run = {name: amount / RUNS for name, amount in counted(life).items()}
    windows = RUNS / 100 / RUNS
    assert per_run[WRITES] == pytest.approx(each[WRITES] + windows * cost.WINDOW[WRITES], rel=0.03)
    modelled = {WRITES: per_run[WRITES], READS: each.get(READS, 0) + windows * (cost.WINDOW[READS] + 8)}
    assert usd({n: per_run[n] for n in (WRITES, READS)}) == pytest.approx(usd(modelled), rel=0.03)
    assert per_run[SQS] == pytest.approx(cost.SQS_EACH / 10, rel=0.1)


@pytest.mark.parametrize("name", ["dev", "staging", "prod"])
def test_an_idle_month_costs_what_the_meter_counts_within_a_tenth(name: str) -> None:
    settings = ENVIRONMENTS[name]
    world = metered_world(Layout(shards=settings.shards, slices=settings.slices))
    measured_idle(world, 60)
    assert usd(cost.idle(settings)) == pytest.approx(usd(month(world, 1 / 24)), rel=0.1)


def test_slices_of_further_cells_cost_what_those_of_the_home_cell_do() -> None:
    prod = ENVIRONMENTS["prod"]
    apart = replace(prod, shards=prod.shards - 8, slices=prod.slices - 2, cell_shards=8, cell_slices=2)
    assert cost.idle(apart) == cost.idle(prod)
    four = usd(cost.idle(replace(prod, cell_shards=4, cell_slices=1))) - usd(cost.idle(prod))
    assert four == pytest.approx(0.32, rel=0.1), "as docs/operations.md says it, with four shards"


def test_the_settings_that_are_priced_are_those_that_are_deployed() -> None:
    from tickwork.settings import ENVIRONMENTS as DEPLOYED

    for name, environment in DEPLOYED.items():
        priced = ENVIRONMENTS[name]
        assert (priced.shards, priced.slices) == (environment.shards, environment.slices)
        assert priced.log_one_in == environment.log_one_in


def test_the_lines_that_are_priced_are_as_long_as_the_real_ones(capsys: pytest.CaptureFixture[str]) -> None:
    ports, signals = make_world()[0], PowertoolsSignals("scanner", "tickwork-prod")
    create_timer(ports, in_s=5)
    move(ports, 5.4)
    signals.published(lambda *_: serve(replace(ports, signals=signals)))({}, None)
    window, measured_lag = capsys.readouterr().out.splitlines()
    assert '"action":"window"' in window
    assert "scheduler.fire_lag_seconds" in measured_lag
    for line, priced in ((window, cost.WINDOW_BYTES), (measured_lag, cost.METRICS_BYTES)):
        assert len(line) + ADDED_BY_CLOUDWATCH == pytest.approx(priced, rel=0.1)


def test_a_window_in_a_hundred_is_told_and_so_paid_for() -> None:
    busy = Load(timers=1e6)
    told = {name: _logs(busy, name) for name in ("staging", "prod")}
    assert 0 < told["prod"] < told["staging"]


def _logs(load: Load, name: str) -> float:
    """Of windows, each second of which has something due, GB a window."""
    (part,) = [part for part in bill_of(load, ENVIRONMENTS[name]) if part.name.startswith("windows")]
    return part.amounts["logs_gb"] / part.amounts[WRITES]


def test_a_million_one_shots_cost_more_than_their_writes() -> None:
    alone = Load(timers=1e6)
    together = Load(timers=1e6, create_batch=100, work_batch=10)
    idle = total(bill_of(Load(), ENVIRONMENTS["dev"]))
    for load, (least, most) in ((alone, (12, 14)), (together, (6, 8))):
        assert least < total(bill_of(load, ENVIRONMENTS["dev"])) - idle < most


def test_many_runs_share_their_windows_and_few_have_one_each() -> None:
    def windows(runs: float) -> float:
        (part,) = [part for part in bill_of(Load(timers=runs), ENVIRONMENTS["dev"]) if part.name.startswith("windows")]
        return part.amounts[WRITES] / cost.WINDOW[WRITES]

    assert windows(1_000) == pytest.approx(1_000, rel=0.01)
    assert windows(1e9) == pytest.approx(2 * MONTH_S, rel=0.01), "each second of each slice"


def test_what_stands_around_a_peer_is_the_same() -> None:
    load = Load(timers=1e6)
    ours = {part.name: part.usd for part in bill_of(load, ENVIRONMENTS["dev"])}
    theirs = {part.name: part.usd for part in same_around_eventbridge(load)}
    for name in ("API: create", "API: start and complete", "workers' long polls"):
        assert ours[name] == theirs[name]


@pytest.mark.parametrize(
    ("text", "runs"),
    [("5M/month", 5e6), ("100k/day", 3e6), ("20/second", 20 * MONTH_S), ("1.5b", 1.5e9), ("0", 0), ("7/HOUR", 5_040)],
)
def test_a_rate_is_read_as_it_is_written(text: str, runs: float) -> None:
    assert per_month(text) == runs


@pytest.mark.parametrize("text", ["", "many", "5M/year", "-1", "5 M", "1e6", "5M/month/day"])
def test_a_rate_that_is_none_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(ValueError, match="5M/month"):
        per_month(text)


@pytest.mark.parametrize("text", ["0m", "1w", "hourly", ""])
def test_a_period_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="1h or 1d"):
        runs_per_month(text)


def test_every_price_is_dated_placed_and_has_a_source() -> None:
    assert (AS_OF[:4] >= "2026", REGION) == (True, "us-east-1")
    assert {name.split("_")[0] for name in (*PER_MILLION, *PER_UNIT)} <= {*SOURCES, "http", "step", "logs"}


def test_the_command_shows_the_parts_and_their_sum() -> None:
    result = CliRunner().invoke(main, ["cost", "--jobs", "2000", "--every", "1h", "--timers", "5M/month", "--json"])
    answer = json.loads(result.output)
    assert answer["runs"] == 2_000 * 720 + 5_000_000
    assert sum(part["usd"] for part in answer["parts"]) == pytest.approx(answer["usd"], abs=0.02)
    table = CliRunner().invoke(main, ["cost", "--jobs", "2000", "--timers", "5M/month"])
    assert f"{answer['usd']:.2f}" in table.output


def test_the_command_refuses_what_is_no_rate_and_says_what_is() -> None:
    result = CliRunner().invoke(main, ["cost", "--timers", "lots"])
    assert result.exit_code == 2
    assert "5M/month" in result.output


def test_the_page_on_access_shows_what_a_call_costs_by_each_door() -> None:
    page = (Path(__file__).parents[3] / "docs" / "access.md").read_text(encoding="utf-8")
    for shown in (doors.rows(), doors.flood_rows()):
        assert "\n".join(shown) in page, "run `make bench-cost`, and put its tables into docs/access.md"


def test_who_never_had_a_key_costs_less_than_a_call_and_one_who_calls_often_hardly_more() -> None:
    found = doors.prices()
    signed = found["signed, first door (every call, before there was a second)"]
    (often,) = [price for name, price in found.items() if f"{doors.BUSY} calls" in name]
    assert often < 1.01 * signed
    assert max(price for name, price in found.items() if name.startswith("flood")) < 1.02 * signed


def test_the_page_shows_what_the_command_prints() -> None:
    page = (Path(__file__).parents[3] / "docs" / "price.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page, "run `make bench-price`, and put its table into docs/price.md"
