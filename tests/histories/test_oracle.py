"""The oracle of skips: it says by arithmetic when simple schedules are due, and agrees with the engine about it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.oracle import Missed, occurrences, why_firing_is_wrong, why_skip_is_wrong
from tests.simulator.zones import CLOCK_CHANGES
from tickwork.core.schedule import next_after, parse_schedule, schedule_from_spec

NOW_MS = 1_796_000_400_000
HOUR_MS = 3_600_000
EVERY_20_S: dict[str, Any] = {"rate": "20 seconds", "anchor": "2026-01-01T00:00:03Z"}
CRONS = ("* * * * *", "*/2 * * * *", "5,20,35,50 * * * *", "0,1,2,3,4,5 1,2,3 * * *", "0 2,3 * * *")


def engine(spec: dict[str, Any], after_ms: int, until_ms: int) -> list[int]:
    normal = parse_schedule(spec, now_ms=after_ms, job_id="pay:x").spec
    schedule, found = schedule_from_spec(normal), []
    at_ms = next_after(schedule, after_ms)
    while at_ms is not None and at_ms <= until_ms:
        found.append(at_ms)
        at_ms = next_after(schedule, at_ms)
    return found


def missed(policy: str, late_s: int, *, last: int = 0, max_lateness_s: int = 0) -> Missed:
    """An occurrence of `EVERY_20_S` in the hands of somebody whose clock says that it is so late."""
    at_ms = occurrences(EVERY_20_S, NOW_MS, NOW_MS + 20_000)[0]  # type: ignore[index]
    now_ms = at_ms + late_s * 1_000
    return Missed(at_ms, at_ms, 0, policy, last, max_lateness_s * 1_000, 0, now_ms, now_ms)


@pytest.mark.parametrize(("change_ms", "zone"), CLOCK_CHANGES)
@pytest.mark.parametrize("cron", CRONS)
def test_it_agrees_with_the_engine_around_every_change_of_clocks(cron: str, change_ms: int, zone: str) -> None:
    spec, span = {"cron": cron, "zone": zone}, (change_ms - HOUR_MS, change_ms + HOUR_MS * 3 // 2)
    assert occurrences(spec, *span) == engine(spec, *span)


def test_it_agrees_with_the_engine_about_rates() -> None:
    assert occurrences(EVERY_20_S, NOW_MS, NOW_MS + HOUR_MS) == engine(EVERY_20_S, NOW_MS, NOW_MS + HOUR_MS)


def test_it_says_nothing_about_what_it_does_not_know() -> None:
    assert occurrences({**EVERY_20_S, "count": 3}, NOW_MS, NOW_MS + HOUR_MS) is None
    assert occurrences({"at": "2026-11-30T02:00:00Z"}, NOW_MS, NOW_MS + HOUR_MS) is None


def test_six_seconds_are_no_outage() -> None:
    assert why_skip_is_wrong(missed("latest", 6), "skipped_outage", EVERY_20_S, is_first=True) is not None


def test_what_was_missed_with_newer_ones_behind_it_is_skipped() -> None:
    assert why_skip_is_wrong(missed("latest", 90), "skipped_outage", EVERY_20_S, is_first=True) is None
    assert why_firing_is_wrong(missed("latest", 90), EVERY_20_S) is not None


def test_a_job_that_wants_the_last_five_has_them() -> None:
    assert why_skip_is_wrong(missed("last", 90, last=5), "skipped_outage", EVERY_20_S, is_first=True) is not None
    assert why_firing_is_wrong(missed("last", 90, last=5), EVERY_20_S) is None


def test_a_job_that_catches_up_with_all_skips_only_what_is_too_late() -> None:
    assert why_skip_is_wrong(missed("all", 90), "skipped_outage", EVERY_20_S, is_first=True) is not None
    assert why_skip_is_wrong(missed("all", 90, max_lateness_s=70), "too_late", EVERY_20_S, is_first=True) is None
    assert why_skip_is_wrong(missed("all", 65, max_lateness_s=70), "too_late", EVERY_20_S, is_first=True) is not None


def test_a_job_that_catches_up_with_none_fires_nothing_that_was_missed() -> None:
    assert why_firing_is_wrong(missed("none", 90), EVERY_20_S) is not None
    assert why_firing_is_wrong(missed("none", 30), EVERY_20_S) is None
