"""What must hold for every schedule, in every zone, at every instant."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from schedule_oracle import ODD_ZONES, load

from tickwork.core.schedule import (
    Schedule,
    ScheduleRefused,
    default_tolerance_s,
    describe,
    fire_at_ms,
    next_after,
    occurrences,
    parse_calendar,
    parse_schedule,
    prev_before,
    schedule_from_spec,
    shortest_gap_s,
)
from tickwork.core.schedule.shown.preview import as_rows

YEAR_MS = 366 * 86_400_000
INSTANTS = st.integers(946_684_800_000, 4_102_444_800_000)  # 2000 to 2100


def items(low: int, high: int) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    span = st.tuples(value, value).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, high + 3)
    return st.one_of(
        st.just("*"), value.map(str), span, step.map(lambda n: f"*/{n}"),
        st.tuples(span, step).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    )  # fmt: skip


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    return st.lists(items(low, high), min_size=1, max_size=3).map(",".join)


EXPRESSIONS = st.tuples(fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12), fields(0, 7)).map(" ".join)
POLICIES = st.fixed_dictionaries(
    {
        "gap": st.sampled_from(["run_after", "skip", "shift"]),
        "fold": st.sampled_from(["first", "second", "both"]),
    }
)
CRONS = st.fixed_dictionaries(
    {"cron": EXPRESSIONS, "zone": st.sampled_from([*ODD_ZONES, "UTC", "Pacific/Apia"]), "dst": POLICIES}
)
RATES = st.integers(1, 10_000_000).map(lambda n: {"rate": f"{n}s", "anchor": "2020-02-29T12:00:00Z"})
SPECS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    CRONS,
    CRONS,
    RATES,
    st.lists(st.one_of(CRONS, RATES), min_size=2, max_size=3).map(lambda m: {"any_of": m}),
)


def parsed(spec: dict[str, Any], now_ms: int) -> Schedule:
    try:
        return parse_schedule(spec, now_ms=now_ms)
    except ScheduleRefused as error:
        assume(error.reason != "never_fires")
        raise


@settings(max_examples=150, deadline=None)
@given(SPECS, INSTANTS)
def test_occurrences_strictly_increase_and_prev_is_the_mirror_of_next(spec: dict[str, Any], at: int) -> None:
    schedule = parsed(spec, at)
    first = next_after(schedule, at)
    assert first is not None
    assert first > at
    assert first % 1000 == 0
    second = next_after(schedule, first)
    assert second is not None
    assert second > first
    assert prev_before(schedule, second) == first
    before = prev_before(schedule, first)
    assert before is None or before <= at
    assert before is None or next_after(schedule, before) == first


@settings(max_examples=100, deadline=None)
@given(CRONS, INSTANTS)
def test_the_local_time_shown_is_what_the_zone_says(spec: dict[str, Any], at: int) -> None:
    zone = load(spec["zone"])
    for occurrence in occurrences(parsed(spec, at), at, 5):
        instant = datetime.fromtimestamp(occurrence.scheduled_at_ms / 1000, UTC)
        assert occurrence.local == instant.astimezone(zone).isoformat()


@settings(max_examples=60, deadline=None)
@given(SPECS, INSTANTS, st.integers(1, 9))
def test_a_preview_in_pieces_equals_the_preview_at_once(spec: dict[str, Any], at: int, cut: int) -> None:
    schedule = parsed(spec, at)
    whole = occurrences(schedule, at, 10)
    pieces = occurrences(schedule, at, cut)
    pieces += occurrences(schedule, pieces[-1].scheduled_at_ms, 10 - cut)
    assert as_rows(pieces) == as_rows(whole)


@settings(max_examples=40, deadline=None)
@given(SPECS, INSTANTS)
def test_run_ids_are_unique(spec: dict[str, Any], at: int) -> None:
    found = occurrences(parsed(spec, at), at, 200)
    ids = {sha256(f"team:job|{o.scheduled_at}".encode()).hexdigest()[:32] for o in found}
    assert len(ids) == len(found)


@settings(max_examples=100, deadline=None)
@given(SPECS, INSTANTS)
def test_the_normal_form_reads_back_and_is_its_own_normal_form(spec: dict[str, Any], at: int) -> None:
    schedule = parsed(spec, at)
    assert schedule_from_spec(schedule.spec) == schedule
    assert parse_schedule(schedule.spec, now_ms=at).spec == schedule.spec
    assert describe(schedule)


@settings(max_examples=100, deadline=None)
@given(SPECS, INSTANTS, st.text(min_size=1, max_size=20))
def test_jitter_keeps_the_order_and_never_reaches_the_next(spec: dict[str, Any], at: int, job_id: str) -> None:
    schedule = parsed(spec, at)
    tolerance_s = default_tolerance_s(schedule)
    gap_s = shortest_gap_s(schedule)
    assert gap_s is not None
    assert 0 <= tolerance_s <= max(gap_s // 2, 0)
    first = next_after(schedule, at)
    assert first is not None
    second = next_after(schedule, first)
    assert second is not None
    for tolerance in (tolerance_s, 7_200):
        fired = fire_at_ms(job_id, first, tolerance, second)
        assert first <= fired < second
        assert fired == fire_at_ms(job_id, first, tolerance, second)


CALENDAR = parse_calendar({
    "name": "c", "zone": "Europe/Berlin", "dates": ["2026-12-24"], "weekly": ["sat", "sun"],
    "ranges": [{"from": "2026-12-27", "to": "2027-01-01"}], "holidays": ["12-25", "easter-2", "easter+1"],
})  # fmt: skip
FIXED = st.tuples(st.integers(0, 59), st.integers(0, 23), st.sampled_from(["*", "1-5", "6,0", "0"])).map(
    lambda t: f"{t[0]} {t[1]} * * {t[2]}"
)


@settings(max_examples=60, deadline=None)
@given(FIXED, st.sampled_from(["skip", "next_working_day"]), st.integers(1_760_000_000_000, 1_820_000_000_000))
def test_nothing_runs_on_an_excluded_day_and_order_holds(text: str, how: str, at: int) -> None:
    spec = {"cron": text, "zone": "Europe/Berlin", "calendars": {"exclude": ["c"], "on_excluded": how}}
    schedule, known = schedule_from_spec(parse_schedule_spec(spec, at)), {"c": CALENDAR}
    last = at
    for _ in range(8):
        found = next_after(schedule, last, known)
        if found is None:
            assert how == "skip"
            return
        assert found > last
        assert not CALENDAR.excludes(found)
        if last != at:
            assert prev_before(schedule, found, known) == last
        last = found


def parse_schedule_spec(spec: dict[str, Any], at: int) -> dict[str, Any]:
    return parse_schedule(spec, now_ms=at).spec
