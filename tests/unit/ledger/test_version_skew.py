"""Two versions run side by side: what a newer one has stored is read, changed and written back by this one, and what it
has added anywhere is still there. On what every version has recorded, with an attribute more in each mapping."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.recorded import recording
from tests.support.fakes import CountingIds, FakeClock, KeptSignals, RememberingSender
from tests.support.http import ApiUnderTest
from tests.unit.ledger.test_recorded_items import FOLDERS, _recorded
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import ALL_TABLES, CALENDARS, JOBS, LEASES, SET_ASIDE, TIMERS, Table
from tickwork.core.ledger.writes import Anyway, Item, Put
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.windows import run_window
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

NEWER = "of_a_newer_version"
MARK = {"since": [1, "two"]}
NAMES = {"reporting-db", "push.example.com"}
"""Keys of a mapping that are names, and no attributes."""

type Path_ = tuple[Any, ...]


def mappings(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Item]]:
    """Each mapping that may have got an attribute more, with where it stands. What a schedule and a calendar say is not
    guessed at: one of those with more in it is another thing, and has tests of its own."""
    if isinstance(value, dict):
        if path[:1] not in (("schedule",), ("spec",)) and value and not NAMES & value.keys() and NEWER not in path:
            yield path, value
        for name, one in value.items():
            yield from mappings(one, (*path, name))
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            name = one.get("from_ms", index) if isinstance(one, dict) else index  # old pauses are dropped
            yield from mappings(one, (*path, name))


def newer(item: Item) -> Item:
    marked = copy.deepcopy(item)
    for _, place in list(mappings(marked)):
        place[NEWER] = copy.deepcopy(MARK)
    return marked


def stage(folder: Path) -> tuple[Ports, dict[str, dict[Any, Item]]]:
    """Ports over what a version has recorded, as a newer one would have stored it, and those items by table and key."""
    tables, before = MemoryStore(), {}
    for table in ALL_TABLES:
        items = [newer(item) for item in (_recorded(folder, table.name) if _has(folder, table) else [])]
        before[table.name] = {table.key_of(item): copy.deepcopy(item) for item in items}
        for item in items:
            tables.commit([Put(table, item, Anyway("as it was recorded"))])
    ended = [item["ended_at_ms"] for item in before["timers"].values() if "ended_at_ms" in item]
    clock = FakeClock(max(ended) + SECOND_MS)
    layout = Layout(shards=2, slices=1, pools=("default", "push"))
    return Ports(clock, tables, RememberingSender(), KeptSignals(), CountingIds(), layout), before


def _has(folder: Path, table: Table) -> bool:
    return (folder / f"{table.name}.json").exists()


def lost(ports: Ports, before: dict[str, dict[Any, Item]], table: Table) -> list[str]:
    """Where an attribute of the newer version is gone, of items and mappings that are still there."""
    found = []
    assert isinstance(ports.store, MemoryStore)
    for item in ports.store.items(table):
        old = before[table.name].get(table.key_of(item))
        if old is None or item.get("created_at_ms") != old.get("created_at_ms"):  # a pending one was written anew
            continue
        marked = {path for path, _ in mappings(old)} - {("last",)}  # not changed: another run's takes its place
        found += [f"{table.key_of(item)} {path}" for path, one in mappings(item) if path in marked and NEWER not in one]
    return found


def ask(api: ApiUnderTest, method: str, path: str, body: object = None, **query: str) -> Any:
    status, answer = api.call(method, path, body, **query)
    assert status == 200, (method, path, answer)
    return answer


def use_jobs(api: ApiUnderTest) -> None:
    """Each job is read, previewed, changed, paused and resumed."""
    for job in ask(api, "GET", "/jobs", team="shop", limit="50")["jobs"]:
        path = f"/jobs/{job['job_id']}"
        pauses = ask(api, "GET", path).get("pauses", [])
        ask(api, "GET", f"{path}/next")
        ask(api, "GET", f"{path}/runs")
        if job["status"] not in ("finished", "error"):
            change = {"version": job["version"], "lease_s": 77, "payload": {"day": 2}, "exact_reason": "a bell"}
            changed = ask(api, "PATCH", path, change)
            assert changed["lease_s"] == 77
            at_resume = next((one["at_resume"] for one in pauses if "at_resume" in one), "skip")
            ask(api, "POST", f"{path}/pause", {"by": "ops", "reason": "skew", "at_resume": at_resume})
            ask(api, "POST", f"{path}/resume", {"by": "ops"})


def use_runs(api: ApiUnderTest, ports: Ports) -> None:
    """What is due is dispatched, started, completed or failed; what is left is cancelled, a dead one replayed."""
    clock, sender = ports.clock, ports.sender
    assert isinstance(clock, FakeClock)
    assert isinstance(sender, RememberingSender)
    for _ in range(4):
        clock.at_ms += 3_600 * SECOND_MS
        run_window(ports, 0, clock.at_ms // SECOND_MS)
    for number, message in enumerate(sender.bodies("ready-default")):
        passed_on = ("ref", "attempt", "retry_ref", "payload_id")
        entry = {"claim": f"claim-{number:04d}"} | {name: message[name] for name in passed_on if name in message}
        (granted,) = ask(api, "POST", "/runs:start", {"worker": "w1", "runs": [entry]})["runs"]
        if not granted["granted"]:
            continue
        named = {"ref": message["ref"], "token": granted["token"]}
        ask(api, "POST", "/runs:heartbeat", {"runs": [named]})
        outcome = {"outcome": "failed", "error": "boom"} if number % 3 == 0 else {"outcome": "succeeded"}
        if number % 4:
            ask(api, "POST", "/runs:complete", {"runs": [named | outcome]})
    dead = [run["ref"] for run in ask(api, "GET", "/dead-letters", team="shop")["runs"]]
    order = {"team": "shop", "runs": dead[:5], "by": "ops", "reason": "skew", "dry_run": False}
    ask(api, "POST", "/dead-letters:replay", order)
    unended = [item for item in ports.store.scan(TIMERS, limit=500, after=None)[0] if item["status"] == "pending"]
    refs = [{"ref": f"{item['pk']}|{item['sk']}"} for item in unended if "run_ref" not in item]
    ask(api, "POST", "/runs:cancel", {"runs": refs[:20]})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_a_newer_version_has_added_survives_all_that_this_one_does(folder: Path) -> None:
    ports, before = stage(folder)
    api = ApiUnderTest(ports)
    listed = ask(api, "GET", "/jobs", team="shop", limit="50")["jobs"]
    assert len(listed) == sum(1 for item in before["jobs"].values() if item["status"] != "deleted")

    use_jobs(api)
    use_runs(api, ports)
    reconcile(ports)
    for job_id in ("shop:plain", "shop:full"):
        ask(api, "DELETE", f"/jobs/{job_id}", reason="skew")
    listed = ask(api, "GET", "/calendars", team="shop")["calendars"]
    (calendar,) = (one for one in listed if one["calendar_id"] == "shop:holidays")
    content = {name: value for name, value in calendar.items() if name not in ("calendar_id", "changed_at")}
    ask(api, "PUT", "/calendars/shop:holidays", content | {"dates": ["2026-12-31"]})

    assert {table.name: lost(ports, before, table) for table in (JOBS, TIMERS, LEASES, CALENDARS, SET_ASIDE)} == {
        table.name: [] for table in (JOBS, TIMERS, LEASES, CALENDARS, SET_ASIDE)
    }
    touched = {
        table.name: sum(1 for key, item in before[table.name].items() if now.get(key) not in (None, item))
        for table in (JOBS, TIMERS, LEASES)
        for now in [{table.key_of(one): one for one in ports.store.items(table)}]  # type: ignore[attr-defined]
    }
    assert touched["jobs"] >= 7
    assert touched["timers"] >= 10
    assert touched["leases"] >= 1


@pytest.mark.parametrize(
    "where", [("schedule",), ("schedule", "calendars"), ("schedule", "dst")], ids=lambda path: ".".join(path)
)
def test_a_schedule_that_only_a_newer_version_can_read_stays_as_it_is_whatever_else_is_changed(where: Path_) -> None:
    ports, _ = stage(FOLDERS[-1])
    (item,) = [one for one in ports.store.items(JOBS) if one["name"] == "full"]  # type: ignore[attr-defined]
    place = item
    for name in where:
        place = place[name]
    place["moon"] = "full"
    ports.store.commit([Put(JOBS, item, Anyway("as a newer version has stored it"))])
    api = ApiUnderTest(ports)
    names = [job["name"] for job in ask(api, "GET", "/jobs", team="shop", limit="50")["jobs"]]
    assert "full" in names

    job = ask(api, "GET", "/jobs/shop:full")
    again = ask(api, "PATCH", "/jobs/shop:full", {"version": job["version"], "lease_s": 77})
    repeated = ask(api, "PATCH", "/jobs/shop:full", {"version": job["version"], "lease_s": 77})
    ask(api, "POST", "/jobs/shop:full/pause", {"by": "ops", "reason": "skew"})
    ask(api, "POST", "/jobs/shop:full/resume", {"by": "ops"})

    assert (again["schedule"], again["next"], again["lease_s"]) == (job["schedule"], job["next"], 77)
    assert repeated["version"] == again["version"]
    assert ask(api, "GET", "/jobs/shop:full")["schedule"] == job["schedule"]


def test_all_kinds_of_what_is_stored_and_sent_are_recorded() -> None:
    found = recording.record()
    assert [name for name, items in found.items() if not items] == []
    statuses = {item["status"] for item in found["timers"]}
    assert statuses >= {"pending", "running", "waiting", "succeeded", "dead", "skipped", "cancelled", "spent"}
    assert any("run_ref" in item for item in found["timers"])
