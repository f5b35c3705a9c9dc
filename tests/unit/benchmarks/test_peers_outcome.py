"""What the comparison with peers counts as lost, as doubled and as late."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.peers.load import Load
from benchmarks.peers.outcome import outcome
from benchmarks.peers.peer import cpu_of

DUE_MS = 1_000_000


def test_a_timer_without_an_effect_is_lost_and_a_second_effect_is_a_double() -> None:
    load = Load("burst", 4, DUE_MS)
    effects = [
        "burst-0 1000000 1000500",
        "burst-2 1000000 1001500",
        "burst-2 1000000 1009000",
        "steady-1 1000000 1000100",
    ]

    came = outcome(load, effects)

    assert (came.lost, came.doubled) == (2, 1)
    assert came.lags_ms == [500, 1_500]


def test_a_timer_that_ran_three_times_counts_as_two_doubles() -> None:
    came = outcome(Load("burst", 1, DUE_MS), ["burst-0 1000000 1000100"] * 3)

    assert (came.lost, came.doubled) == (0, 2)


def test_nothing_ran() -> None:
    came = outcome(Load("burst", 3, DUE_MS), [])

    assert (came.lost, came.doubled, came.lags_ms) == (3, 0, [])


def test_percentiles_of_the_lag_reach_from_the_median_to_the_last_one() -> None:
    load = Load("burst", 100, DUE_MS)
    came = outcome(load, [f"burst-{i} {DUE_MS} {DUE_MS + (i + 1) * 1_000}" for i in range(100)])

    assert (came.lag_s(50), came.lag_s(99), came.lag_s(100)) == (50, 99, 100)


def test_a_steady_load_is_due_rate_by_rate_and_its_lag_is_counted_from_its_own_second() -> None:
    load = Load("steady", 5, DUE_MS, rate=2)

    assert [due_ms - DUE_MS for _, due_ms in load.timers()] == [0, 0, 1_000, 1_000, 2_000]
    assert outcome(load, ["steady-4 1002000 1002250"]).lags_ms == [250]


def test_the_cpu_of_a_process_includes_what_its_children_use() -> None:
    """A shell that itself does next to nothing waits for a busy child."""
    busy = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\ninput()"
    shell = subprocess.Popen(["sh", "-c", f"'{sys.executable}' -c '{busy}'; true"], stdin=-1, stdout=-1)
    try:
        assert shell.stdout is not None
        shell.stdout.readline()
        assert cpu_of([shell.pid]) >= 0.4 - 2 / os.sysconf("SC_CLK_TCK")
    finally:
        shell.communicate(b"\n")
