"""Somebody who is of several teams has all of them (X7): which counts, the request's own team says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.access.test_matrix import OTHER, OWN, UNKNOWN, UNTOUCHED, Stage, request, untouched
from tickwork.api.matrix import ANYBODY, MATRIX
from tickwork.api.routing import AnyRoute
from tickwork.api.table import ROUTES
from tickwork.core.access.actors import PLATFORM_TEAM, ROLES, Actor, Role, together
from tickwork.ports import Ports

SCHEDULE = {"cron": "0 2 * * *"}
TARGET = {"pool": "default", "handler": "h"}


@dataclass
class _AreThese:
    """A gate behind which everybody is all of these."""

    standings: tuple[Actor, ...]

    def actor_of(self, _: Ports, __: Mapping[str, Any]) -> Actor:
        return together(self.standings)


def who(*standings: tuple[str, Role]) -> _AreThese:
    return _AreThese(
        tuple(Actor("jwt:ann", team, role, ("default",) if role == "worker" else ()) for team, role in standings)
    )


def api_of(stage: Stage, *standings: tuple[str, Role]) -> ApiUnderTest:
    return ApiUnderTest(stage.ports, who(*standings))


def _kind(answer: Any) -> str:
    return str(answer.get("type", "")).removeprefix("urn:tickwork:problem:")


def _ask(api: ApiUnderTest, stage: Stage, route: AnyRoute, team: str) -> tuple[int, Any]:
    path, body, query = request(stage, route, team)
    return api.call(route.method, path, body, **query)


ASKED = [one for one in ROUTES if MATRIX[one.name].roles != ANYBODY]
PAIRS: list[tuple[Role, Role]] = [
    ("viewer", "owner"),
    ("operator", "viewer"),
    ("owner", "worker"),
    ("worker", "worker"),
    ("worker", "operator"),
]


@pytest.mark.parametrize(
    "route", [one for one in ROUTES if MATRIX[one.name].roles != ANYBODY], ids=lambda one: one.name
)
def test_a_request_about_one_team_is_answered_by_what_the_caller_is_there(route: AnyRoute) -> None:
    """As if he were that alone: neither more, by what he is elsewhere, nor less."""
    for ours, theirs in PAIRS:
        for team in (OWN, OTHER, UNKNOWN):
            _check(untouched(), route, {OWN: ours, OTHER: theirs}, team)


def _check(stage: Stage, route: AnyRoute, roles: Mapping[str, Role], team: str) -> None:
    before = stage.contents(OTHER)
    status, answer = _ask(api_of(stage, *roles.items()), stage, route, team)
    if route.method != "GET" and status < 300:
        UNTOUCHED.clear()
    kind, able = MATRIX[route.name].team.kind, {of for of, role in roles.items() if role in MATRIX[route.name].roles}
    if not able:
        assert (status, _kind(answer)) == (403, "forbidden")
    elif kind == "entries":
        assert status == 200
        text = json.dumps(answer)
        assert (team in able) != ("not-found" in text or "not_yours" in text), (roles, team, answer)
    elif kind in ("pool", "nowhere"):
        assert status == 200
    elif team == UNKNOWN:
        assert (status, _kind(answer)) == (404, "not-found")
    elif team in able:
        assert status < 300 or status == _ask(api_of(stage, (team, roles[team])), stage, route, team)[0], answer
    else:
        assert (status, _kind(answer)) == (403, "forbidden"), (roles, team)
    if OTHER not in able:
        assert stage.contents(OTHER) == before


def test_both_teams_jobs_are_there_and_each_in_its_role() -> None:
    stage = Stage()
    api = api_of(stage, (OWN, "owner"), (OTHER, "viewer"))
    for team in (OWN, OTHER):
        assert api.call("GET", f"/jobs/{team}:nightly")[0] == 200
    assert api.call("DELETE", f"/jobs/{OWN}:nightly")[0] == 200
    status, answer = api.call("DELETE", f"/jobs/{OTHER}:nightly")
    assert (status, _kind(answer)) == (403, "forbidden")
    assert "jwt:ann is viewer of shop" in answer["detail"]
    assert stage.do("GET", f"/jobs/{OTHER}:nightly")["status"] == "active"


def test_a_list_that_names_no_team_is_about_the_only_one_that_counts_and_else_asks_which() -> None:
    stage = Stage()
    both = api_of(stage, (OWN, "viewer"), (OTHER, "operator"))
    status, answer = both.call("GET", "/runs")
    assert (status, answer["errors"][0]["field"]) == (422, "team")
    assert "payments, shop" in answer["detail"]
    for team in (OWN, OTHER):
        assert {run["team"] for run in both.call("GET", "/runs", team=team)[1]["runs"]} == {team}
    one = api_of(stage, (OWN, "worker"), (OTHER, "operator"))
    assert {run["team"] for run in one.call("GET", "/runs")[1]["runs"]} == {OTHER}
    all_of_them = api_of(stage, (OWN, "owner"), (PLATFORM_TEAM, "viewer"))
    assert {run["team"] for run in all_of_them.call("GET", "/runs")[1]["runs"]} == {OWN, OTHER}


def test_entries_of_both_teams_are_done_where_the_role_goes_so_far_and_not_there_elsewhere() -> None:
    stage = Stage()
    timer_ids = [stage.things[team]["timer_id"] for team in (OWN, OTHER, UNKNOWN)]
    api = api_of(stage, (OWN, "operator"), (OTHER, "viewer"))
    _, answer = api.call("POST", "/timers:cancel", {"timer_ids": timer_ids})
    assert [one.get("problem") for one in answer["timers"]] == [None, "not-found", "not-found"]
    assert stage.do("GET", f"/timers/{timer_ids[1]}")["status"] == "pending"
    stage = Stage()
    timer_ids = [stage.things[team]["timer_id"] for team in (OWN, OTHER, UNKNOWN)]
    api = api_of(stage, (OWN, "operator"), (OTHER, "owner"))
    _, answer = api.call("POST", "/timers:cancel", {"timer_ids": timer_ids})
    assert [one.get("problem") for one in answer["timers"]] == [None, None, "not-found"]


def test_a_batch_may_create_for_both_and_creates_nothing_when_one_may_not() -> None:
    timers = [{"team": team, "delay_s": 60, "target": TARGET} for team in (OWN, OTHER)]
    stage = Stage()
    status, _ = api_of(stage, (OWN, "owner"), (OTHER, "owner")).call("POST", "/timers:batch", {"timers": timers})
    assert status == 201
    stage = Stage()
    before = stage.contents(OWN)
    refused = api_of(stage, (OWN, "owner"), (OTHER, "viewer")).call("POST", "/timers:batch", {"timers": timers})
    assert (refused[0], _kind(refused[1])) == (403, "forbidden")
    assert stage.contents(OWN) == before


def test_a_worker_of_two_teams_takes_the_runs_of_both_from_a_pool_of_each() -> None:
    stage = Stage()
    api = api_of(stage, (OWN, "worker"), (OTHER, "worker"))
    leased = api.call("POST", "/pools/default:lease", {"max": 10})[1]["runs"]
    assert {run["ref"] for run in leased} == {stage.things[team]["ref"] for team in (OWN, OTHER)}
    assert api.call("POST", "/pools/payments:lease", {})[0] == 404


def test_two_roles_in_one_team_are_both_his() -> None:
    stage = Stage()
    api = api_of(stage, (OWN, "viewer"), (OWN, "worker"))
    assert api.call("GET", f"/jobs/{OWN}:nightly")[0] == 200
    assert api.call("POST", "/pools/default:lease", {"max": 10})[0] == 200
    assert api.call("GET", f"/jobs/{OTHER}:nightly")[0] == 404


def test_a_job_of_one_team_names_no_calendar_of_the_others_that_its_maker_is_of() -> None:
    """What is registered for a team is that team's affair: the caller's being of both joins nothing."""
    stage = Stage()
    schedule = SCHEDULE | {"calendars": {"exclude": [f"{OTHER}:days"]}}
    body = {"team": OWN, "name": "new", "schedule": schedule, "target": TARGET}
    status, answer = api_of(stage, (OWN, "owner"), (OTHER, "owner")).call("POST", "/jobs", body)
    assert (status, _kind(answer)) == (422, "bad-schedule")


def test_a_key_is_made_by_what_the_caller_is_in_its_team() -> None:
    stage = Stage()
    api = api_of(stage, (OWN, "owner"), (PLATFORM_TEAM, "viewer"), (OTHER, "operator"))
    assert api.call("POST", "/keys", {"team": OWN, "role": "viewer"})[0] == 201
    assert api.call("POST", "/keys", {"team": OTHER, "role": "viewer"})[0] == 403
    assert api.call("POST", "/keys", {"team": OWN, "role": "worker", "pools": ["default"]})[0] == 403
    assert api.call("POST", "/keys", {"team": PLATFORM_TEAM, "role": "viewer"})[0] == 403


def test_who_is_several_is_the_least_of_them_where_no_team_is_named() -> None:
    standings = who((OWN, "owner"), (OTHER, "viewer"), (PLATFORM_TEAM, "platform")).standings
    actor = together(standings)
    assert (actor.team, actor.role) == (OTHER, "viewer")
    assert set(actor.standings) == set(standings)
    assert actor.teams == {OWN, OTHER, PLATFORM_TEAM}
    assert [one.role for one in together([Actor("x", "t", role) for role in reversed(ROLES)]).standings] == list(ROLES)


def test_the_teams_there_are_for_somebody_of_two_are_these_two() -> None:
    stage = Stage()
    stage.do("PUT", "/teams/third", {"contact": "eve"})
    api = api_of(stage, (OWN, "viewer"), (OTHER, "owner"))
    assert [team["team"] for team in api.call("GET", "/teams")[1]["teams"]] == [OWN, OTHER]


def test_what_a_call_named_of_one_team_stands_in_no_other_teams_audit() -> None:
    """The readers of each are not the other's: neither the names of its jobs nor how many there are."""
    stage = Stage()
    api = api_of(stage, (OWN, "operator"), (OTHER, "operator"))
    runs = [{"job_id": f"{team}:nightly", "scheduled_at": "2030-01-01T02:00:00Z"} for team in (OWN, OTHER, UNKNOWN)]
    assert api.call("POST", "/runs:cancel", {"runs": runs, "reason": "a release"})[0] == 200
    timer_ids = [stage.things[team]["timer_id"] for team in (OWN, OTHER, UNKNOWN)]
    assert api.call("POST", "/timers:cancel", {"timer_ids": timer_ids})[0] == 200
    timers = [{"team": team, "delay_s": 60, "target": TARGET} for team in (OWN, OTHER, OTHER)]
    makers = api_of(stage, (OWN, "owner"), (OTHER, "owner"))
    assert makers.call("POST", "/timers:batch", {"timers": timers})[0] == 201
    for team, created in ((OWN, 1), (OTHER, 2)):
        entries = stage.do("GET", "/audit", team=team)["entries"]
        facts = {one["action"]: one["facts"] for one in entries if "result" in one}
        assert facts["runs.cancelled"]["runs"] == [f"{team}:nightly@2030-01-01T02:00:00Z"]
        assert facts["timers.cancelled"] == {"timers": 1}
        assert facts["timers.created"] == {"timers": created}
