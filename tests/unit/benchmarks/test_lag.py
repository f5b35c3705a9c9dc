"""The arithmetic of the lag benchmark: what a figure of benchmarks/RESULTS.md says must be what was recorded."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from benchmarks.lag.cpu import EMULATOR, FUNCTIONS, LOAD, WORKERS, Process, spent
from benchmarks.lag.stack import orders_at_once, steady_orders
from benchmarks.lag.stages import FIRE_LAG, START_LAG, Measured, measured, rows, stages_of, why_not_held
from benchmarks.percentiles import percentile

from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run

DUE_MS = 1_793_318_400_000
WINDOW = {
    "began_at_ms": DUE_MS + 300,
    "announce_ms": 8,
    "query_ms": 12,
    "transact_ms": 1,
    "send_ms": 20,
    "advance_ms": 7,
}


def run_of(number: int, *, lag_ms: int = 320, start_ms: int = 400, ended: bool = True, attempt: int = 1) -> Run:
    """The number-th run of a load of one a second."""
    fire_at_ms = DUE_MS + number * 1_000
    return Run(
        LedgerKey("main", 0, fire_at_ms, "bench", f"t{number}", fire_at_ms),
        status="succeeded" if ended else "running",
        attempt=attempt,
        dispatched_at_ms=fire_at_ms + lag_ms,
        dispatched_by="main#0000#7",
        started_at_ms=fire_at_ms + start_ms,
        ended_at_ms=fire_at_ms + start_ms + 60 if ended else 0,
    )


def load_of(runs: Sequence[Run], *, refused: int = 0, margin_ms: int = 15_000) -> Measured:
    due = [run.key.fire_at_ms for run in runs]
    return measured(due, runs, {"main#0000#7": WINDOW}, {}, refused=refused, margin_ms=margin_ms)


def test_the_stages_of_a_run_are_those_of_its_records() -> None:
    assert stages_of(run_of(0), WINDOW, received_at_ms=DUE_MS + 350) == {
        "due to window begun": 300,
        "window: announce": 8,
        "window: query": 12,
        "window: transact": 1,
        "window: send": 20,
        "window: advance": 7,
        "dispatched to received": 30,
        "received to started": 50,
        "started to ended": 60,
        FIRE_LAG: 320,
        START_LAG: 400,
    }


def test_a_run_that_no_window_sent_has_no_stages_of_one() -> None:
    assert set(stages_of(run_of(0), None, None)) == {FIRE_LAG, START_LAG, "started to ended"}


@pytest.mark.parametrize(("count", "percent", "expected"), [(100, 99, 99), (100, 50, 50), (3, 99, 3), (1, 50, 1)])
def test_a_percentile_is_a_value_that_was_measured(count: int, percent: int, expected: int) -> None:
    assert percentile(list(range(count, 0, -1)), percent) == expected


def test_a_load_counts_what_was_lost_what_came_again_and_how_long_it_drained() -> None:
    load = load_of([run_of(0), run_of(1, ended=False), run_of(2, attempt=2, start_ms=5_000)])
    assert (load.created, load.lost, load.again, load.drained_ms) == (3, 1, 1, 5_060)


def test_the_table_has_a_row_for_each_stage_that_was_seen() -> None:
    table = rows("20/s", load_of([run_of(0), run_of(1, lag_ms=1_500)]))
    assert len(table) == 9  # nobody noted the receipts
    assert f"| 20/s | {FIRE_LAG} | 2 | 0.91 | 1.50 | 1.50 |" in table


def test_a_rate_is_held_when_nothing_speaks_against_it() -> None:
    assert why_not_held(load_of([run_of(number) for number in range(30)])) == ""


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (load_of([run_of(0), run_of(1, ended=False)]), "1 had not ended"),
        (load_of([run_of(0)], refused=100), "creation of 100"),
        (load_of([run_of(0)], margin_ms=-200), "-0.2 s before"),
        (load_of([run_of(number, lag_ms=1_600) for number in range(30)]), "fire lag 1.60 s"),
        (load_of([run_of(number, start_ms=400 + 100 * number) for number in range(30)]), "2.0 s later"),
    ],
    ids=["lost", "refused", "created too late", "late", "backlog"],
)
def test_a_rate_is_not_held_when(load: Measured, reason: str) -> None:
    assert reason in why_not_held(load)


def test_one_late_timer_in_a_hundred_is_within_the_99th_percentile() -> None:
    runs = [run_of(number) for number in range(99)]
    assert why_not_held(load_of([*runs, run_of(99, lag_ms=9_000, start_ms=9_100)])) == ""


def test_a_steady_load_orders_the_same_number_for_each_second_ahead_of_its_time() -> None:
    orders = steady_orders(rate=120, seconds=3, first=1_000, lead_s=20, drawn=random.Random(1))
    assert sorted((order.second, order.count) for order in orders) == [
        (s, 60) for s in (1_000, 1_001, 1_002) for _ in "ab"
    ]
    assert all(19 < order.second - order.at_s <= 20 for order in orders)
    assert [order.at_s for order in orders] == sorted(order.at_s for order in orders)


def test_a_burst_is_ordered_to_the_last_timer() -> None:
    assert [order.count for order in orders_at_once({1_000: 250})] == [100, 100, 50]


def test_the_cpu_of_functions_that_have_ended_is_not_lost() -> None:
    stat = "({}) S {} 1 1 0 -1 0 0 0 0 0 {} {} {} {} 20 0 1 0"
    processes = {
        pid: Process.from_stat(f"{pid} " + stat.format(*fields))
        for pid, fields in {
            1: ("bench", 0, 100, 0, 900, 0),  # what deploying took is in what it has reaped
            10: ("ministack", 1, 300, 100, 50, 0),
            11: ("python) S (x", 10, 60, 40, 10, 0),
            20: ("tickwork", 1, 150, 50, 0, 0),
            30: ("another", 0, 999, 999, 0, 0),
        }.items()
    }
    ticks = {part: round(s * 100) for part, s in spent(processes, endpoint=10, workers=[20], me=1).items()}
    assert ticks == {EMULATOR: 400, FUNCTIONS: 160, WORKERS: 200, LOAD: 100}
