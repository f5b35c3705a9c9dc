"""A sample of `make bench-fairness`: one slice of sixty-four, on the production flows in virtual time."""

from __future__ import annotations

import pytest
from benchmarks.percentiles import percentile
from benchmarks.scale.fairness import WEIGHTS, parts, run
from benchmarks.scale.world import Deployment

from tickwork.core.instants import SECOND_MS

ONE_SLICE = Deployment(simulated=1)
HERD = 500_000
"""Over all slices: 7,812 in the one."""
WEIGHTED = 333_000
"""Of each of three teams: so that what is measured lasts some windows."""
LAG_P99_MAX_MS = 5 * SECOND_MS
"""What spec F10 allows."""


def test_a_herd_of_one_team_costs_another_less_than_five_seconds() -> None:
    lags = run({"big": HERD}, 100, ONE_SLICE).lags()
    assert len(lags["big"].queued) == round(HERD * ONE_SLICE.share), "each was sent, and once"
    p99 = percentile(lags["small"].queued, 99)
    assert p99 < LAG_P99_MAX_MS
    assert p99 < percentile(lags["big"].queued, 100) / 2, "else there was no herd"


def test_weights_give_their_parts_of_what_all_want() -> None:
    world = run(dict.fromkeys(WEIGHTS, WEIGHTED), 0, ONE_SLICE, weights=WEIGHTS)
    assert parts(world, list(WEIGHTS)) == pytest.approx(WEIGHTS, rel=0.1)
