"""Keys: what is built can be parsed, and byte order is time order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.ids import one_shot_name, parse_one_shot_name
from tickwork.core.instants import LATEST_INSTANT_MS
from tickwork.core.ledger.keys import (
    LedgerKey,
    bucket_of,
    parse_ledger_key,
    parse_ref,
    partition_of,
    second_in,
    second_range,
)

SECONDS = st.integers(0, LATEST_INSTANT_MS // 1_000 - 1)
SLUGS = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?", fullmatch=True)
KEYS = st.builds(
    lambda cell, shard, fire, team, name, scheduled, kind: LedgerKey(
        cell, shard, fire * 1_000, team, name, scheduled * 1_000, kind
    ),
    st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True),
    st.integers(0, 9_999),
    SECONDS,
    SLUGS,
    SLUGS,
    SECONDS,
    st.sampled_from(("", "retry.2", "retry.17")),
)


@given(KEYS)
def test_a_key_that_was_built_is_parsed_back(key: LedgerKey) -> None:
    assert parse_ledger_key(key.pk, key.sk) == key
    assert parse_ref(key.ref) == key
    assert second_in(key.sk) == key.fire_second


def test_the_last_key_is_as_wide_as_the_first() -> None:
    """Some years beyond the last instant a bucket has nine digits: it could not be parsed, and would sort wrongly."""
    first, last = (LedgerKey("main", 0, at_ms, "pay", "x", at_ms) for at_ms in (0, LATEST_INSTANT_MS - 1_000))
    assert (len(first.pk), len(first.sk)) == (len(last.pk), len(last.sk))
    assert parse_ref(last.ref) == last


@given(KEYS, KEYS)
def test_sort_keys_are_in_the_order_of_their_seconds(one: LedgerKey, other: LedgerKey) -> None:
    if one.fire_second < other.fire_second:
        assert one.sk < other.sk


@given(SECONDS, SECONDS)
def test_partitions_of_a_shard_are_in_the_order_of_time(one: int, other: int) -> None:
    first, last = sorted((one, other))
    assert partition_of("main", 3, bucket_of(first)) <= partition_of("main", 3, bucket_of(last))


@given(KEYS, st.integers(0, 120), st.integers(0, 120))
def test_a_range_of_seconds_holds_exactly_what_is_due_in_it(key: LedgerKey, before: int, length: int) -> None:
    first = max(0, key.fire_second - before)
    last = first + length
    low, high = second_range(first, last)
    assert (low <= key.sk <= high) == (first <= key.fire_second <= last)


@given(st.integers(0, 9_999), SECONDS, st.from_regex(r"[0-9a-f]{8,40}", fullmatch=True))
def test_a_one_shots_name_says_where_it_is(shard: int, second: int, unique: str) -> None:
    assert parse_one_shot_name(one_shot_name("main", shard, second, unique)) == ("main", shard, second, unique)


@given(SLUGS)
def test_a_jobs_name_is_never_a_one_shots(name: str) -> None:
    assert parse_one_shot_name(name) is None
