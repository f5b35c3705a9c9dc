"""The engine against a minute-by-minute walk that shares nothing with it but the zone files."""

from __future__ import annotations

import pytest
from schedule_oracle import Matcher, soak

from tickwork.core.schedule import walk
from tickwork.core.schedule.cron.field import parse_field
from tickwork.core.schedule.cron.field_kind import FIVE

PAIRS = 300


@pytest.fixture(scope="module")
def report() -> tuple[int, list[str]]:
    return soak(PAIRS, seed=20260301)


def test_no_difference_around_any_change_of_clocks(report: tuple[int, list[str]]) -> None:
    compared, differences = report
    assert differences == []
    assert compared > 100_000  # the expressions do have something to do at night


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("GAP_MAKE_UP_MAX_S", 0),  # nothing is made up
        ("GAP_MAKE_UP_MAX_S", 3_000),  # a gap of an hour counts as no daylight saving
        ("_made_up_prev", lambda *given: given[-1]),  # looking back forgets it
    ],
)
def test_the_oracle_sees_a_planted_fault(monkeypatch: pytest.MonkeyPatch, name: str, fault: object) -> None:
    monkeypatch.setattr(walk, name, fault)
    assert soak(40, seed=5)[1]


@pytest.mark.parametrize("text", ["*", "*/7", "1-5", "0,3,6", "2-6/2", "7"])
def test_the_oracle_reads_a_weekday_field_like_the_engine(text: str) -> None:
    assert Matcher(f"0 0 * * {text}").weekdays == set(parse_field(FIVE[4], text).values())
