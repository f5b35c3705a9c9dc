"""Every route, by every role, about one's own team, another one, and one that is not there, through every door.

What a team has is set up for real; what is expected follows from the matrix and from nothing else. A route that is new
is asked for here by its name, or this fails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors import Authorizer, asked, signed_by
from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tests.support.issuers import Desk, claims, issuer, token
from tests.support.queues import WorldQueue
from tickwork.api.gate import DeployedGate, Gate, KeyGate, OpenGate
from tickwork.api.matrix import ANYBODY, MATRIX, OWNERS, Grant, Place
from tickwork.api.routing import AnyRoute, BadRouteTable
from tickwork.api.table import ROUTES
from tickwork.api.wall import covered
from tickwork.core.access.actors import LOCAL, ROLES, Role, parse_rules
from tickwork.core.instants import DAY_MS, parse_iso
from tickwork.core.jobs.backfills import Backfill
from tickwork.core.ledger.tables import ALL_TABLES, KEYS, TEAMS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Absent, Put
from tickwork.core.watch.incidents import Incident
from tickwork.flows.access import keys
from tickwork.flows.access.authenticating import KnownKeys, SeenKeys
from tickwork.flows.access.keys import Wanted
from tickwork.flows.access.tokens import Credentials, Tokens
from tickwork.flows.dispatch.windows import run_window
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

OWN, OTHER, UNKNOWN = "payments", "shop", "nobody"
TARGETS = (OWN, OTHER, UNKNOWN)
SCHEDULE = {"cron": "0 2 * * *"}


@dataclass
class _World:
    """What `WorldQueue` wants of a world."""

    clock: Any
    outbox: Any


class Stage:
    """Two teams that each have one of everything, and keys of every role for the first."""

    def __init__(self) -> None:
        ports = fake_ports(MemoryStore(), Layout(shards=1, slices=1, pools=("default", "payments")))
        queue = WorldQueue(_World(ports.clock, ports.sender))  # type: ignore[arg-type]
        self.ports: Ports = replace(ports, receiver=queue)
        self.open = ApiUnderTest(self.ports)
        self.things = {team: self._things(team) for team in (OWN, OTHER)}
        self.things[UNKNOWN] = {
            name: text.replace(f"{OTHER}:", f"{UNKNOWN}:").replace(f"#{OTHER}#", f"#{UNKNOWN}#")
            for name, text in self.things[OTHER].items()
        } | {"team": UNKNOWN}
        self.keys = {role: self._key(role) for role in ROLES}

    def _things(self, team: str) -> dict[str, str]:
        target = {"pool": "default", "handler": "h"}
        self.do("PUT", f"/teams/{team}", {"contact": f"ann of {team}"})
        self.do("PUT", f"/teams/{team}/pools/own", {})
        self.do("PUT", f"/calendars/{team}:days", {"dates": ["2026-12-25"]})
        job = self.do("POST", "/jobs", {"team": team, "name": "nightly", "schedule": SCHEDULE, "target": target})
        backfill = Backfill(
            f"{team}:nightly", "0123456789abcdef", "none", Work("default", "h"), count=2, status="paused"
        )
        self.ports.store.commit([Put(TEAMS, backfill.to_item(), Absent())])
        self.ports.store.commit([Put(TEAMS, Incident(f"{team}#nightly#silent").to_item(), Absent())])
        timer = self.do("POST", "/timers", {"team": team, "delay_s": 600, "target": target})
        due = self.do("POST", "/timers", {"team": team, "delay_s": 0, "target": target})
        self.ports.clock.sleep_ms(1_000)
        run_window(self.ports, 0, self.ports.clock.now_ms() // 1_000)
        key, _ = keys.create_key(self.ports, Wanted(team, "viewer", self._end()), LOCAL)
        ref = next(run["ref"] for run in self.do("GET", "/runs", team=team)["runs"] if run["job_id"] == due["timer_id"])
        return {
            "team": team,
            "name": "own",
            "job_id": f"{team}:nightly",
            "next": job["next"]["scheduled_at"],
            "backfill_id": backfill.backfill_id,
            "timer_id": timer["timer_id"],
            "run": due["timer_id"],
            "calendar_id": f"{team}:days",
            "key_id": key.key_id,
            "ref": ref,
        }

    def _key(self, role: Role) -> str:
        team = "platform" if role == "platform" else OWN
        pools = ("default",) if role == "worker" else ()
        return keys.create_key(self.ports, Wanted(team, role, self._end(), "", pools), LOCAL)[1]

    def tokens(self, keys: SeenKeys, rules: str) -> Credentials:
        """What a process takes, where an issuer is configured."""
        return Credentials(keys, Tokens(issuer(rules), Desk()))

    def _end(self) -> int:
        return self.ports.clock.now_ms() + DAY_MS

    def do(self, method: str, path: str, body: object = None, **query: str) -> Any:
        status, answer = self.open.call(method, path, body, **query)
        assert status < 300, answer
        return answer

    def contents(self, team: str) -> str:
        """All that is stored of a team, but when its keys were used."""
        found = []
        for table in ALL_TABLES:
            items, _ = self.ports.store.scan(table, limit=1_000, after=None)
            found += [
                {name: value for name, value in item.items() if name != "used_at_ms"}
                for item in items
                if f"{team}:" in repr(item) or f"{team}#" in repr(item)
            ]
        return json.dumps(found, sort_keys=True)


def request(stage: Stage, route: AnyRoute, team: str) -> tuple[str, object, dict[str, str]]:
    """(path, body, query) of a request of a route that would do something, about a team's things."""
    it = stage.things[team]
    job = {"team": team, "name": "new", "schedule": SCHEDULE, "target": {"pool": "default", "handler": "h"}}
    timer = {"team": team, "delay_s": 60, "target": {"pool": "default", "handler": "h"}}
    bodies: Mapping[str, object] = {
        "create_job": job,
        "change_job": {"version": 1, "lease_s": 90},
        "pause_job": {"reason": "a release"},
        "resume_job": {},
        "acknowledge_incident": {"reason": "I am on it"},
        "run_job": {"reason": "the file came late"},
        "skip_occurrence": {"scheduled_at": it["next"], "reason": "the bank is closed"},
        "unskip_occurrence": {"scheduled_at": it["next"]},
        "create_backfill": {"since": "2026-10-01T00:00:00Z", "until": "2026-10-03T00:00:00Z", "reason": "a bug"},
        "pause_backfill": {"reason": "too much"},
        "resume_backfill": {},
        "cancel_backfill": {"reason": "a mistake", "runs": "leave"},
        "preview_schedule": {"schedule": SCHEDULE, "team": team},
        "create_timer": timer,
        "create_timers": {"timers": [timer]},
        "cancel_group": {"team": team, "group": "nightly-batch", "reason": "a mistake"},
        "cancel_timers": {"timer_ids": [it["timer_id"]]},
        "put_calendar": {"dates": ["2026-12-26"], "version": 1},
        "cancel_runs": {"runs": [{"ref": it["ref"]}, {"job_id": it["timer_id"]}]},
        "replay_dead_letters": {"team": team, "filter": {}, "reason": "mended"},
        "start_runs": {"worker": "w", "runs": [{"ref": it["ref"], "claim": "12345678"}]},
        "heartbeat_runs": {"runs": [{"ref": it["ref"], "token": 1}]},
        "complete_runs": {"runs": [{"ref": it["ref"], "token": 1, "outcome": "succeeded"}]},
        "release_runs": {"runs": [{"ref": it["ref"], "token": 1}]},
        "count_unhandled_runs": {"worker": "w", "runs": [{"ref": it["ref"], "handler": "x"}]},
        "lease_runs": {"worker": "w", "max": 10},
        "create_key": {"team": team, "role": "viewer"},
        "rotate_key": {},
        "put_pool": {"shared_with": ["web"], "version": 1},
        "test_routes": {},
        "put_team": {"contact": "bob", "version": 1},
        "pause_scope": {"team": team, "reason": "a release"},
        "resume_scope": {"team": team},
        "adopt_teams": {"contact": "ann"},
        "put_placement": {"cell": "main"},
        "put_team_placement": {"cell": "main"},
        "publish_defaults": {"edition": 0, "reason": "a try", "tolerance_s": 60},
        "plan_defaults": {"version": 1, "percent": 10},
        "roll_out_defaults": {"edition": 0, "version": 1, "percent": 10, "reason": "a try"},
    }
    path = route.path
    for part in route.at:
        path = path.replace(f"{{{part.name}}}", it.get(part.name, "default"))
    query = {"team": team} if "team" in route.query.model_fields else {}
    return path, bodies.get(route.name), query | ({"group": "nightly-batch"} if route.name == "get_group" else {})


DOORS = ("key", "jwt", "iam", "local", "none")


def api_for(stage: Stage, door: str, role: Role) -> ApiUnderTest:
    """The API as somebody of a role finds it: by his key or a token at the second door, by his principal at the first,
    on this machine, or with nothing."""
    team = "platform" if role == "platform" else OWN
    pools = ":default" if role == "worker" else ""
    gates: Mapping[str, Gate] = {
        "key": DeployedGate(()),
        "jwt": DeployedGate((), stage.tokens(KnownKeys(), f"groups=him=>{team}/{role}{pools}")),
        "iam": DeployedGate(parse_rules(f"Him=>{team}/{role}{pools}")),
        "local": OpenGate(),
        "none": KeyGate(),
    }
    api = ApiUnderTest(stage.ports, gates[door])
    if door in ("key", "jwt"):
        shown = stage.keys[role] if door == "key" else token(claims(stage.ports.clock.now_ms(), groups=["him"]))
        api.headers = {"authorization": f"Bearer {shown}"}
        authorizer = Authorizer(stage.ports, lambda keys: stage.tokens(keys, f"groups=him=>{team}/{role}{pools}"))
        admitted = authorizer.answer(asked(api.headers["authorization"]))
        assert admitted["isAuthorized"]
        api.authorizer = {"lambda": admitted["context"]}
    if door == "iam":
        api.authorizer = signed_by("arn:aws:sts::123456789012:assumed-role/Him/session-1")
    return api


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_the_matrix_holds(route: AnyRoute, door: str) -> None:
    """Each role and each team in turn; roles that change nothing of the question are asked once."""
    for role in ROLES if door in ("key", "jwt", "iam") else ROLES[:1]:
        for team in TARGETS:
            _ask(untouched(), route, door, role, team)


UNTOUCHED: list[Stage] = []
"""A stage is used again as long as nothing was done on it."""


def untouched() -> Stage:
    if not UNTOUCHED:
        UNTOUCHED.append(Stage())
    return UNTOUCHED[0]


def _ask(stage: Stage, route: AnyRoute, door: str, role: Role, team: str) -> None:
    grant = MATRIX[route.name]
    path, body, query = request(stage, route, team)
    others = stage.contents(OTHER)
    status, answer = api_for(stage, door, role).call(route.method, path, body, **query)
    if route.method != "GET" and status < 300:
        UNTOUCHED.clear()

    reaches_all = door == "local" or role == "platform"
    if grant.roles == ANYBODY:
        assert status == 200
    elif door == "none":
        assert (status, answer["type"]) == (401, "urn:tickwork:problem:no-credential")
    elif not reaches_all and role not in grant.roles:
        assert (status, answer["type"]) == (403, "urn:tickwork:problem:forbidden")
    elif reaches_all or team == OWN or grant.team.kind in ("pool", "nowhere"):
        is_alive = route.name == "delete_team" and status == 409  # it has got past the wall
        assert status < 300 or team == UNKNOWN or is_alive, answer
    elif grant.team.kind == "entries":
        assert status == 200
        assert all(_is_refused(one) for part in answer.values() for one in part), answer
    else:
        assert (status, answer["type"]) == (404, "urn:tickwork:problem:not-found")
    if not reaches_all or door == "none":
        assert stage.contents(OTHER) == others
        assert grant.team.kind == "nowhere" or team != OWN or OTHER not in json.dumps(answer)


def _is_refused(entry: Mapping[str, Any]) -> bool:
    """Told as one that is not there, and no worker is told to delete its message."""
    if "problem" in entry:
        return entry["problem"] == "not-found"
    return (entry["reason"], entry["discard"], entry["accepted"]) == ("not_yours", False, False)


def _said(stage: Stage, route: AnyRoute, role: Role, team: str) -> str:
    path, body, query = request(stage, route, team)
    status, answer = api_for(stage, "key", role).call(route.method, path, body, **query)
    return json.dumps([status, answer]).replace(team, "TEAM")


@pytest.mark.parametrize(
    "route", [one for one in ROUTES if MATRIX[one.name].team.kind not in ("pool", "nowhere")], ids=lambda one: one.name
)
def test_another_team_and_one_that_is_not_there_are_answered_in_the_same_words(route: AnyRoute) -> None:
    for role in MATRIX[route.name].roles - {"platform"}:
        stage = Stage()
        assert _said(stage, route, role, OTHER) == _said(stage, route, role, UNKNOWN)


def test_a_worker_leases_its_own_teams_runs_and_leaves_the_others_visible_in_their_queue() -> None:
    stage = Stage()
    leased = api_for(stage, "key", "worker").call("POST", "/pools/default:lease", {"max": 10})[1]["runs"]
    assert [run["ref"] for run in leased] == [stage.things[OWN]["ref"]]
    left = stage.open.call("POST", "/pools/default:lease", {"max": 10})[1]["runs"]
    assert [run["ref"] for run in left] == [stage.things[OTHER]["ref"]]


def test_a_worker_leases_from_no_pool_but_its_own() -> None:
    stage = Stage()
    status, problem = api_for(stage, "key", "worker").call("POST", "/pools/payments:lease", {})
    assert (status, problem["type"]) == (404, "urn:tickwork:problem:not-found")


def test_runs_without_a_team_are_the_callers_own() -> None:
    stage = Stage()
    runs = api_for(stage, "key", "viewer").call("GET", "/runs")[1]["runs"]
    assert {run["team"] for run in runs} == {OWN}
    assert {run["team"] for run in stage.do("GET", "/runs")["runs"]} == {OWN, OTHER}


# --- the wall from outside --------------------------------------------------------------------------------------


def test_a_cursor_of_another_teams_list_opens_nothing() -> None:
    stage = Stage()
    for name in ("second", "third"):
        body = {"team": OTHER, "name": name, "schedule": SCHEDULE, "target": {"pool": "default", "handler": "h"}}
        stage.do("POST", "/jobs", body)
    cursor = stage.do("GET", "/jobs", team=OTHER, limit="1")["cursor"]
    runs = stage.do("GET", f"/jobs/{OTHER}:nightly/runs", limit="1")["cursor"] or "bnVsbA"
    api = api_for(stage, "key", "owner")
    for path, query in (
        ("/jobs", {"team": OWN, "cursor": cursor}),
        ("/jobs", {"team": OTHER, "cursor": cursor}),
        (f"/jobs/{OWN}:nightly/runs", {"cursor": runs}),
        (f"/jobs/{OTHER}:nightly/runs", {"cursor": runs}),
        ("/runs", {"team": OWN, "cursor": cursor}),
        ("/dead-letters", {"team": OWN, "cursor": cursor}),
    ):
        status, answer = api.call("GET", path, **query)
        assert status in (404, 422), path
        assert OTHER not in json.dumps(answer).replace(f"'{OTHER}", "").replace(path, "")


def test_a_batch_with_one_foreign_team_creates_nothing() -> None:
    stage = Stage()
    timer = {"delay_s": 60, "target": {"pool": "default", "handler": "h"}}
    before = stage.contents(OWN)
    status, problem = api_for(stage, "key", "owner").call(
        "POST", "/timers:batch", {"timers": [timer | {"team": OWN}, timer | {"team": OTHER}]}
    )
    assert (status, problem["errors"][0]["field"]) == (404, "timers.1.team")
    assert stage.contents(OWN) == before


def test_the_platforms_calendars_are_there_for_all_and_no_other_teams() -> None:
    stage = Stage()
    stage.do("PUT", "/calendars/platform:holidays", {"dates": ["2026-12-25"]})
    api = api_for(stage, "key", "owner")
    assert api.call("GET", "/calendars/platform:holidays")[0] == 200
    assert len(api.call("GET", "/calendars", team="platform")[1]["calendars"]) == 1
    assert api.call("PUT", "/calendars/platform:holidays", {"dates": [], "version": 1})[0] == 404
    for name, status in (("platform:holidays", 200), (f"{OWN}:days", 200), (f"{OTHER}:days", 422)):
        schedule = SCHEDULE | {"calendars": {"exclude": [name]}}
        found, told = api.call("POST", "/schedules:preview", {"schedule": schedule})
        assert found == status, told


def test_bare_calendar_names_of_a_preview_are_the_callers_own() -> None:
    stage = Stage()
    schedule = SCHEDULE | {"calendars": {"exclude": ["days"]}}
    assert api_for(stage, "key", "viewer").call("POST", "/schedules:preview", {"schedule": schedule})[0] == 200


def test_a_viewer_reads_everything_of_his_team_and_changes_nothing() -> None:
    """X6, X12: each GET but that of keys; `plan` and `diff` need no more than these."""
    for route in ROUTES:
        roles = MATRIX[route.name].roles
        if route.method == "GET" and "key" not in route.name:
            assert roles == ANYBODY or "viewer" in roles, route.name
        elif route.name != "preview_schedule":
            assert "viewer" not in roles, route.name
    stage = Stage()
    before = stage.contents(OWN)
    for route in ROUTES:
        if "viewer" in MATRIX[route.name].roles:
            path, body, query = request(stage, route, OWN)
            shown = api_for(stage, "key", "viewer").call(route.method, path, body, **query)
            assert shown == api_for(stage, "key", "owner").call(route.method, path, body, **query)
    assert stage.contents(OWN) == before


def test_a_job_created_later_is_covered_by_the_keys_there_are() -> None:
    """X5"""
    stage = Stage()
    body = {"team": OWN, "name": "later", "schedule": SCHEDULE, "target": {"pool": "default", "handler": "h"}}
    assert api_for(stage, "key", "owner").call("POST", "/jobs", body)[0] == 201
    assert api_for(stage, "key", "viewer").call("GET", f"/jobs/{OWN}:later")[0] == 200


# --- who did it -------------------------------------------------------------------------------------------------


def test_who_paused_is_the_caller_and_what_he_wrote_a_note_behind_it() -> None:
    """X2, X3: and a pause without a reason is refused."""
    stage = Stage()
    api = api_for(stage, "iam", "operator")
    assert api.call("POST", f"/jobs/{OWN}:nightly/pause", {"by": "ann"})[0] == 422
    _, job = api.call("POST", f"/jobs/{OWN}:nightly/pause", {"by": "key:boss", "reason": "a release"})
    assert job["pauses"][0]["by"] == "iam:Him/session-1 (key:boss)"
    _, job = api_for(stage, "key", "owner").call("POST", f"/jobs/{OWN}:nightly/resume", {})
    assert job["status"] == "active"


def test_a_key_is_who_it_says_also_where_nobody_asks_for_one() -> None:
    stage = Stage()
    api = ApiUnderTest(stage.ports)
    api.headers = {"Authorization": f"bearer {stage.keys['viewer']}"}
    assert api.call("GET", f"/jobs/{OTHER}:nightly")[0] == 404
    api.headers = {"authorization": "Bearer something"}
    assert api.call("GET", f"/jobs/{OWN}:nightly")[1]["type"] == "urn:tickwork:problem:malformed-key"
    api.headers = {"authorization": "AWS4-HMAC-SHA256 Credential=..."}
    assert api.call("GET", f"/jobs/{OWN}:nightly")[0] == 200


def test_a_rotated_key_and_its_successor_are_valid_together() -> None:
    stage = Stage()
    api = api_for(stage, "key", "owner")
    worker = next(key for key in api.call("GET", "/keys", team=OWN)[1]["keys"] if key["role"] == "worker")
    _, new = api.call("POST", f"/keys/{worker['key_id']}/rotate", {})
    assert (new["role"], new["pools"], new["team"]) == ("worker", ["default"], OWN)
    for text in (stage.keys["worker"], new["key"]):
        api.headers = {"authorization": f"Bearer {text}"}
        assert api.call("POST", "/pools/default:lease", {})[0] == 200


# --- the table --------------------------------------------------------------------------------------------------


def test_a_route_that_is_not_in_the_matrix_does_not_start() -> None:
    lacking = {name: grant for name, grant in MATRIX.items() if name != "get_job"}
    with pytest.raises(BadRouteTable, match="get_job is not in the matrix"):
        covered(ROUTES, lacking)
    with pytest.raises(BadRouteTable, match="which is no route"):
        covered(ROUTES, {**MATRIX, "get_jub": MATRIX["get_job"]})


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("get_job", Place("nowhere")),
        ("create_job", Place("nowhere")),
        ("list_jobs", Place("body")),
        ("create_timers", Place("entries", "timers")),
        ("cancel_runs", Place("each", "runs")),
        ("lease_runs", Place("nowhere")),
    ],
)
def test_a_route_whose_team_is_looked_for_in_the_wrong_place_does_not_start(name: str, place: Place) -> None:
    with pytest.raises(BadRouteTable, match=name):
        covered(ROUTES, {**MATRIX, name: Grant(OWNERS, place)})


def test_a_route_that_takes_a_schedule_and_shows_others_calendars_does_not_start() -> None:
    with pytest.raises(BadRouteTable, match="may name calendars"):
        covered(ROUTES, {**MATRIX, "create_job": replace(MATRIX["create_job"], names_calendars=False)})


def test_a_worker_holds_a_run_back_by_another_teams_hard_calendar_that_its_job_was_registered_with() -> None:
    stage = Stage()
    stage.do("PUT", f"/calendars/{OTHER}:freeze", {"dates": ["2027-01-01"], "hard": True})
    schedule = {"rate": "1 hour", "calendars": {"exclude": [f"{OTHER}:freeze"]}}
    target = {"pool": "default", "handler": "h"}
    body = {"team": OWN, "name": "held", "schedule": schedule, "target": target}
    stage.do("POST", "/jobs", body)
    freeze = {"dates": ["2026-10-30"], "hard": True, "version": 1}
    stage.do("PUT", f"/calendars/{OTHER}:freeze", freeze)
    asked = {"worker": "w", "runs": [{"ref": _ref_of(stage, f"{OWN}:held"), "claim": "12345678"}]}
    (answer,) = api_for(stage, "key", "worker").call("POST", "/runs:start", asked)[1]["runs"]
    assert (answer["granted"], answer["reason"]) == (False, "put_off")
    status, problem = api_for(stage, "key", "owner").call("POST", "/jobs", body | {"name": "anew"})
    assert (status, problem["type"]) == (422, "urn:tickwork:problem:bad-schedule")


def _ref_of(stage: Stage, job_id: str) -> str:
    job = stage.do("GET", f"/jobs/{job_id}")
    stage.ports.clock.at_ms = parse_iso(job["next"]["fire_at"])  # type: ignore[attr-defined]
    return str(stage.do("GET", f"/jobs/{job_id}/runs")["runs"][0]["ref"])


def test_the_page_has_the_matrix_as_it_is() -> None:
    page = (Path(__file__).parents[3] / "docs" / "access.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith(("| `GET", "| `P", "| `DELETE"))]
    assert rows == [_row(route) for route in ROUTES]


def _row(route: AnyRoute) -> str:
    grant = MATRIX[route.name]
    marks = " | ".join("x" if role in grant.roles else "" for role in ROLES)
    place = "" if grant.team.kind == "nowhere" else f"{grant.team.kind} `{grant.team.name}`"
    return f"| `{route.method} {route.path}` | {marks} | {place} |"


def test_every_stage_has_keys_of_every_role() -> None:
    items, _ = Stage().ports.store.scan(KEYS, limit=100, after=None)
    assert {item["role"] for item in items} == set(ROLES)
