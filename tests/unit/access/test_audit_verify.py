"""What is edited or taken away of an audit is found, what has expired is not missed, and a gap is no forgery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tickwork.core.access import seals
from tickwork.core.access.entries import digest_of
from tickwork.core.access.seals import Line, Seal, Sealed, move_sealed
from tickwork.core.errors import OutcomeUnknown, Throttled
from tickwork.core.instants import DAY_MS, HOUR_MS, SECOND_MS
from tickwork.core.ledger.keys import seal_place
from tickwork.core.ledger.tables import AUDIT, CALENDARS, JOBS, KEYS, PASSES, TEAMS
from tickwork.core.ledger.writes import Anyway, Committed, Delete, Item, Put
from tickwork.flows.audit import sealing
from tickwork.flows.audit.findings import VerifyPlace
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.audit.repairs import Repairs, deadline_in
from tickwork.flows.audit.sealing import seal_audit
from tickwork.flows.audit.verifying import verify_audit
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

LAYOUT = Layout(shards=1, slices=1, pools=("default",), audit_s=30 * 86_400)
TEST = Anyway("a test")
JOB = {
    "team": "payments",
    "name": "nightly",
    "schedule": {"cron": "0 2 * * *"},
    "target": {"pool": "default", "handler": "h"},
}
AT = "/jobs/payments:nightly"
STREAM = "payments:job:nightly"


class Desk:
    def __init__(self) -> None:
        self.ports: Ports = fake_ports(MemoryStore(), LAYOUT)
        self.api = ApiUnderTest(self.ports)

    def do(self, method: str, path: str, body: object = None, **query: str) -> Any:
        self.ports.clock.sleep_ms(SECOND_MS)
        status, answer = self.api.call(method, path, body, **query)
        assert status < 300, answer
        return answer

    def changes(self) -> None:
        """Something of every kind, over two days that are sealed, and one that is not yet."""
        self.do("POST", "/jobs", JOB)
        self.do("PUT", "/calendars/payments:days", {"dates": ["2026-12-24"]})
        self.do("POST", "/keys", {"team": "payments", "role": "viewer"})
        self.seal()
        self.do("PATCH", AT, {"version": 1, "lease_s": 90})
        timer = self.do("POST", "/timers", {"team": "payments", "delay_s": 60, "target": JOB["target"]})
        self.do("POST", "/timers:cancel", {"timer_ids": [timer["timer_id"]]})
        self.seal()
        self.do("POST", f"{AT}/pause", {"reason": "a release"})

    def seal(self, repairs: Repairs | None = None) -> Repairs:
        """A day and some hours pass."""
        self.ports.clock.sleep_ms(DAY_MS + 2 * HOUR_MS)
        repairs = repairs or Repairs()
        seal_audit(self.ports, repairs, deadline_in(self.ports, 60_000))
        return repairs

    def verify(self, team: str = "payments") -> dict[str, Any]:
        findings, page, checked = [], None, {"seals": 0, "entries": 0, "objects": 0}
        for _ in range(200):
            cursor = {"cursor": page["cursor"]} if page else {}
            status, page = self.api.call("GET", "/audit:verify", team=team, **cursor)
            assert status == 200, page
            findings += page["findings"]
            checked = {name: count + page["checked"][name] for name, count in checked.items()}
            if page["cursor"] is None:
                return {**page, "findings": findings, "checked": checked}
        raise AssertionError("it does not end")

    def found(self) -> list[tuple[str, str]]:
        return [(one["kind"], one["object"]) for one in self.verify()["findings"]]

    def entries(self, stream: str = "") -> list[Item]:
        items, _ = self.ports.store.scan(AUDIT, limit=10_000, after=None)
        found = [item for item in items if "action" in item and stream in ("", item["stream"])]
        return sorted(found, key=lambda item: (item["at_ms"], item["place"]))

    def seals(self) -> list[Seal]:
        items, _ = self.ports.store.scan(AUDIT, limit=10_000, after=None)
        return [Seal.from_item(item) for item in items if "lines" in item]

    def put(self, item: Item) -> None:
        self.ports.store.commit([Put(AUDIT, item, TEST)])

    def drop(self, item: Item) -> None:
        self.ports.store.commit([Delete(AUDIT, {"stream": item["stream"], "place": item["place"]}, TEST)])


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.changes()
    return desk


def test_an_audit_as_it_was_written_has_no_findings(desk: Desk) -> None:
    answer = desk.verify()
    assert answer["findings"] == []
    assert answer["checked"] == {"seals": 2, "entries": 6, "objects": 3}
    assert answer["sealed_through"] == "2026-11-01T00:00:00.000Z"
    assert answer["seal"] == desk.seals()[-1].head.as_text()


def test_each_entry_that_is_edited_is_found(desk: Desk) -> None:
    """Also by whoever makes its hash anew: then it is not the one that the next names, or the seal, or the thing."""
    for item in desk.entries():
        for edited in (item | {"actor": "somebody"}, _hashed(item | {"actor": "somebody"})):
            desk.put(edited)
            broken = [one for one in desk.verify()["findings"] if one["is_broken"]]
            assert broken, item["action"]
            desk.put(item)
    assert desk.found() == []


def _hashed(item: Item) -> Item:
    return item | {"hash": digest_of(item)}


def test_each_entry_that_is_taken_away_is_found(desk: Desk) -> None:
    for item in desk.entries():
        desk.drop(item)
        assert ("removed", item["stream"].partition(":")[2]) in desk.found(), item["action"]
        desk.put(item)


def test_a_stream_that_is_taken_away_with_its_job_is_found_by_the_seal(desk: Desk) -> None:
    for item in desk.entries(STREAM):
        desk.drop(item)
    desk.ports.store.commit([Delete(JOBS, {"job_id": "payments:nightly"}, TEST)])
    assert ("removed", "job:nightly") in desk.found()


def test_a_job_or_a_calendar_that_is_taken_away_alone_is_found(desk: Desk) -> None:
    desk.ports.store.commit([Delete(JOBS, {"job_id": "payments:nightly"}, TEST)])
    assert desk.found() == [("removed", "job:nightly")]
    desk.ports.store.commit([Delete(CALENDARS, {"calendar_id": "payments:days"}, TEST)])
    assert desk.found() == [("removed", "job:nightly"), ("removed", "calendar:days")]


def test_a_job_that_was_deleted_and_whose_tombstone_has_expired_is_not_missed(desk: Desk) -> None:
    desk.do("DELETE", AT)
    desk.ports.store.commit([Delete(JOBS, {"job_id": "payments:nightly"}, TEST)])
    assert desk.found() == []


def test_a_team_that_was_changed_beside_its_audit_is_told(desk: Desk) -> None:
    desk.do("PUT", "/teams/payments", {"contact": "ann"})
    assert desk.found() == []
    item = desk.ports.store.get(TEAMS, {"cell": "@teams", "team": "payments"})
    assert item is not None
    desk.ports.store.commit([Put(TEAMS, item | {"version": 2, "contact": "bob"}, TEST)])
    assert desk.found() == [("unrecorded", "team:payments")]


def test_a_call_that_is_taken_away_or_whose_result_is_edited_is_found(desk: Desk) -> None:
    (call,) = [item for item in desk.entries() if item["action"] == "timers.cancelled"]
    named = call["stream"].partition(":")[2]
    desk.put(call | {"result": {"cancelled": 0}})
    assert ("edited", named) in desk.found()
    desk.drop(call)
    assert ("removed", named) in desk.found()


def test_a_call_without_a_result_is_told_and_is_no_forgery(desk: Desk) -> None:
    (call,) = [item for item in desk.entries() if item["action"] == "timers.cancelled"]
    before = Desk()
    before.do("POST", "/timers:cancel", {"timer_ids": ["payments:t~main~0000~1793318406~00000000000000000001"]})
    (entry,) = before.entries()
    for name in ("result", "result_at_ms", "result_hash"):
        del entry[name]
    before.put(entry)
    (finding,) = before.verify()["findings"]
    assert (finding["kind"], finding["is_broken"]) == ("unfinished", False)
    assert call["result"] == {"cancelled": 1}


def test_a_seal_that_is_edited_or_taken_away_is_found(desk: Desk) -> None:
    first, last = desk.seals()
    for seal in (first, last):
        item = seal.to_item()
        lines = [line for line in item["lines"] if "job:nightly" not in line]
        desk.put(item | {"lines": lines})
        assert ("edited", "seal:entries") in desk.found()
        desk.drop(item)
        assert ("removed", "seal:entries") in desk.found()
        forged = item | {"lines": lines}
        forged |= {"hash": digest_of(forged)}
        forged["place"] = seal_place(seal.number, forged["hash"])
        desk.put(forged)
        assert ("removed", "seal:entries") in desk.found(), "another seal, or the team's row, names the old one"
        desk.drop(forged)
        desk.put(item)
    assert desk.found() == []


def test_a_row_that_is_put_back_or_taken_away_is_found_and_sealing_goes_on_all_the_same(desk: Desk) -> None:
    row = Sealed("payments", "main")
    stands = desk.ports.store.get(PASSES, row.key)
    assert stands is not None
    for head, kind in (("", "wrong_head"), (desk.seals()[0].head.as_text(), "removed")):
        desk.ports.store.commit([Put(PASSES, stands | {"sealed_ms": 0, "seal_head": head}, TEST)])
        assert (kind, "seal:entries") in desk.found()
        assert desk.seal().sealed > 0, "a table that was restored keeps no seal from being written"
        assert ("forked", "seal:entries") in desk.found()


def test_a_head_that_is_put_back_or_taken_away_is_found(desk: Desk) -> None:
    item = desk.ports.store.get(JOBS, {"job_id": "payments:nightly"})
    assert item is not None
    first = desk.entries(STREAM)[0]
    for head, kind in (
        (None, "wrong_head"),
        (f"{_chain(first)}.{first['expires_at_s']}.{first['hash']}", "wrong_head"),
    ):
        changed = {name: value for name, value in item.items() if name != "audit_head"}
        desk.ports.store.commit([Put(JOBS, changed | ({"audit_head": head} if head else {}), TEST)])
        assert (kind, "job:nightly") in desk.found()


def _chain(item: Item) -> str:
    begun_ms, number, _ = item["place"].split("#")
    return f"{int(begun_ms)}.{int(number)}"


def test_a_job_that_was_restored_and_changed_shows_as_a_fork(desk: Desk) -> None:
    old = desk.ports.store.get(JOBS, {"job_id": "payments:nightly"})
    desk.do("POST", f"{AT}/resume", {})
    assert old is not None
    desk.ports.store.commit([Put(JOBS, old, TEST)])
    desk.do("POST", f"{AT}/resume", {})
    assert ("forked", "job:nightly") in desk.found()


# --- the edge of what is kept ---------------------------------------------------------------------------------


def test_what_has_expired_is_not_missed_and_what_has_not_is(desk: Desk) -> None:
    """The table takes away what has expired, when it comes to it: here at once, here not at all."""
    for days in range(45):
        desk.seal()
        if days % 3 == 0:
            version = desk.do("GET", AT)["version"]
            desk.do("PATCH", AT, {"version": version, "lease_s": 60 + days + 1})
        assert desk.found() == [], f"day {days}, nothing taken away yet"
        store = desk.ports.store
        assert isinstance(store, MemoryStore)
        store.expire(AUDIT, desk.ports.clock.now_ms() // SECOND_MS)
        assert desk.found() == [], f"day {days}"
    kept = desk.entries(STREAM)
    assert kept[0]["version"] > 5, "the first ones have expired"
    desk.drop(kept[0])
    assert ("removed", "job:nightly") in desk.found()


def test_a_seal_outlives_what_it_lists(desk: Desk) -> None:
    for seal in desk.seals():
        assert seal.expires_at_s > max(Line.parse(text).until_s for text in seal.lines)


# --- other versions -------------------------------------------------------------------------------------------


def _old_change(desk: Desk) -> None:
    """As an older version changes a job: it carries the head."""
    item = desk.ports.store.get(JOBS, {"job_id": "payments:nightly"})
    assert item is not None
    desk.ports.store.commit([Put(JOBS, item | {"version": item["version"] + 1}, TEST)])


def test_what_an_older_version_changes_in_a_deployment_shows_as_unrecorded_and_not_as_a_forgery(desk: Desk) -> None:
    _old_change(desk)
    (last,) = desk.verify()["findings"]
    assert (last["kind"], last["is_broken"]) == ("unrecorded", False)
    assert "from version 3 to 4" in last["detail"]
    desk.do("POST", f"{AT}/resume", {})
    (between,) = desk.verify()["findings"]
    assert (between["kind"], between["is_broken"]) == ("unrecorded", False)


def test_a_thing_that_an_older_version_has_made_begins_its_stream_with_a_note(desk: Desk) -> None:
    older = Desk()
    older.do("POST", "/jobs", JOB)
    for item in older.entries():
        older.drop(item)
    item = older.ports.store.get(JOBS, {"job_id": "payments:nightly"})
    assert item is not None
    del item["audit_head"]
    older.ports.store.commit([Put(JOBS, item, TEST)])
    assert older.found() == [], "nothing is known of it, and nothing is missed"
    older.do("PATCH", AT, {"version": 1, "lease_s": 90})
    assert older.found() == [("unrecorded", "job:nightly")]


@pytest.mark.parametrize("version", [5, 1], ids=["over its tombstone", "when that had expired"])
def test_a_name_that_an_older_version_registers_again_is_no_forgery(desk: Desk, version: int) -> None:
    """It writes the item anew, and knows of no head."""
    desk.do("DELETE", AT)
    item = desk.ports.store.get(JOBS, {"job_id": "payments:nightly"})
    assert item is not None
    anew = {name: value for name, value in item.items() if name not in ("audit_head", "deleted_at_ms", "expires_at_s")}
    desk.ports.store.commit([Put(JOBS, anew | {"version": version, "status": "active"}, TEST)])
    assert desk.found() == [("unrecorded", "job:nightly")]


def test_a_key_that_an_older_version_has_revoked_shows_as_unrecorded(desk: Desk) -> None:
    (key,) = desk.ports.store.scan(KEYS, limit=10, after=None)[0]
    desk.ports.store.commit([Put(KEYS, key | {"revoked_at_ms": 7, "revoked_by": "ann"}, TEST)])
    assert desk.found() == [("unrecorded", f"key:{key['key_id'].partition(':')[2]}")]


@pytest.mark.parametrize(
    "edited",
    [{"role": "owner"}, {"pools": ["default"]}, {"ends_at_ms": 4_000_000_000_000}, {"role": 7}, {"pools": "x"}],
)
def test_a_key_that_a_hand_has_made_to_open_more_or_longer_is_found(desk: Desk, edited: Item) -> None:
    (key,) = desk.ports.store.scan(KEYS, limit=10, after=None)[0]
    desk.ports.store.commit([Put(KEYS, key | edited, TEST)])
    assert desk.found() == [("unrecorded", f"key:{key['key_id'].partition(':')[2]}")]


def test_a_revoked_key_that_a_hand_has_made_valid_again_is_found_and_one_that_expired_is_not(desk: Desk) -> None:
    (key,) = desk.ports.store.scan(KEYS, limit=10, after=None)[0]
    desk.do("DELETE", f"/keys/{key['key_id']}")
    assert desk.found() == []
    (ended,) = desk.ports.store.scan(KEYS, limit=10, after=None)[0]
    alive = {name: value for name, value in ended.items() if name not in ("revoked_at_ms", "revoked_by")}
    desk.ports.store.commit([Put(KEYS, alive, TEST)])
    assert desk.found() == [("unrecorded", f"key:{key['key_id'].partition(':')[2]}")]


def test_a_workers_key_is_as_its_entry_says(desk: Desk) -> None:
    desk.do("POST", "/keys", {"team": "payments", "role": "worker", "pools": ["default"], "name": "the night's"})
    assert desk.found() == []


def test_an_entry_of_a_newer_version_is_sealed_and_verified_as_it_is(desk: Desk) -> None:
    item = desk.entries(STREAM)[-1]
    desk.drop(item)
    newer = _hashed(item | {"of_a_newer_version": {"since": 1}, "actor": 7})
    newer["place"] = f"{item['place'].rpartition('#')[0]}#{newer['hash'][:8]}"
    desk.put(newer)
    job = desk.ports.store.get(JOBS, {"job_id": "payments:nightly"})
    assert job is not None
    head = f"{_chain(newer)}.{newer['expires_at_s']}.{newer['hash']}"
    desk.ports.store.commit([Put(JOBS, job | {"audit_head": head}, TEST)])
    assert desk.seal().failed == 0
    assert desk.found() == []


# --- sealing --------------------------------------------------------------------------------------------------


def test_a_day_is_sealed_once_and_only_when_it_is_settled(desk: Desk) -> None:
    again = Repairs()
    seal_audit(desk.ports, again, deadline_in(desk.ports, 60_000))
    assert (again.sealed, len(desk.seals())) == (0, 2)
    assert seals.sealed_until(2 * DAY_MS + HOUR_MS - 1) == DAY_MS
    assert seals.sealed_until(2 * DAY_MS + HOUR_MS) == 2 * DAY_MS


def test_a_team_that_nothing_was_done_for_costs_no_seal(desk: Desk) -> None:
    desk.seal()
    before = len(desk.seals())
    assert desk.seal().sealed == 0
    assert len(desk.seals()) == before


def test_many_entries_take_several_seals_and_each_entry_stands_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "ENTRIES_PER_SEAL", 10)
    desk = Desk()
    for number in range(23):
        desk.do("POST", "/jobs", {**JOB, "name": f"job-{number:03d}"})
    assert desk.seal().sealed == 23
    lines = [Line.parse(text) for seal in desk.seals() for text in seal.lines]
    assert len(lines) == len({(line.stream, line.place) for line in lines}) == 23
    assert [len(seal.lines) for seal in desk.seals()] == [10, 10, 3]
    assert desk.found() == []


def test_an_entry_of_midnight_is_of_the_day_that_begins_and_stands_in_one_seal() -> None:
    desk = Desk()
    midnight_ms = (desk.ports.clock.now_ms() // DAY_MS + 1) * DAY_MS
    for at_ms in (midnight_ms - 1, midnight_ms, midnight_ms + 1):
        desk.ports.clock.sleep_ms(at_ms - desk.ports.clock.now_ms() - SECOND_MS)
        desk.do("POST", "/jobs", {**JOB, "name": f"job-{at_ms}"})
    assert [item["at_ms"] - midnight_ms for item in desk.entries()] == [-1, 0, 1]
    desk.ports.clock.sleep_ms(2 * HOUR_MS)
    seal_audit(desk.ports, Repairs(), deadline_in(desk.ports, 60_000))
    assert [len(seal.lines) for seal in desk.seals()] == [1]
    desk.seal()
    assert [len(seal.lines) for seal in desk.seals()] == [1, 2]


def test_who_has_read_a_teams_row_before_another_moved_it_moves_it_no_more() -> None:
    """Also where the other had nothing to seal, so that the head is the same."""
    store = MemoryStore()
    row = Sealed("payments", "main")
    store.commit([row.first_row()])
    moved = replace(row, through_ms=2 * DAY_MS)
    assert isinstance(store.commit([move_sealed(row, moved)]), Committed)
    assert not isinstance(store.commit([move_sealed(row, replace(row, through_ms=DAY_MS))]), Committed)


def test_a_thing_whose_last_entry_expires_while_it_is_verified_is_not_missed(desk: Desk) -> None:
    desk.ports.store.commit([Delete(JOBS, {"job_id": "payments:nightly"}, TEST)])
    query = desk.ports.store.query

    def expires(table: Any, partition: str, *asked: Any, **how: Any) -> Any:
        if partition == STREAM:
            for item in desk.entries(STREAM):
                desk.drop(item)
        return query(table, partition, *asked, **how)

    desk.ports.store.query = expires  # type: ignore[method-assign]
    page = verify_audit(desk.ports, "payments", VerifyPlace("entries"))
    assert [one for one in page.findings if one.detail.startswith("the thing is not there")] == []


class _Dies(BaseException):
    pass


class _Failing:
    """A store that fails its n-th call in a way, after or before it took effect."""

    def __init__(self, store: Any, n: int, *, after: bool, error: BaseException) -> None:
        self._store, self._left, self._after, self._error = store, n, after, error

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **how: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise self._error
            found = getattr(self._store, name)(*args, **how)
            if self._left == 0:
                raise self._error
            return found

        return call


@pytest.mark.parametrize(
    "error", [_Dies(), OutcomeUnknown("a test"), Throttled("a test")], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("after", [False, True])
def test_a_pass_that_dies_at_any_call_is_gone_on_with_and_seals_each_entry_once(
    error: Any, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "ENTRIES_PER_SEAL", 2)
    for n in range(1, 40):
        desk = Desk()
        for number in range(3):
            desk.do("POST", "/jobs", {**JOB, "name": f"job-{number:03d}"})
        desk.do("POST", "/jobs", {**JOB, "team": "shop"})
        desk.ports.clock.sleep_ms(DAY_MS + 2 * HOUR_MS)
        failing = _Failing(desk.ports.store, n, after=after, error=error)
        try:
            repairs = Repairs()
            seal_audit(replace(desk.ports, store=failing), repairs, deadline_in(desk.ports, 60_000))  # type: ignore[arg-type]
        except (_Dies, Throttled, OutcomeUnknown):
            pass
        is_done = failing._left > 0
        seal_audit(desk.ports, Repairs(), deadline_in(desk.ports, 60_000))
        lines = [Line.parse(text) for seal in desk.seals() for text in seal.lines]
        assert len(lines) == len({(line.stream, line.place) for line in lines}) == 4, f"call {n}"
        assert desk.verify()["findings"] == desk.verify("shop")["findings"] == []
        if is_done:
            return
    raise AssertionError("the pass does not end")


def test_what_fails_for_one_team_costs_that_one(desk: Desk) -> None:
    desk.do("POST", "/jobs", {**JOB, "team": "shop"})
    desk.do("POST", "/jobs", {**JOB, "team": "a-team"})
    desk.ports.clock.sleep_ms(DAY_MS + 2 * HOUR_MS)

    class Broken:
        def __getattr__(self, name: str) -> Any:
            def call(*args: Any, **how: Any) -> Any:
                if name == "query_index" and args[2] == "a-team":
                    raise Throttled("a test")
                return getattr(desk.ports.store, name)(*args, **how)

            return call

    repairs = Repairs()
    seal_audit(replace(desk.ports, store=Broken()), repairs, deadline_in(desk.ports, 60_000))  # type: ignore[arg-type]
    rows = [Sealed.from_item(item) for item in desk.ports.store.query(PASSES, "main#sealed", "!", "~", limit=9).items]
    assert {row.team: row.through_ms > 0 for row in rows} == {"a-team": False, "payments": True, "shop": True}
    assert repairs.failed == 1


def test_a_pass_without_time_goes_on_with_the_next_run(desk: Desk) -> None:
    desk.ports.clock.sleep_ms(DAY_MS + 2 * HOUR_MS)
    repairs = Repairs()
    seal_audit(desk.ports, repairs, deadline_in(desk.ports, 0))
    assert (repairs.unfinished, repairs.sealed) == (1, 0)
    assert reconcile(desk.ports).sealed == 1
    assert any(action == "audit_sealed" for action, _ in desk.ports.signals.lines)  # type: ignore[attr-defined]


ODD: list[Any] = [None, "x y", -1, 1.5, [], {"a": 1}, "9" * 5_000 + ".1.1.x", ABSENT := object()]
NOT_SAID = {"team", "at_ms"}  # by these the index finds it
OF_NO_HASH = {"expires_at_s"}  # heads and lines say it


def test_verifying_goes_to_its_end_whatever_somebody_has_written_into_an_audit(desk: Desk) -> None:
    """Else whoever garbles one entry keeps all that he has done from being found. Entries and seals show it."""
    desk.ports.clock.sleep_ms(SECOND_MS)
    for table in (AUDIT, JOBS, CALENDARS, KEYS, TEAMS, PASSES):
        keys = {table.partition_key, table.sort_key or ""}
        for item in desk.ports.store.scan(table, limit=1_000, after=None)[0]:
            if table is PASSES and item["place"] != "payments":
                continue
            for name in sorted(item.keys() - keys - NOT_SAID):
                for odd in ODD:
                    garbled = {**item, name: odd} if odd is not ABSENT else {n: v for n, v in item.items() if n != name}
                    desk.ports.store.commit([Put(table, garbled, TEST)])
                    found = desk.verify()["findings"]  # 200 on every page
                    assert found or table is not AUDIT or name in OF_NO_HASH, (item, name, odd)
                    assert desk.api.call("GET", "/audit", team="payments")[0] == 200
            desk.ports.store.commit([Put(table, item, TEST)])
    assert desk.found() == []


@pytest.mark.parametrize(
    "stream", ["payments:", "payments:job", "payments:job:nightly", "payments:call", "payments:seal:entries"]
)
@pytest.mark.parametrize("place", ["-", "0", "x", "1#x#y", "-#x#y", "1#2#3#4"])
def test_what_somebody_has_put_into_an_audit_is_found_and_stops_nobody(desk: Desk, stream: str, place: str) -> None:
    desk.put({"stream": stream, "place": place, "team": "payments", "at_ms": desk.ports.clock.now_ms()})
    assert any(kind in ("edited", "removed", "wrong_head") for kind, _ in desk.found())
    assert desk.api.call("GET", "/audit", team="payments")[0] == 200
    desk.seal()
    assert desk.api.call("GET", "/audit", team="payments")[0] == 200
    assert any(kind in ("edited", "removed", "wrong_head") for kind, _ in desk.found())


@pytest.mark.parametrize("odd", [None, "x y", -1, 1.5, ["x"], {"a": 1}])
def test_a_garbled_entry_is_sealed_as_it_is_and_keeps_no_team_from_its_seal(desk: Desk, odd: Any) -> None:
    """Nor the definitions from being checked, which come after the seals."""
    desk.do("POST", "/jobs", {**JOB, "team": "shop"})
    entry = desk.entries(STREAM)[-1]
    desk.put({**entry, "expires_at_s": odd, "hash": odd, "result_hash": odd})
    repairs = desk.seal()
    assert repairs.failed == 0
    lines = [Line.parse(text) for seal in desk.seals() for text in seal.lines]
    assert (entry["stream"], entry["place"]) in {(line.stream, line.place) for line in lines}


@pytest.mark.parametrize("garbled", [{"sealed_ms": "x"}, {"sealed_ms": None}, {"seal_head": 5}, {"after": "x"}, {}])
def test_a_teams_row_that_cannot_be_read_costs_that_team_and_no_other_pass(desk: Desk, garbled: Item) -> None:
    desk.do("POST", "/jobs", {**JOB, "team": "shop"})
    row = desk.ports.store.get(PASSES, Sealed("payments", "main").key)
    assert row is not None
    whole = row | garbled if garbled else {name: row[name] for name in ("pass", "place")}
    desk.ports.store.commit([Put(PASSES, whole, TEST)])
    desk.ports.clock.sleep_ms(DAY_MS + 2 * HOUR_MS)
    with pytest.raises(Throttled):
        reconcile(desk.ports)
    shop = desk.ports.store.get(PASSES, Sealed("shop", "main").key)
    assert shop is not None
    assert shop["sealed_ms"] > 0
    ((_, counted),) = [line for line in desk.ports.signals.lines if line[0] == "reconciled"]  # type: ignore[attr-defined]
    assert counted["failed"] == 1
    assert counted["jobs_checked"] == 2
    assert ("wrong_head", "seal:entries") in desk.found()
