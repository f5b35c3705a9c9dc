"""The store behind a team's wall: whatever a flow asks, another team's items are not there."""

from __future__ import annotations

import pytest

from tickwork.core.access.pagers import TESTS
from tickwork.core.access.pools import POOLS, SHARES, pool_id
from tickwork.core.access.teams import REGISTERED, SEEN
from tickwork.core.access.walls import _TEAMS_PARTITIONS, TEAM_OF, may_list, may_read, may_touch, team_of
from tickwork.core.errors import InvariantViolated, NotFound
from tickwork.core.ledger.tables import (
    ALL_TABLES,
    BY_JOB,
    BY_TEAM,
    CALENDARS,
    JOBS,
    LEASES,
    RESOURCES,
    TEAMS,
    TIMERS,
    Table,
)
from tickwork.core.ledger.writes import Anyway, Check, Committed, Delete, Is, Item, Put, Update
from tickwork.flows.access.walled import WalledStore
from tickwork.testing.memory import MemoryStore

OURS, THEIRS = "payments", "payments.eu"
"""One name begins with the other: a wall that compares beginnings has a hole."""


def run(team: str, second: int = 60) -> Item:
    return {"pk": "main#0000#00000001", "sk": f"{second:010d}#{team}#nightly#0000000060", "job_id": f"{team}:nightly"}


@pytest.fixture
def both() -> MemoryStore:
    store = MemoryStore()
    for team in (OURS, THEIRS):
        store.commit([Put(JOBS, {"job_id": f"{team}:nightly", "team": team}, Anyway("set up"))])
        store.commit([Put(TIMERS, run(team) | {"scheduled_at_ms": 1}, Anyway("set up"))])
        store.commit([Put(RESOURCES, {"resource": f"{team}#db", "slot": "0001"}, Anyway("set up"))])
    return store


@pytest.fixture
def walled(both: MemoryStore) -> WalledStore:
    return WalledStore(both, OURS)


def test_every_table_says_whose_its_items_are() -> None:
    assert TEAM_OF.keys() == {table.name for table in ALL_TABLES}
    with pytest.raises(InvariantViolated):
        team_of(Table("new", "id"), {"id": "x"})


def test_a_partition_of_many_teams_shows_ones_own_items(walled: WalledStore) -> None:
    page = walled.query(TIMERS, "main#0000#00000001", "0", "~", limit=10)
    assert [item["job_id"] for item in page.items] == [f"{OURS}:nightly"]


def test_a_page_of_others_items_goes_on_behind_them(walled: WalledStore) -> None:
    first = walled.query(TIMERS, "main#0000#00000001", "0", "~", limit=1)
    second = walled.query(TIMERS, "main#0000#00000001", "0", "~", limit=1, after=first.more)
    assert len(first.items) + len(second.items) == 1


def test_anothers_partition_and_index_are_empty(walled: WalledStore) -> None:
    assert walled.query(RESOURCES, f"{THEIRS}#db", "0", "~", limit=10).items == ()
    assert len(walled.query(RESOURCES, f"{OURS}#db", "0", "~", limit=10).items) == 1
    for team, count in ((OURS, 1), (THEIRS, 0)):
        by_team, _ = walled.query_index(JOBS, BY_TEAM, team, limit=10, after=None, descending=False)
        by_job, _ = walled.query_index(TIMERS, BY_JOB, f"{team}:nightly", limit=10, after=None, descending=False)
        assert (len(by_team), len(by_job)) == (count, count)


def test_a_scan_and_a_read_of_many_leave_others_out(walled: WalledStore) -> None:
    assert [item["team"] for item in walled.scan(JOBS, limit=10, after=None)[0]] == [OURS]
    keys: list[Item] = [{"job_id": f"{team}:nightly"} for team in (THEIRS, OURS)]
    found = walled.get_many(JOBS, keys)
    assert found[0] is None
    assert found[1] is not None


def test_no_write_reaches_anothers_item_alone_or_in_a_transaction(both: MemoryStore, walled: WalledStore) -> None:
    theirs: Item = {"job_id": f"{THEIRS}:nightly"}
    own = Update(JOBS, {"job_id": f"{OURS}:nightly"}, Is("team", OURS), set={"version": 2})
    writes = (
        Put(JOBS, theirs, Anyway("a test")),
        Update(JOBS, theirs, Anyway("a test"), set={"version": 2}),
        Delete(JOBS, theirs, Anyway("a test")),
        Check(JOBS, theirs, Is("team", THEIRS)),
    )
    for write in writes:
        with pytest.raises(NotFound):
            walled.commit([write])
        with pytest.raises(NotFound):
            walled.commit([own, write])
    with pytest.raises(NotFound):
        walled.get(JOBS, theirs)
    assert both.get(JOBS, theirs) == {"job_id": f"{THEIRS}:nightly", "team": THEIRS}
    assert isinstance(walled.commit([own]), Committed)


def test_what_belongs_to_the_service_is_there_for_all(walled: WalledStore) -> None:
    """A creator has to see how far a slice has come, whoever he is (no-lost-timer)."""
    assert isinstance(walled.commit([Put(LEASES, {"slice": "main#0000"}, Anyway("a test"))]), Committed)
    assert walled.get(LEASES, {"slice": "main#0000"}) is not None


def test_calendars_of_a_jobs_schedule_are_read_as_dispatch_reads_them_where_none_can_be_named() -> None:
    store = MemoryStore()
    theirs: Item = {"calendar_id": f"{THEIRS}:freeze"}
    store.commit([Put(CALENDARS, theirs, Anyway("set up"))])
    assert WalledStore(store, OURS).get_many(CALENDARS, [theirs]) == [None]
    open_to_dispatch = WalledStore(store, OURS, sees_calendars=True)
    assert open_to_dispatch.get_many(CALENDARS, [theirs]) == [theirs]
    assert open_to_dispatch.get_many(JOBS, [{"job_id": f"{THEIRS}:nightly"}]) == [None]
    with pytest.raises(NotFound):
        open_to_dispatch.get(CALENDARS, theirs)


def test_the_platforms_calendars_are_read_and_not_written() -> None:
    key: Item = {"calendar_id": "platform:holidays"}
    assert may_read(CALENDARS, key, OURS)
    assert not may_touch(CALENDARS, key, OURS)
    assert not may_read(JOBS, {"job_id": "platform:nightly"}, OURS)


@pytest.mark.parametrize("owner", ["platform", THEIRS])
def test_what_may_be_read_may_not_be_written_for_that(both: MemoryStore, owner: str) -> None:
    key: Item = {"calendar_id": f"{owner}:holidays"}
    both.commit([Put(CALENDARS, key | {"version": 1}, Anyway("set up"))])
    for store in (WalledStore(both, OURS), WalledStore(both, OURS, sees_calendars=True)):
        writes = (
            Put(CALENDARS, key | {"version": 2}, Anyway("x")),
            Update(CALENDARS, key, Anyway("x"), set={"version": 2}),
            Delete(CALENDARS, key, Anyway("x")),
        )
        for write in writes:
            with pytest.raises(NotFound):
                store.commit([write])
    assert both.get(CALENDARS, key) == key | {"version": 1}


def test_of_the_platforms_partitions_a_team_asks_for_those_of_calendars_alone() -> None:
    partitions = {"": "platform", ":": "platform:x", "#": "platform#x"}
    for (table, index), sign in _TEAMS_PARTITIONS.items():
        found = next(one for one in ALL_TABLES if one.name == table)
        assert may_list(found, index, partitions[sign], OURS) == (table == CALENDARS.name), (table, index)


def test_a_share_is_its_lenders_to_touch_and_nothing_else_that_is_called_alike() -> None:
    for cell in (SHARES, POOLS, TESTS, REGISTERED, SEEN):
        key = {"cell": cell, "team": f"{THEIRS}#{pool_id(OURS, 'fast')}"}
        assert may_touch(TEAMS, key, OURS) == (cell == SHARES), cell
