"""What every store must do, as sentences of `ports.Store`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tickwork.core.access.actors import LOCAL
from tickwork.core.access.entries import Head, digest_of, put_entry
from tickwork.core.access.teams import PagerRoute, Quotas, TeamContent
from tickwork.core.dispatch import set_aside, slices
from tickwork.core.dispatch.set_aside import SetAside
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import Conflict, InvariantViolated, OutcomeUnknown, RevokedKey, Throttled, UnknownTeam
from tickwork.core.instants import DAY_MS
from tickwork.core.jobs.definitions import Definition, Job
from tickwork.core.jobs.versions import JobVersion, renewals, replaced
from tickwork.core.ledger.keys import ALL_WHO, versions_reaching
from tickwork.core.ledger.tables import (
    AUDIT,
    BAD_ENDS,
    BY_GROUP,
    BY_JOB,
    BY_TEAM,
    JOB_VERSIONS,
    JOBS,
    JOBS_BY_GROUP,
    LEASES,
    PAYLOADS,
    SET_ASIDE,
    TIMERS,
)
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import (
    Absent,
    Anyway,
    AtLeast,
    Below,
    Check,
    Committed,
    Delete,
    Is,
    Missing,
    Put,
    Refused,
    Update,
    all_of,
    any_of,
)
from tickwork.core.schedule import parse_schedule
from tickwork.flows.access import keys, registry, teams
from tickwork.flows.access.authenticating import KnownKeys
from tickwork.flows.access.keys import Wanted
from tickwork.flows.access.recording import call_on_many
from tickwork.flows.audit import entries, sealing, verifying
from tickwork.flows.audit.entries import Wanted as EntriesWanted
from tickwork.flows.audit.repairs import Repairs, deadline_in
from tickwork.flows.jobs import changing, dissolving, registering
from tickwork.ports import Store

THREADS, ROUNDS = 8, 6


def timer(pk: str, sk: str, **attributes: Any) -> dict[str, Any]:
    return {"pk": pk, "sk": sk, "status": "pending", **attributes}


def put(store: Store, *items: dict[str, Any]) -> None:
    for item in items:
        assert isinstance(store.commit([Put(TIMERS, item, Absent())]), Committed)


def test_an_item_comes_back_as_it_was_put(store: Store) -> None:
    item = timer("p", "s", n=7, big=1_793_318_400_000, yes=True, no=False, none=None, text="é~|#", attempts=[{"a": 1}])
    put(store, item)
    assert store.get(TIMERS, {"pk": "p", "sk": "s"}) == item


def test_integers_and_booleans_keep_their_types(store: Store) -> None:
    put(store, timer("p", "s", one=1, true=True, zero=0, negative=-5))
    item = store.get(TIMERS, {"pk": "p", "sk": "s"})
    assert item is not None
    assert [type(item[name]) for name in ("one", "true", "zero", "negative")] == [int, bool, int, int]


def test_what_is_not_there_is_none(store: Store) -> None:
    assert store.get(TIMERS, {"pk": "p", "sk": "s"}) is None
    assert store.get(LEASES, {"slice": "nobody"}) is None


def test_many_are_answered_in_the_order_of_the_keys(store: Store) -> None:
    put(store, *(timer("p", f"{n:03d}", n=n) for n in range(120)))
    keys = [{"pk": "p", "sk": f"{n:03d}"} for n in (119, 3, 500, 0, *range(5, 110))]
    found = store.get_many(TIMERS, keys)
    assert [None if item is None else item["n"] for item in found] == [119, 3, None, 0, *range(5, 110)]


def test_a_query_answers_a_range_in_order_of_the_sort_key(store: Store) -> None:
    put(
        store,
        *(timer("p", sk) for sk in ("0009#b", "0010#a", "0010#a#retry.2", "0011#~", "0012#a")),
        timer("q", "0010#x"),
    )
    page = store.query(TIMERS, "p", "0010#", "0011#~", limit=10)
    assert [item["sk"] for item in page.items] == ["0010#a", "0010#a#retry.2", "0011#~"]
    assert page.more is None


def test_a_query_goes_on_where_a_page_ended(store: Store) -> None:
    put(store, *(timer("p", f"{n:02d}") for n in range(7)))
    found, after = [], None
    for _ in range(10):
        page = store.query(TIMERS, "p", "01", "05", limit=2, after=after)
        found += [item["sk"] for item in page.items]
        after = page.more
        if after is None:
            break
    assert found == ["01", "02", "03", "04", "05"]


def test_a_query_goes_backwards_from_where_a_page_ended(store: Store) -> None:
    put(store, *(timer("p", f"{n:02d}") for n in range(7)))
    found, after = [], None
    for _ in range(10):
        page = store.query(TIMERS, "p", "01", "05", limit=2, after=after, descending=True)
        found += [item["sk"] for item in page.items]
        after = page.more
        if after is None:
            break
    assert found == ["05", "04", "03", "02", "01"]


def test_a_query_of_an_empty_partition_is_an_empty_page(store: Store) -> None:
    page = store.query(TIMERS, "nobody", "0", "9", limit=3)
    assert (page.items, page.more) == ((), None)


def test_absent_refuses_what_is_there_and_shows_it(store: Store) -> None:
    put(store, timer("p", "s", n=1))
    result = store.commit([Put(TIMERS, timer("p", "s", n=2), Absent())])
    assert result == Refused({0: timer("p", "s", n=1)})
    assert store.get(TIMERS, {"pk": "p", "sk": "s"}) == timer("p", "s", n=1)


def test_an_update_of_nothing_is_refused_with_none(store: Store) -> None:
    result = store.commit([Update(TIMERS, {"pk": "p", "sk": "s"}, Is("status", "pending"), set={"n": 1})])
    assert isinstance(result, Refused)
    assert result.only is None


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (Is("status", "pending"), True),
        (Is("status", "running"), False),
        (Is("token", 3), True),
        (Is("token", 4), False),
        (Is("gone", 1), False),
        (Missing("gone"), True),
        (Missing("token"), False),
        (Below("token", 4), True),
        (Below("token", 3), False),
        (Below("gone", 9), False),
        (AtLeast("token", 3), True),
        (AtLeast("token", 4), False),
        (AtLeast("gone", 0), False),
        (any_of(Missing("gone"), AtLeast("gone", 1)), True),
        (all_of(Is("status", "pending"), Is("token", 3)), True),
        (all_of(Is("status", "pending"), Is("token", 4)), False),
        (any_of(Absent(), all_of(Is("status", "pending"), Missing("gone"))), True),
        (any_of(Absent(), Is("status", "running")), False),
        (Anyway("a test"), True),
    ],
    ids=str,
)
def test_a_condition_decides(store: Store, condition: Any, holds: bool) -> None:
    put(store, timer("p", "s", token=3))
    result = store.commit([Update(TIMERS, {"pk": "p", "sk": "s"}, condition, set={"mark": 1})])
    assert isinstance(result, Committed) is holds
    assert ("mark" in (store.get(TIMERS, {"pk": "p", "sk": "s"}) or {})) is holds


def test_conditions_on_nothing_hold_only_for_what_may_be_missing(store: Store) -> None:
    never = (Below("x", 1), AtLeast("x", 1), Is("x", 1))
    for condition, holds in ((Absent(), True), (Missing("x"), True), *((one, False) for one in never)):
        result = store.commit([Put(TIMERS, timer("p", str(condition)), condition)])
        assert isinstance(result, Committed) is holds, condition


def test_an_update_sets_removes_and_appends_and_answers_the_item(store: Store) -> None:
    put(store, timer("p", "s", claim="me", lease=5))
    change = {
        "set": {"status": "running", "token": 1},
        "remove": ("claim", "never"),
        "append": {"attempts": [{"n": 1}]},
    }
    first = store.commit([Update(TIMERS, {"pk": "p", "sk": "s"}, Is("status", "pending"), **change)])
    assert first == Committed(timer("p", "s", status="running", token=1, lease=5, attempts=[{"n": 1}]))
    more = Update(TIMERS, {"pk": "p", "sk": "s"}, Is("token", 1), append={"attempts": [{"n": 2}, {"n": 3}]})
    assert store.commit([more]).item["attempts"] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_an_update_adds_to_a_number_that_may_not_be_there_and_many_at_once_add_up(store: Store) -> None:
    key = {"pk": "p", "sk": "counter"}
    open_until_nine = any_of(Missing("n"), Below("n", 9))

    def add(_: int) -> bool:
        for _ in range(50):  # a store may say that it is busy
            try:
                return isinstance(store.commit([Update(TIMERS, key, open_until_nine, add={"n": 2})]), Committed)
            except (Conflict, Throttled):
                continue
        raise AssertionError("it was busy for fifty tries")

    with ThreadPoolExecutor(4) as pool:
        passed = sum(pool.map(add, range(12)))
    assert (passed, store.get(TIMERS, key)) == (5, key | {"n": 10})
    less = Update(TIMERS, key, Is("n", 10), set={"a": 1}, remove=("b",), add={"n": -4, "m": 3})
    assert store.commit([less]) == Committed(key | {"n": 6, "a": 1, "m": 3})


def test_a_put_replaces_the_whole_item(store: Store) -> None:
    put(store, timer("p", "s", old=1))
    store.commit([Put(TIMERS, timer("p", "s", new=2), Is("old", 1))])
    assert store.get(TIMERS, {"pk": "p", "sk": "s"}) == timer("p", "s", new=2)


def test_a_delete_deletes_if_its_condition_holds(store: Store) -> None:
    put(store, timer("p", "s", token=1))
    refused = store.commit([Delete(TIMERS, {"pk": "p", "sk": "s"}, Is("token", 2))])
    assert isinstance(refused, Refused)
    assert isinstance(store.commit([Delete(TIMERS, {"pk": "p", "sk": "s"}, Is("token", 1))]), Committed)
    assert store.get(TIMERS, {"pk": "p", "sk": "s"}) is None
    assert store.query(TIMERS, "p", "0", "~", limit=5).items == ()


def test_a_transaction_writes_all(store: Store) -> None:
    put(store, timer("p", "a"))
    result = store.commit(
        [
            Check(TIMERS, {"pk": "p", "sk": "a"}, Is("status", "pending")),
            Put(TIMERS, timer("q", "b"), Absent()),
            Update(LEASES, {"slice": "x"}, Missing("token"), set={"token": 1}),
        ]
    )
    assert result == Committed()
    assert store.get(TIMERS, {"pk": "q", "sk": "b"}) == timer("q", "b")
    assert store.get(LEASES, {"slice": "x"}) == {"slice": "x", "token": 1}


def test_a_refused_transaction_writes_nothing_and_names_each_refusal(store: Store) -> None:
    put(store, timer("p", "a", token=1), timer("p", "b"))
    result = store.commit(
        [
            Put(TIMERS, timer("q", "new"), Absent()),
            Check(TIMERS, {"pk": "p", "sk": "a"}, Is("token", 2)),
            Update(TIMERS, {"pk": "p", "sk": "b"}, Is("status", "pending"), set={"n": 1}),
            Update(TIMERS, {"pk": "p", "sk": "gone"}, Is("status", "pending"), set={"n": 1}),
        ]
    )
    assert result == Refused({1: timer("p", "a", token=1), 3: None})
    assert store.get(TIMERS, {"pk": "q", "sk": "new"}) is None
    assert store.get(TIMERS, {"pk": "p", "sk": "b"}) == timer("p", "b")


def test_the_rows_of_a_slice_go_with_a_write_of_its_lease_or_not_at_all(store: Store) -> None:
    lease = SliceLease("main#0000", token=3, done=10)
    extent = set_aside.Extent(11, 12, "00000000#0000#")
    rows = set_aside.taking_in({}, lease.slice, {set_aside.pool("bad"): extent, set_aside.shard(2): extent}, 12)
    store.commit([Put(LEASES, lease.to_item(), Absent())])
    passing = slices.with_next_try(slices.advance(lease, 12, release=False), 13)
    foreign = slices.with_next_try(slices.advance(replace(lease, token=2), 12, release=False), 13)
    assert isinstance(store.commit([foreign, *set_aside.writes({}, rows)]), Refused)
    assert store.query(SET_ASIDE, lease.slice, *ALL_WHO, limit=9).items == ()
    assert store.commit([passing, *set_aside.writes({}, rows)]) == Committed()
    found = store.query(SET_ASIDE, lease.slice, *ALL_WHO, limit=9).items
    assert {row.who: row for row in map(SetAside.from_item, found)} == rows

    wider = set_aside.taking_in(rows, lease.slice, {set_aside.pool("bad"): set_aside.Extent(9, 20, "0")}, 20)
    store.commit(set_aside.writes(rows, wider))
    refused = store.commit(set_aside.writes(rows, {}))
    assert isinstance(refused, Refused), "one of them is not as it was read"
    assert len(store.query(SET_ASIDE, lease.slice, *ALL_WHO, limit=9).items) == 2
    assert isinstance(store.commit(set_aside.writes(wider, {})), Committed)
    assert store.query(SET_ASIDE, lease.slice, *ALL_WHO, limit=9).items == ()


def test_a_transaction_may_have_a_hundred_writes(store: Store) -> None:
    writes = [Put(TIMERS, timer("p", f"{n:03d}"), Absent()) for n in range(100)]
    assert store.commit(writes) == Committed()
    assert len(store.query(TIMERS, "p", "0", "~", limit=200).items) == 100


def test_the_same_item_twice_in_a_transaction_is_our_mistake(store: Store) -> None:
    twice = [Put(TIMERS, timer("p", "s"), Absent()), Check(TIMERS, {"pk": "p", "sk": "s"}, Absent())]
    with pytest.raises(InvariantViolated):
        store.commit(twice)


def test_an_index_finds_keys_in_either_order_and_pages(store: Store) -> None:
    for n in range(5):
        put(store, timer(f"p{n}", "s", job_id="pay:nightly", scheduled_at_ms=n * 1_000))
    put(store, timer("px", "s", job_id="pay:other", scheduled_at_ms=1), timer("py", "s"))
    down, position = store.query_index(TIMERS, BY_JOB, "pay:nightly", limit=3, after=None, descending=True)
    assert [key["scheduled_at_ms"] for key in down] == [4_000, 3_000, 2_000]
    rest, position = store.query_index(TIMERS, BY_JOB, "pay:nightly", limit=3, after=position, descending=True)
    assert ([key["scheduled_at_ms"] for key in rest], position) == ([1_000, 0], None)
    up, _ = store.query_index(TIMERS, BY_JOB, "pay:nightly", limit=9, after=None, descending=False)
    assert [(key["pk"], key["sk"]) for key in up] == [(f"p{n}", "s") for n in range(5)]


def test_an_index_of_labels_has_what_bears_one_and_loses_what_does_not_any_more(store: Store) -> None:
    for number, group in enumerate(("pay#night#0", "pay#night#0", "pay#day#0", None)):
        marks = {} if group is None else {"grouped": group}
        item = {"pk": "main#0000#00000001", "sk": f"000000006{number}#pay#t#0", "scheduled_at_ms": 60_000 + number}
        store.commit([Put(TIMERS, item | marks, Absent())])
    found, _ = store.query_index(
        TIMERS, BY_GROUP, "pay#night#0", limit=9, after=None, descending=False, between=(60_000, 99_000)
    )
    assert [one["scheduled_at_ms"] for one in found] == [60_000, 60_001]
    job = {"job_id": "pay:nightly", "team": "pay", "grouped": "pay#night", "version": 1}
    store.commit([Put(JOBS, job, Absent())])
    listed, _ = store.query_index(JOBS, JOBS_BY_GROUP, "pay#night", limit=9, after=None, descending=False)
    assert [one["job_id"] for one in listed] == ["pay:nightly"]
    store.commit([Update(JOBS, {"job_id": "pay:nightly"}, Is("version", 1), set={"version": 2}, remove=("grouped",))])
    assert store.query_index(JOBS, JOBS_BY_GROUP, "pay#night", limit=9, after=None, descending=False) == ([], None)


def test_an_index_is_read_between_two_numbers_in_either_order(store: Store) -> None:
    """Also after a key that has left it meanwhile."""
    for n in range(8):
        put(store, timer(f"p{n % 3}", f"s{n}", dead_letter="pay#0", ended_at_ms=n))
    how: Any = {"limit": 2, "between": (2, 6)}
    down, position = store.query_index(TIMERS, BAD_ENDS, "pay#0", after=None, descending=True, **how)
    assert [key["ended_at_ms"] for key in down] == [6, 5]
    assert position is not None
    left = Update(TIMERS, {"pk": "p2", "sk": "s5"}, Anyway("a test"), remove=("dead_letter",))
    store.commit([left])
    down, _ = store.query_index(TIMERS, BAD_ENDS, "pay#0", after=position, descending=True, **how)
    assert [key["ended_at_ms"] for key in down] == [4, 3]
    up, _ = store.query_index(TIMERS, BAD_ENDS, "pay#0", after=None, descending=False, **how)
    assert [key["ended_at_ms"] for key in up] == [2, 3]


def test_an_index_lists_a_team(store: Store) -> None:
    for name in ("b", "a"):
        store.commit([Put(JOBS, {"job_id": f"pay:{name}", "team": "pay"}, Absent())])
    keys, _ = store.query_index(JOBS, BY_TEAM, "pay", limit=5, after=None, descending=False)
    assert [key["job_id"] for key in keys] == ["pay:a", "pay:b"]


def test_a_scan_sees_every_item_once(store: Store) -> None:
    for n in range(7):
        store.commit([Put(JOBS, {"job_id": f"pay:{n}", "team": "pay"}, Absent())])
    seen, position = [], None
    for _ in range(10):
        page, position = store.scan(JOBS, limit=3, after=position)
        seen += [item["job_id"] for item in page]
        if position is None:
            break
    assert sorted(seen) == [f"pay:{n}" for n in range(7)]


def test_of_many_at_once_one_passes_a_compare_and_set(store: Store) -> None:
    put(store, timer("p", "s", token=0))
    with ThreadPoolExecutor(THREADS) as threads:
        for before in range(ROUNDS):
            claims = [threads.submit(_claim, store, before, name) for name in range(THREADS)]
            assert sum(claim.result() for claim in claims) == 1
    item = store.get(TIMERS, {"pk": "p", "sk": "s"})
    assert item is not None
    assert item["token"] == ROUNDS


def _claim(store: Store, before: int, name: int) -> bool:
    write = Update(TIMERS, {"pk": "p", "sk": "s"}, Is("token", before), set={"token": before + 1, "by": name})
    try:
        return isinstance(store.commit([write]), Committed)
    except (Conflict, OutcomeUnknown, Throttled):
        return False


def test_the_first_definition_that_reaches_an_occurrence_is_the_one_it_was_fired_by(store: Store) -> None:
    """Rows of a job lie in the order of what they have fired, then of their versions; a payload that is gone leaves a
    stub, and is not brought back by what lets the others live on."""
    schedule = {"rate": "1 minute", "anchor": "2026-10-30T00:00:00Z", "zone": "UTC"}
    base = Job("pay", "job", schedule, Work("default", "job", payload_id="pay:job#1.a"), version=1)
    store.commit([Put(PAYLOADS, {"payload_id": "pay:job#1.a", "payload": "1"}, Absent())])
    earlier_ms = 0
    for version, through_ms in ((1, 60_000), (2, 120_000), (3, 120_000), (11, 600_000)):
        job = replace(base, version=version, fired_through_ms=through_ms, earlier_through_ms=earlier_ms)
        assert isinstance(store.commit(replaced(job, None, 0, 60)), Committed)
        earlier_ms = through_ms

    def first(scheduled_at_ms: int) -> JobVersion | None:
        page = store.query(JOB_VERSIONS, "pay:job", *versions_reaching(scheduled_at_ms), limit=1)
        return JobVersion.from_item(page.items[0]) if page.items else None

    found = [first(at_ms) for at_ms in (60_000, 61_000, 120_000, 121_000, 601_000)]
    assert [row and row.version for row in found] == [1, 2, 2, 11, None]
    store.commit([Delete(PAYLOADS, {"payload_id": "pay:job#1.a"}, Is("payload", "1"))])
    row = found[0]
    assert row is not None
    gone, lives_on = (store.commit([write]) for write in renewals(row, 80 * 86_400_000, 60))
    assert isinstance(gone, Refused)
    assert isinstance(lives_on, Committed)
    store.commit(replaced(base, None, 0, 60))
    assert store.get(PAYLOADS, {"payload_id": "pay:job#1.a"}) == {
        "payload_id": "pay:job#1.a",
        "expires_at_s": 60 + 90 * 86_400,
    }


def test_a_team_is_registered_marked_replaced_and_deleted(store: Store) -> None:
    """The whole life of a team: that it was seen, its put, the mark that only grows, the rule, its deletion."""
    ports = fake_ports(store)
    registry.note_unregistered(ports, ["payments"])
    content = TeamContent(contact="ann", routes=(PagerRoute("email", "ann@example.org"),), quotas=Quotas(jobs=5))
    assert teams.adopt(ports, content, LOCAL, dry_run=False, refusing=True).teams == ("payments",)
    assert teams.list_teams(ports, limit=9, after=None) == ([teams.get_team(ports, "payments")], None)
    now_ms = ports.clock.now_ms()
    for fire_at_ms in (now_ms + DAY_MS, now_ms + 1_000):
        registry.keep_teams_mark(fake_ports(store), "payments", fire_at_ms)
    marked = teams.get_team(ports, "payments")
    assert (marked.version, marked.pending_until_ms) == (1, now_ms + DAY_MS + DAY_MS // 16)
    changed = teams.put_team(ports, "payments", replace(content, contact="bob"), 1, LOCAL)
    assert (changed.version, changed.pending_until_ms) == (2, marked.pending_until_ms)
    with pytest.raises(UnknownTeam):
        registry.check_team(ports, "paymnts")
    ports.clock.sleep_ms(2 * DAY_MS)
    dissolving.delete_team(ports, "payments", LOCAL)
    assert teams.adopt(ports, content, LOCAL, dry_run=False, refusing=False).teams == ()
    registry.check_team(ports, "payments")


def test_a_key_is_made_listed_used_and_revoked(store: Store) -> None:
    """The whole life of a key: its put, its index, the note of its use, the revocation that no second one moves."""
    ports = fake_ports(store)
    wanted = Wanted("payments", "worker", ports.clock.now_ms() + DAY_MS, "ci", ("payments",))
    made, text = keys.create_key(ports, wanted, LOCAL)
    assert keys.list_keys(ports, "payments") == [made]
    assert keys.list_keys(ports, "payment") == []
    assert KnownKeys().actor_of(ports, text).pools == ("payments",)
    assert keys.get_key(ports, made.key_id).used_at_ms == ports.clock.now_ms()
    assert KnownKeys().actor_of(ports, text).role == "worker"
    assert [keys.revoke_key(ports, made.key_id, LOCAL)[1] for _ in range(2)] == [True, False]
    with pytest.raises(RevokedKey):
        KnownKeys().actor_of(ports, text)


def test_a_jobs_changes_and_their_entries_are_one_transaction_each_and_are_listed_by_time(store: Store) -> None:
    """The entries' puts, their index, a page of a stream backwards; and a transaction that leaves neither behind."""
    ports = fake_ports(store)
    schedule = parse_schedule({"rate": "1h"}, now_ms=ports.clock.now_ms())
    for name in ("a", "b"):
        new = Definition("payments", name, schedule.spec, Work("default", "h", '{"card":1}'))
        registering.create_job(ports, new)
        ports.clock.sleep_ms(1_000)
    changing.pause_job(ports, "payments:a", "ann", "a release")
    found = entries.list_entries(ports, EntriesWanted("payments"), limit=10, after=None).found
    assert [(one.stream, one.action) for one in found] == [
        ("payments:job:a", "job.paused"),
        ("payments:job:b", "job.created"),
        ("payments:job:a", "job.created"),
    ]
    (last,) = entries.list_entries(ports, EntriesWanted("payments", "payments:job:a"), limit=1, after=None).found
    assert last == found[0]
    assert digest_of(store.get(AUDIT, last.key()) or {}) == last.hash
    assert entries.list_entries(ports, EntriesWanted("payment"), limit=10, after=None).found == []
    job = store.get(JOBS, {"job_id": "payments:a"})
    assert job is not None
    assert job["audit_head"] == last.head.as_text()
    stale = Update(JOBS, {"job_id": "payments:a"}, Is("version", 1), set={"version": 9})
    assert isinstance(store.commit([stale, put_entry(replace(last, place="0#9#x"))]), Refused)
    assert store.get(AUDIT, {"stream": last.stream, "place": "0#9#x"}) is None


def test_a_teams_audit_is_sealed_and_verified_on_every_store(store: Store) -> None:
    """The seal's put with the row's update, a page of the index from a place, and the reads of all three walks."""
    ports = fake_ports(store)
    teams.put_team(ports, "shop", TeamContent(contact="ann"), None, LOCAL)
    schedule = parse_schedule({"rate": "1h"}, now_ms=ports.clock.now_ms())
    for number in range(3):
        new = Definition("shop", f"job-{number}", schedule.spec, Work("default", "h"))
        registering.create_job(ports, new)
    with call_on_many(ports, "timers.cancelled", {"shop": {"timers": 1}}) as counted:
        counted.add("shop", "cancelled")
    ports.clock.sleep_ms(2 * DAY_MS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "ENTRIES_PER_SEAL", 2)
        sealing.seal_audit(ports, Repairs(), deadline_in(ports, 60_000))
    found, place = [], None
    for _ in range(20):
        page = verifying.verify_audit(ports, "shop", place)
        found += page.findings
        place = page.after
        if place is None:
            break
    assert (found, place) == ([], None)
    assert Head.parse(page.sealed.head) is not None
    lost = store.query(AUDIT, "shop:job:job-1", "0", "~", limit=1).items[0]
    store.commit([Delete(AUDIT, {"stream": lost["stream"], "place": lost["place"]}, Anyway("a test"))])
    kinds = {one.kind for one in verifying.verify_audit(ports, "shop", None).findings}
    assert kinds == {"removed"}
