"""A change and its entry are one: the process of the API is killed with each of its port calls as the last one, and its
client then asks again. Never a change without its entry, nor an entry without its change, nor a second entry."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from tests.actions.world import Kill, World
from tests.scenarios.stage import NOW_MS
from tickwork.core.access.entries import Entry, Head, digest_of
from tickwork.core.instants import DAY_MS, SECOND_MS
from tickwork.core.ledger.tables import AUDIT, CALENDARS, JOBS, KEYS, TEAMS, TIMERS, Table

type Request = tuple[str, str, object]

JOB = {
    "team": "team",
    "name": "nightly",
    "schedule": {"cron": "0 2 * * *"},
    "target": {"pool": "default", "handler": "h"},
    "payload": {"day": 1},
}
AT = "/jobs/team:nightly"
CREATE: Request = ("POST", "/jobs", JOB)
CHANGE: Request = ("PATCH", AT, {"version": 1, "schedule": {"cron": "0 3 * * *"}, "payload": {"day": 2}})
PAUSE: Request = ("POST", f"{AT}/pause", {"reason": "a release"})
RESUME: Request = ("POST", f"{AT}/resume", {})
DELETE: Request = ("DELETE", AT, None)

DAYS: Request = ("PUT", "/calendars/team:days", {"dates": ["2026-12-24"]})
MORE_DAYS: Request = ("PUT", "/calendars/team:days", {"dates": ["2026-12-24", "2026-12-31"], "version": 1})

TEAM: Request = ("PUT", "/teams/team", {"contact": "ann"})
MORE_TEAM: Request = ("PUT", "/teams/team", {"contact": "bob", "version": 1})

CHANGES: Mapping[str, tuple[list[Request], Request, Table]] = {
    "create a job": ([], CREATE, JOBS),
    "change a job": ([CREATE], CHANGE, JOBS),
    "pause a job": ([CREATE], PAUSE, JOBS),
    "pause a paused job": ([CREATE, PAUSE], ("POST", f"{AT}/pause", {"reason": "another"}), JOBS),
    "resume a job": ([CREATE, PAUSE], RESUME, JOBS),
    "delete a job": ([CREATE], DELETE, JOBS),
    "register a name again": ([CREATE, DELETE], CREATE, JOBS),
    "create a calendar": ([], DAYS, CALENDARS),
    "change a calendar": ([DAYS], MORE_DAYS, CALENDARS),
    "register a team": ([], TEAM, TEAMS),
    "change a team": ([TEAM], MORE_TEAM, TEAMS),
}
"""By what somebody does: what went before, the request, and the table of the thing it changes."""


def _began(given: list[Request]) -> World:
    world = World()
    world.at_ms = NOW_MS
    for method, path, body in given:
        world.must(method, path, body)
        world.at_ms += SECOND_MS
    return world


def _entries(world: World) -> list[Entry]:
    found = [Entry.from_item(item) for item in world.store.items(AUDIT)]
    return sorted(found, key=lambda entry: (entry.at_ms, entry.place))


def _things(world: World, table: Table) -> list[dict[str, Any]]:
    items = [item for item in world.store.items(table) if "@" not in str(item.get("calendar_id"))]
    return [{name: value for name, value in item.items() if name != "audit_head"} for item in items]


def _see(world: World, before: World, table: Table, what: str) -> int:
    """How many entries there are more: as many as changes, each in its chain, and its thing knows the last one."""
    gained = len(_entries(world)) - len(_entries(before))
    assert gained == int(_things(world, table) != _things(before, table)), what
    entries = _entries(world)
    heads = {item["audit_head"] for item in world.store.items(table) if "@" not in str(item.get("calendar_id"))}
    if entries:
        assert heads == {entries[-1].head.as_text()}, what
    for item in world.store.items(AUDIT):
        assert digest_of(item) == item["hash"], what
    for one, following in pairwise(entries):
        assert Head.parse(following.follows) == one.head, what
    return gained


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_and_its_entry_are_one_whatever_was_killed(name: str) -> None:
    given, (method, path, body), table = CHANGES[name]
    before = _began(given)
    whole = before.copy()
    whole.must(method, path, body)
    calls = whole.calls_made
    assert _see(whole, before, table, "with nothing killed") == 1
    seen = set()
    for n in range(calls + 1):
        world = before.copy()
        assert world.call(method, path, body, kill=Kill(n)) is None
        seen.add(_see(world, before, table, f"killed after call {n} of {calls}"))
        world.at_ms += DAY_MS if n % 2 and name != "pause a paused job" else SECOND_MS
        world.must(method, path, body)
        assert _see(world, before, table, f"asked again after call {n} of {calls}") == 1
    assert seen == {0, 1}, "some died before the change, and some after it"


# --- keys: each request makes another one ---------------------------------------------------------------------

KEY = {"team": "team", "role": "viewer", "name": "dashboard"}


def test_there_is_no_key_without_an_entry_and_none_is_revoked_without_one() -> None:
    before = _began([])
    before.must("POST", "/keys", KEY)
    (held,) = [item["key_id"] for item in before.store.items(KEYS)]
    for method, path, body in (
        ("POST", "/keys", KEY),
        ("POST", f"/keys/{held}/rotate", {}),
        ("DELETE", f"/keys/{held}", None),
    ):
        whole = before.copy()
        whole.must(method, path, body)
        for n in range(whole.calls_made + 1):
            world = before.copy()
            assert world.call(method, path, body, kill=Kill(n)) is None
            items = {item["audit_head"] for item in world.store.items(KEYS)}
            known = {item["audit_head"] for item in before.store.items(KEYS)}
            heads = {entry.head.as_text() for entry in _entries(world)}
            assert items <= heads, f"{path} killed after call {n}"
            assert len(heads) - len(known) == len(items - known), f"{path} killed after call {n}"
    revoked = before.copy()
    for _ in range(2):
        revoked.must("DELETE", f"/keys/{held}")
    assert [entry.action for entry in _entries(revoked)] == ["key.created", "key.revoked"]


# --- a team that goes, and those that come together ------------------------------------------------------------


def test_a_team_is_not_deleted_without_an_entry_that_says_what_it_was() -> None:
    before = _began([TEAM])
    whole = before.copy()
    whole.must("DELETE", "/teams/team")
    for n in range(whole.calls_made + 1):
        world = before.copy()
        assert world.call("DELETE", "/teams/team", kill=Kill(n)) is None
        is_there = any(item["team"] == "team" and "contact" in item for item in world.store.items(TEAMS))
        actions = [entry.action for entry in _entries(world)]
        assert actions == ["team.registered"] + ([] if is_there else ["team.deleted"]), f"killed after call {n}"
    assert _entries(whole)[-1].changes["contact"] == ["ann", None]


def test_adopting_leaves_an_entry_for_each_team_and_one_for_the_rule() -> None:
    before = _began([("POST", "/timers", _timer("a"))])
    adopt: Request = ("POST", "/teams:adopt", {"contact": "ops", "dry_run": False, "refuse_unknown": True})
    whole = before.copy()
    whole.must(*adopt)
    assert sorted(entry.action for entry in _entries(whole)) == ["rule.set", "team.adopted"]
    for n in range(whole.calls_made + 1):
        world = before.copy()
        assert world.call(*adopt, kill=Kill(n)) is None
        stands = {str(item["team"]) for item in world.store.items(TEAMS) if "audit_head" in item}
        told = {entry.stream.rpartition(":")[2] for entry in _entries(world)}
        assert stands == told, f"killed after call {n}"
        world.must(*adopt)
        assert len(_entries(world)) == 2, f"asked again after call {n}"


# --- calls on many --------------------------------------------------------------------------------------------


def _timer(key: str) -> dict[str, Any]:
    return {"team": "team", "delay_s": 600, "target": {"pool": "default", "handler": "h"}, "client_key": key}


def _dead(world: World) -> list[str]:
    """Timers that have failed for good."""
    for key in ("x", "y"):
        world.must("POST", "/timers", {**_timer(key), "delay_s": 1, "retry_policy": {"max_attempts": 1}})
    world.go(5)
    for held in world.take():
        world.complete(held, "failed", error="no")
    return [str(item["sk"]) for item in world.store.items(TIMERS) if item["status"] == "dead"]


def _calls(world: World) -> Mapping[str, Request]:
    ids = [one["timer_id"] for one in world.must("GET", "/timers", team="team", status="pending")["timers"]]
    by_id = [{"run": one} for one in ids]
    return {
        "timers.created": ("POST", "/timers:batch", {"timers": [_timer("c"), _timer("d")]}),
        "timers.cancelled": ("POST", "/timers:cancel", {"timer_ids": ids}),
        "runs.cancelled": ("POST", "/runs:cancel", {"runs": by_id, "reason": "not today"}),
        "runs.replayed": ("POST", "/dead-letters:replay", {"team": "team", "filter": {}, "reason": "mended"}),
    }


@pytest.mark.parametrize("action", ["timers.created", "timers.cancelled", "runs.cancelled", "runs.replayed"])
def test_a_call_on_many_changes_nothing_before_its_entry_stands_and_one_that_died_says_so(action: str) -> None:
    before = _began([("POST", "/timers", _timer("a")), ("POST", "/timers", _timer("b"))])
    assert len(_dead(before)) == 2
    method, path, body = _calls(before)[action]
    whole = before.copy()
    whole.must(method, path, body)
    (entry,) = [one for one in _entries(whole) if one not in _entries(before)]
    assert (entry.action, entry.actor, sum(entry.result.values())) == (action, "local", 2)
    seen = set()
    for n in range(whole.calls_made + 1):
        world = before.copy()
        assert world.call(method, path, body, kill=Kill(n)) is None
        changed = _things(world, TIMERS) != _things(before, TIMERS)
        calls = [one for one in _entries(world) if one not in _entries(before)]
        assert not changed or [one.action for one in calls] == [action], f"killed after call {n}"
        shown = world.must("GET", "/audit", team="team", limit="1")["entries"] if calls else []
        assert [one["result"] is None for one in shown] == [not one.result_at_ms for one in calls]
        seen.add((changed, len(calls), bool(shown and shown[0]["result"])))
        world.must(method, path, body)
        assert len([one for one in _entries(world) if one not in _entries(before)]) <= len(calls) + 1
    assert {(False, 0, False), (False, 1, False), (True, 1, False), (True, 1, True)} <= seen
