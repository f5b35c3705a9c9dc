"""The evaluator against the examples of AWS's user guide, and what is played against what is published."""

from __future__ import annotations

import json

import pytest

from tests.infra.alarm_evaluator import BREACHING, IGNORE, NOT_BREACHING, Alarm, Series, evaluate
from tests.infra.deployed import published
from tickwork.aws.common_metrics import PUBLISHED, TOGETHER
from tickwork.aws.signals import PowertoolsSignals

METRIC = ("here", "metric", "all")


def alarm(periods: int, times: int, missing: str, period_min: int = 1, statistic: str = "Maximum") -> Alarm:
    return Alarm("alarm", METRIC, statistic, period_min, periods, times, 10, True, missing)


def ends_with(points: str) -> Series:
    """Data points, the newest last: X breaches, 0 does not, - is missing."""
    series = Series(minutes=0)
    for back, point in enumerate(reversed(points.split())):
        if point != "-":
            series.add(*METRIC, -back - 0.5, 20 if point == "X" else 0)
    return series


# "Configuring how CloudWatch alarms treat missing data", 3 of 3 and a range of five data points.
@pytest.mark.parametrize(
    ("points", "sounding"),
    [
        ("0 - X - X", set()),
        ("- - - - 0", set()),
        ("- - - - -", {BREACHING}),
        ("0 X X - X", {BREACHING, NOT_BREACHING, IGNORE}),
        ("- - X - -", {BREACHING}),
    ],
)
def test_three_of_three_as_in_the_guide(points: str, sounding: set[str]) -> None:
    ways = (BREACHING, NOT_BREACHING, IGNORE)
    assert {way for way in ways if evaluate([alarm(3, 3, way)], ends_with(points))} == sounding


# The same page, 2 of 3.
@pytest.mark.parametrize(
    ("points", "sounding"),
    [
        ("0 - X - X", {BREACHING, NOT_BREACHING, IGNORE}),
        ("0 0 X 0 X", {BREACHING, NOT_BREACHING, IGNORE}),
        ("0 - X - -", {BREACHING}),
        ("- - - - 0", {BREACHING}),
        ("- - - X -", {BREACHING}),
    ],
)
def test_two_of_three_as_in_the_guide(points: str, sounding: set[str]) -> None:
    ways = (BREACHING, NOT_BREACHING, IGNORE)
    assert {way for way in ways if evaluate([alarm(3, 2, way)], ends_with(points))} == sounding


def test_a_long_period_slides_and_hears_a_datum_in_its_first_minute() -> None:
    series = Series(minutes=30)
    series.add(*METRIC, 7.2, 20)
    assert evaluate([alarm(1, 1, NOT_BREACHING, period_min=15)], series) == {"alarm": 8}


def test_silence_is_heard_two_periods_later_than_it_is_measured() -> None:
    def silent_from_0(period_min: int, periods: int) -> dict[str, int]:
        series = Series(minutes=120)
        for back in range(120):
            series.add(*METRIC, -back - 0.5, 1)
        one = Alarm("alarm", METRIC, "SampleCount", period_min, periods, periods, 1, False, BREACHING)
        return evaluate([one], series)

    assert silent_from_0(1, 5) == {"alarm": 7}
    assert silent_from_0(5, 1) == {"alarm": 15}, "the same five minutes in one long period"


def test_a_percentile_is_that_of_the_data_in_the_window() -> None:
    for late, sounds in ((1, False), (2, True)):
        series = Series(minutes=1)
        for n in range(100):
            series.add(*METRIC, 0.5, 20 if n < late else 0)
        assert bool(evaluate([alarm(1, 1, NOT_BREACHING, statistic="p99")], series)) is sounds


@pytest.mark.filterwarnings("ignore:No application metrics")
@pytest.mark.parametrize("value", [0, 3])
@pytest.mark.parametrize("metric", [*sorted(PUBLISHED), "some.other", *sorted(set().union(*TOGETHER.values()))])
def test_what_is_played_is_what_is_published(metric: str, value: int, capsys: pytest.CaptureFixture[str]) -> None:
    signals = PowertoolsSignals("scanner", "tickwork-prod")
    signals.observe(metric, value)
    signals.metrics.flush_metrics()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [
        (one["Name"], blob["service"])
        for blob in lines
        for directive in blob["_aws"]["CloudWatchMetrics"]
        for one in directive["Metrics"]
        if (directive["Namespace"], directive["Dimensions"]) == ("tickwork-prod", [["service"]])
    ]
    assert sorted(found) == sorted(published("scanner", metric, value))
