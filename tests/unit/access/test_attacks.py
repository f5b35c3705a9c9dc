"""Attacks on what keeps teams apart, each tried after it was suspected: races, names that are used again, floods."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.fuzz import world as fuzzed
from tests.support.doors import signed_by
from tests.support.http import ApiUnderTest
from tests.unit.access.test_matrix import OTHER, OWN, UNKNOWN, Stage, request
from tests.unit.access.test_teams import TARGET, World
from tickwork.api.gate import DeployedGate, KeyGate
from tickwork.api.matrix import MATRIX
from tickwork.api.table import ROUTES
from tickwork.core.access import teams as records
from tickwork.core.access.actors import Role, parse_rules
from tickwork.core.instants import iso
from tickwork.core.ledger.writes import Delete
from tickwork.flows.access import registry
from tickwork.flows.audit import history
from tickwork.flows.ledger.merging import Bound


class MeanwhileAtDeletion:
    """Tables on which somebody does something just before a team's item is deleted: what was looked for is past."""

    def __init__(self, world: World, act: Any) -> None:
        self._world, self._act = world, act

    def commit(self, writes: Any) -> Any:
        if any(isinstance(one, Delete) for one in writes) and self._act is not None:
            act, self._act = self._act, None
            act()
        return self._world.tables.commit(writes)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._world.tables, verb)


def test_a_key_that_is_made_while_its_team_is_deleted_keeps_the_team() -> None:
    """Else it would act for whoever is registered under that name next."""
    for path, body in (("/keys", {"team": "payments", "role": "owner"}), ("/keys/{}/rotate", {})):
        world = World()
        world.create()
        old = world.api.call("POST", "/keys", {"team": "payments", "role": "owner", "expires_in_days": 1})[1]["key_id"]
        world.ports.clock.sleep_ms(2 * 86_400_000)
        made: list[Any] = []

        def act(
            path: str = path, body: Any = body, old: str = old, made: list[Any] = made, world: World = world
        ) -> None:
            other = ApiUnderTest(replace(world.another_process(), ids=world.ports.ids))
            made.append(other.call("POST", path.format(old), body))

        ports = replace(world.another_process(), store=MeanwhileAtDeletion(world, act))  # type: ignore[arg-type]
        assert ApiUnderTest(ports).call("DELETE", "/teams/payments")[0] == 409
        ((status, key),) = made
        assert status == 201
        walled = ApiUnderTest(world.ports, KeyGate())
        walled.headers = {"authorization": f"Bearer {key['key']}"}
        assert walled.call("GET", "/teams/payments")[0] == 200


def test_what_is_made_while_its_team_is_deleted_keeps_the_team() -> None:
    """Else whoever is registered under that name next has it: a job that fires, a calendar, a pool with its queue."""
    job = {"team": "payments", "name": "n", "schedule": {"cron": "0 2 * * *"}, "target": TARGET}
    for method, path, body in (
        ("POST", "/jobs", job),
        ("PUT", "/calendars/payments:days", {"dates": ["2026-12-25"]}),
        ("PUT", "/teams/payments/pools/fast", {}),
    ):
        world = World()
        world.create()
        made: list[int] = []

        def act(asked: Any = (method, path, body), made: list[int] = made, world: World = world) -> None:
            made.append(ApiUnderTest(world.another_process()).call(*asked)[0])

        ports = replace(world.another_process(), store=MeanwhileAtDeletion(world, act))  # type: ignore[arg-type]
        assert ApiUnderTest(ports).call("DELETE", "/teams/payments")[0] == 409, path
        assert made[0] in (200, 201)


def test_a_process_that_remembers_a_team_makes_nothing_of_it_once_it_is_deleted_and_others_are_refused() -> None:
    world = World()
    world.create()
    world.refuse_unknown()
    asked = ("POST", "/keys", {"team": "payments", "role": "viewer"})
    other_ports = world.another_process()
    registry.read(other_ports, [records.team_key("payments"), records.UNKNOWN_REFUSED])
    assert world.api.call("DELETE", "/teams/payments")[0] == 200
    status, problem = ApiUnderTest(other_ports).call(*asked)
    assert (status, problem["type"]) == (422, "urn:tickwork:problem:unknown-team")


LISTS = ("/runs", "/timers", "/jobs", "/audit", "/dead-letters", "/teams", "/calendars")


@pytest.mark.parametrize("team", fuzzed.TEAMS)
def test_no_cursor_of_a_list_has_anything_of_another_team(team: str) -> None:
    """A page that is cut where others' things lie goes on behind one's own; base64 hides nothing."""
    world = fuzzed.make()
    api = ApiUnderTest(world.ports, KeyGate())
    key = next(one["key"] for one in world.known["callers"] if (one["team"], one["role"]) == (team, "viewer"))
    api.headers = {"authorization": f"Bearer {key}"}
    (other,) = {*fuzzed.TEAMS} - {team}
    lists = [
        "/runs",
        "/timers",
        "/jobs",
        "/audit",
        "/dead-letters",
        "/teams",
        "/calendars",
        f"/jobs/{team}:nightly/runs",
    ]
    cursors = 0
    for path in lists:
        for limit in ("1", "2", "7"):
            query = {"limit": limit} | ({"team": team} if path.count("/") == 1 and path != "/teams" else {})
            for _ in range(100):
                status, answer = api.call("GET", path, **query)
                assert status == 200, answer
                assert other not in json.dumps(answer)
                if (cursor := answer["cursor"]) is None:
                    break
                cursors += 1
                assert other not in base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode(), path
                query["cursor"] = cursor
            else:
                raise AssertionError(f"{path} does not end")
    assert cursors > 30


def test_the_platform_pages_through_all_teams() -> None:
    api = ApiUnderTest(fuzzed.make().ports)
    first = api.call("GET", "/teams", limit="1")[1]
    second = api.call("GET", "/teams", limit="1", cursor=first["cursor"])[1]
    assert [one["team"] for one in first["teams"] + second["teams"]] == [*fuzzed.TEAMS]


@pytest.mark.parametrize("path", ["/runs", "/timers"])
@pytest.mark.parametrize("own", ["aaa", "zzz"])
@pytest.mark.parametrize("bound", [(3, 20), (6, 60)])
def test_a_list_that_is_cut_among_others_items_names_none_of_them_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, path: str, own: str, bound: tuple[int, int]
) -> None:
    """Little of the team's own for minutes, and of another team three timers in each second: a page that may read no
    further stops between those."""
    monkeypatch.setattr(history, "Bound", lambda: Bound(*bound))
    world = World()
    target, delays = {"pool": "default", "handler": "h"}, (5, 70, 71, 130)
    for delay in delays:
        assert world.api.call("POST", "/timers", {"team": own, "delay_s": delay, "target": target})[0] == 201
    asked = [{"team": "mmm", "delay_s": one // 3, "target": target} for one in range(450)]
    for first in range(0, len(asked), 100):
        assert world.api.call("POST", "/timers:batch", {"timers": asked[first : first + 100]})[0] in (200, 201)
    if path == "/runs":
        world.ports.clock.sleep_ms(160_000)
    api, found, cuts = world.as_role("viewer", own), [], 0
    query = {"team": own, "limit": "50"} | (
        {"since": iso(world.ports.clock.now_ms() - 300_000)} if path == "/runs" else {}
    )
    for _ in range(400):
        answer = api.call("GET", path, **query)[1]
        found += [one["job_id"] if path == "/runs" else one["timer_id"] for one in answer[path[1:]]]
        assert "mmm" not in json.dumps(answer)
        if (cursor := answer["cursor"]) is None:
            break
        cuts += 1
        assert "mmm" not in base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        query["cursor"] = cursor
    assert len(found) == len(set(found)) == len(delays)
    assert cuts > 0


class Heard:
    """Tables that remember what was asked of them: what takes time, and so could tell."""

    def __init__(self, tables: Any) -> None:
        self._tables = tables
        self.calls: list[str] = []

    def __getattr__(self, verb: str) -> Any:
        self.calls.append(verb)
        return getattr(self._tables, verb)


@pytest.mark.parametrize("role", ["viewer", "worker", "operator", "owner"])
def test_a_404_of_anothers_thing_asks_the_tables_no_more_than_one_of_nothing(role: Role) -> None:
    """Nothing at all where the request says whose things it is about; the same where each entry does (timing)."""
    asked = 0
    stage = Stage()
    for route in ROUTES:
        place = MATRIX[route.name].team.kind
        if role not in MATRIX[route.name].roles or place in ("pool", "nowhere"):
            continue
        heard = {}
        for team in (OTHER, UNKNOWN):
            tables = Heard(stage.ports.store)
            gate = DeployedGate(parse_rules(f"Him=>{OWN}/{RULES[role]}"))
            api = ApiUnderTest(replace(stage.ports, store=tables), gate)  # type: ignore[arg-type]
            api.authorizer = signed_by("arn:aws:sts::123456789012:assumed-role/Him/session-1")
            path, body, query = request(stage, route, team)
            api.call(route.method, path, body, **query)
            heard[team] = tables.calls
        assert heard[OTHER] == heard[UNKNOWN], route.name
        assert heard[OTHER] == [] or place == "entries", route.name
        asked += 1
    assert asked >= 5


RULES = {"viewer": "viewer", "worker": "worker:default", "operator": "operator", "owner": "owner"}
