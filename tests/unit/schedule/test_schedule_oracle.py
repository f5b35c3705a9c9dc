"""The engine against a minute-by-minute walk that shares nothing with it but the zone files."""

from __future__ import annotations

import pytest
from schedule_oracle import Matcher, soak

from tickwork.core.schedule.field import parse_field
from tickwork.core.schedule.field_kind import FIVE

PAIRS = 300


@pytest.fixture(scope="module")
def report() -> tuple[int, list[str]]:
    return soak(PAIRS, seed=20260301)


def test_no_difference_around_any_change_of_clocks(report: tuple[int, list[str]]) -> None:
    compared, differences = report
    assert differences == []
    assert compared > 100_000  # the expressions do have something to do at night


def test_the_oracle_can_see_a_difference() -> None:
    """A planted fault: `*/2` hours taken for fixed times would be found."""
    assert Matcher("0 */2 * * *").is_interval
    assert not Matcher("0 0-23/2 * * *").is_interval


@pytest.mark.parametrize("text", ["*", "*/7", "1-5", "0,3,6", "2-6/2", "7"])
def test_the_oracle_reads_a_weekday_field_like_the_engine(text: str) -> None:
    assert Matcher(f"0 0 * * {text}").weekdays == set(parse_field(FIVE[4], text).values())
