"""When each line of a fan-out is due: by its number alone, and evenly over the window."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.jobs.fan_outs import LINES_MAX, Window, is_id, key_of, offset_ms

LENGTHS = st.integers(1, 366 * 86_400_000)


@given(st.integers(1, LINES_MAX), LENGTHS, st.data())
def test_lines_of_a_known_number_are_due_in_their_order_and_within_the_window(
    lines: int, length_ms: int, data: st.DataObject
) -> None:
    line = data.draw(st.integers(0, lines - 1))
    at, after = offset_ms(line, lines, length_ms), offset_ms(min(line + 1, lines - 1), lines, length_ms)
    assert 0 <= at <= after < length_ms


@given(st.integers(1, 4_000), st.integers(1, 60))
def test_each_second_has_as_many_of_them_as_any_other_give_or_take_one(lines: int, seconds: int) -> None:
    window = Window(0, seconds * 1_000, lines)
    each = Counter(window.due_ms(line) // 1_000 for line in range(lines))
    counts = [each[second] for second in range(seconds)]
    assert max(counts) - min(counts) <= 1


@given(st.integers(1, 3_000), st.integers(0, 31))
def test_of_an_unknown_number_the_first_ones_are_spread_evenly_however_many_they_are(lines: int, part: int) -> None:
    """Any interval has its share, give or take two for each power of two (van der Corput's bound)."""
    length_ms, parts = 32_000, 32
    found = sum(1 for line in range(lines) if offset_ms(line, 0, length_ms) * parts // length_ms == part)
    assert abs(found - lines / parts) <= 2 + lines.bit_length()


@given(st.integers(0, LINES_MAX - 1), LENGTHS)
def test_of_an_unknown_number_each_is_within_the_window(line: int, length_ms: int) -> None:
    assert 0 <= offset_ms(line, 0, length_ms) < length_ms


def test_no_two_of_an_unknown_number_are_due_at_one_instant_of_a_wide_window() -> None:
    found = [offset_ms(line, 0, 1 << 32) for line in range(4_096)]
    assert len(set(found)) == len(found)
    assert found[:4] == [0, 1 << 31, 1 << 30, 3 << 30], "each goes into the largest gap"


def test_a_line_behind_the_last_that_was_counted_is_due_at_the_end() -> None:
    assert offset_ms(12, 10, 10_000) == offset_ms(9, 10, 10_000) == 9_000


def test_a_window_without_length_has_all_at_its_start_and_nothing_is_negative() -> None:
    assert Window(5_000, 0, 3).due_ms(2) == 5_000
    for line, length_ms in ((-1, 1), (0, -1)):
        with pytest.raises(ValueError, match="negative"):
            offset_ms(line, 1, length_ms)


def test_a_key_names_one_line_of_one_fan_out() -> None:
    keys = {key_of(name, line) for name in ("a", "a1", "b") for line in range(120)}
    assert len(keys) == 360
    assert is_id("mail-2026.12_a")
    assert not any(is_id(text) for text in ("", "A", "a~b", "-a", "a" * 64, "a\n"))
