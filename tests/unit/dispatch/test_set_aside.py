"""Set-aside rows: what they cover, how they grow, and what their writes are conditional on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import NOW_MS
from tickwork.core.dispatch import set_aside
from tickwork.core.dispatch.backlog import place
from tickwork.core.dispatch.set_aside import Extent, SetAside, Who
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_who, who_key
from tickwork.core.ledger.tables import SET_ASIDE
from tickwork.core.ledger.writes import Committed, Refused
from tickwork.testing.memory import MemoryStore

NOW_S = NOW_MS // 1_000
SLICE = "main#0000"
KEYS = st.builds(
    lambda shard, second, name: LedgerKey("main", shard, second * 1_000, "shop", name, second * 1_000),
    st.integers(0, 9),
    st.integers(NOW_S, NOW_S + 300),
    st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True),
)
NAMES = st.from_regex(r"[a-z0-9:._#-]{0,40}", fullmatch=True)


@given(st.sampled_from(("pool", "shard", "job", "jobs", "all")), NAMES)
def test_whom_a_row_waits_for_is_parsed_back(kind: str, name: str) -> None:
    assert parse_who(who_key(kind, name)) == (kind, name)


@given(st.text(max_size=20).filter(lambda text: "#" not in text))
def test_what_names_nobody_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the key"):
        parse_who(text)


@given(KEYS)
def test_a_row_of_one_item_covers_it(key: LedgerKey) -> None:
    (row,) = set_aside.taking_in({}, SLICE, {set_aside.pool("bad"): set_aside.extent_of(key)}, NOW_S).values()
    assert row.covers(key)
    assert set_aside.extent_of(key).place < place(key)
    assert not replace(row, place=place(key)).covers(key), "nothing at or before its place is left"


@given(st.lists(KEYS, min_size=1, max_size=8))
def test_a_row_that_is_widened_covers_all_that_it_took_in(keys: list[LedgerKey]) -> None:
    rows: dict[Who, SetAside] = {}
    for key in keys:
        rows = set_aside.taking_in(rows, SLICE, {set_aside.pool("bad"): set_aside.extent_of(key)}, NOW_S)
    assert len(rows) == 1
    assert all(set_aside.any_covers(rows.values(), key) for key in keys)


@given(KEYS, KEYS)
def test_a_row_covers_what_is_its_own_only(mine: LedgerKey, other: LedgerKey) -> None:
    extent = set_aside.extent_of(mine).hull(set_aside.extent_of(other))
    by_shard, by_job = set_aside.shard(mine.shard), set_aside.job(mine.job_id)
    rows = set_aside.taking_in({}, SLICE, {by_shard: extent, by_job: extent}, NOW_S)
    assert rows[by_shard].covers(other) == (other.shard == mine.shard)
    assert rows[by_job].covers(other) == (other.job_id == mine.job_id)


def a_row(who: Who = set_aside.pool("bad"), tries: int = 0) -> SetAside:  # noqa: B008 - it is a frozen value
    return SetAside(SLICE, who, NOW_S, NOW_S + 9, "00000001#0000#", NOW_S + 1, tries)


def test_the_row_of_a_pool_does_not_cover_the_timers_of_another() -> None:
    key = LedgerKey("main", 0, NOW_MS, "shop", "a", NOW_MS)
    assert a_row().covers(key, "bad")
    assert a_row().covers(key), "an occurrence of a job does not say whose it is"
    assert not a_row().covers(key, "default")


def test_a_slice_has_so_many_rows_and_one_more_for_all() -> None:
    extent = Extent(NOW_S, NOW_S, "x")
    left = {set_aside.job(f"shop:{n:03d}"): extent for n in range(set_aside.ROWS_MAX + 20)}
    rows = set_aside.taking_in({}, SLICE, left, NOW_S)
    assert len(rows) == set_aside.ROWS_MAX + 1
    assert set_aside.EVERYBODY in rows


def test_tries_grow_apart_up_to_a_bound_and_one_that_gets_on_is_followed_at_once() -> None:
    row, distances = a_row(), []
    for _ in range(12):
        row = set_aside.failed_again(row, NOW_S)
        distances.append(row.next_try_s - NOW_S)
    assert distances[:4] == [1, 2, 4, 8]
    assert distances[-1] == set_aside.NEXT_TRY_S_MAX["pool"]
    assert row.is_held(NOW_S)
    row = set_aside.served_up_to(row, "99999999#0000#", NOW_S)
    assert (row.tries, row.next_try_s) == (0, NOW_S + 1)
    assert not row.is_held(NOW_S)


def test_a_row_is_read_back_and_one_of_another_version_is_told() -> None:
    row = a_row(set_aside.job("shop:job"), 3)
    assert SetAside.from_item(row.to_item()) == row
    newer = row.to_item() | {"since": 7}
    assert SetAside.from_item(newer).to_item() == newer, "what a newer version adds is carried"
    with pytest.raises(Unreadable):
        SetAside.from_item({"slice": SLICE, "who": "pool#bad"})


def test_a_write_that_arrives_late_finds_another_row_and_is_refused() -> None:
    store, row = MemoryStore(), a_row()
    wider = replace(row, until=row.until + 60)
    assert isinstance(store.commit(set_aside.writes({}, {row.who: row})), Committed)
    late = set_aside.writes({row.who: row}, {})
    assert isinstance(store.commit(set_aside.writes({row.who: row}, {row.who: wider})), Committed)
    assert isinstance(store.commit(late), Refused), "it would have deleted what was set aside since"
    assert [SetAside.from_item(item) for item in store.items(SET_ASIDE)] == [wider]


def test_rows_that_did_not_change_are_not_written() -> None:
    assert set_aside.writes({a_row().who: a_row()}, {a_row().who: a_row()}) == []
    assert set_aside.earliest({}) == 0
    assert set_aside.earliest({a_row().who: a_row()}) == NOW_S + 1


@pytest.mark.parametrize("moving", [False, True])
def test_rows_that_are_about_to_be_served_reach_up_to_the_cursor_and_never_back(moving: bool) -> None:
    team, shard = set_aside.team("big"), set_aside.shard(3)
    rows = {who: a_row(who) for who in (team, shard)}
    until = rows[team].until + 50
    after = set_aside.covered(rows, [team, shard], until, moving=moving)
    assert {row.until for row in after.values()} == {until}, "a step may put a next occurrence anywhere behind it"
    again = set_aside.covered(after, after, until - 20, moving=moving)
    assert {row.until for row in again.values()} == {until}
    assert set(after) == {team, set_aside.EVERYBODY if moving else shard}
