"""Failures in virtual time, and what histories reach of the code."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest

from tests.simulator import covered
from tests.simulator.failures import FAILURES, LASTS_S, OTHERS, TOUCHED, by_minute, run_failure
from tests.simulator.run import run_seeds

SAMPLED_SEEDS = 40
SAMPLED_SHARE = 0.7
"""Of the lines of flows, what so few seeds reach at least: three hundred reach more than nine tenths."""


def test_without_a_failure_everything_starts_on_time() -> None:
    report = run_failure("none")
    assert not report.violation
    assert report.lags[OTHERS].never == 0
    assert report.lags[OTHERS].due > 100
    assert report.lags[OTHERS].longest_ms < 5_000
    assert report.lags[TOUCHED].due == 0


@pytest.mark.parametrize("name", ["no_worker", "payloads_throttled", "resources_throttled", "no_reconciler"])
def test_what_a_failure_does_not_touch_is_less_than_two_seconds_later(name: str) -> None:
    without = run_failure("none").lags[OTHERS].longest_ms
    report = run_failure(name)
    assert not report.violation
    assert report.lags[OTHERS].never == 0
    assert report.lags[OTHERS].longest_ms < without + 2_000


def test_what_a_failure_touches_shows() -> None:
    report = run_failure("no_worker")
    assert report.lags[TOUCHED].never == report.lags[TOUCHED].due > 0


def test_a_failure_shows_in_the_metrics_of_its_minutes() -> None:
    metrics = run_failure("one_pool").metrics
    unsent = {
        minute for (metric, _), minutes in metrics.items() if metric == "scheduler.unsent_total" for minute in minutes
    }
    assert unsent
    assert min(unsent) >= 2
    assert max(unsent) <= LASTS_S // 60


def test_metrics_are_kept_by_minute_and_labels() -> None:
    measured = [(60_500, "m", 1.0, {"a": "x"}), (61_000, "m", 2.0, {"a": "x"}), (130_000, "m", 3.0, {"a": "y"})]
    assert by_minute(measured, 0) == {("m", (("a", "x"),)): {1: [1.0, 2.0]}, ("m", (("a", "y"),)): {2: [3.0]}}


def test_every_row_of_the_table_says_what_breaks() -> None:
    assert all(failure.what for failure in FAILURES.values())


def test_a_sample_of_seeds_reaches_most_of_the_flows() -> None:
    with covered.watching() as reached:
        run_seeds(range(SAMPLED_SEEDS), violations_max=1, report=print)
    places, _, _ = covered.unreached(reached)
    # Whole files that a history need not run.
    people = [file for file, function, _ in covered.reasons() if function == "*"]

    files = [
        path
        for path in covered.source_files()
        if "flows" in path.parts and not any(fnmatch(str(path.relative_to(covered.ROOT)), one) for one in people)
    ]
    total = sum(len(lines) for path in files for lines in covered.functions_of(path).values())
    names = {str(path.relative_to(covered.ROOT)) for path in files}
    missed = sum(len(lines) for file in names for lines in places.get(file, {}).values())
    assert (total - missed) / total > SAMPLED_SHARE


def test_what_is_listed_as_unreached_is_there_and_has_a_reason() -> None:
    names = {str(path.relative_to(covered.ROOT)): covered.functions_of(path) for path in covered.source_files()}
    for file, function, why in covered.reasons():
        assert why
        assert "*" in file or file in names, f"{file} is not there any more"
        assert "*" in function or function in names[file], f"{file} has no {function} any more"
