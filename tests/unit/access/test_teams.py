"""Teams as objects: who may say what of them, who is refused when they have to be registered, and what keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tickwork.api.gate import KeyGate
from tickwork.core.access import teams as records
from tickwork.core.access.actors import LOCAL, Actor, Role
from tickwork.core.access.teams import TeamContent
from tickwork.core.errors import OutcomeUnknown, Throttled
from tickwork.core.instants import DAY_MS, HOUR_MS, SECOND_MS, iso
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Anyway, Committed, Delete, Put
from tickwork.flows.access import keys, registry, teams
from tickwork.flows.access.keys import Wanted
from tickwork.flows.audit.checking_jobs import check_jobs
from tickwork.flows.audit.repairs import Deadline, Repairs
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

TARGET = {"pool": "default", "handler": "h"}
JOB = {"team": "payments", "name": "nightly", "schedule": {"cron": "0 2 * * *"}, "target": TARGET}


class World:
    """An environment with an API that is open to whoever calls, and one that asks for keys."""

    def __init__(self) -> None:
        self.tables = MemoryStore()
        self.ports = fake_ports(self.tables, Layout(shards=1, slices=1))
        self.api = ApiUnderTest(self.ports)

    def another_process(self) -> Ports:
        return replace(fake_ports(self.tables, self.ports.layout), clock=self.ports.clock)

    def as_role(self, role: Role, team: str = "payments") -> ApiUnderTest:
        ends_at_ms = self.ports.clock.now_ms() + DAY_MS
        _, text = keys.create_key(self.ports, Wanted(team, role, ends_at_ms), LOCAL)
        api = ApiUnderTest(self.ports, KeyGate())
        api.headers = {"authorization": f"Bearer {text}"}
        return api

    def create(self, team: str = "payments", **content: Any) -> Any:
        status, answer = self.api.call("PUT", f"/teams/{team}", {"contact": "ann"} | content)
        assert status == 200, answer
        return answer

    def refuse_unknown(self) -> None:
        assert (
            self.api.call("POST", "/teams:adopt", {"contact": "x", "dry_run": False, "refuse_unknown": True})[0] == 200
        )


def forget(world: World) -> None:
    """Adopting has just registered it."""
    world.tables.commit([Delete(TEAMS, records.team_key("payments"), Anyway("it is there or not"))])


def slug(answer: tuple[int, Any]) -> tuple[int, str]:
    return answer[0], answer[1]["type"].rpartition(":")[2]


# --- the object -------------------------------------------------------------------------------------------------


def test_a_team_is_kept_and_shown_as_it_was_written() -> None:
    content = {
        "contact": "ann@example.org",
        "runbook": "https://wiki.example.org/payments",
        "routes": [
            {"kind": "webhook", "address": "https://hooks.example.org/p"},
            {"kind": "topic", "address": "arn:aws:sns:eu-west-1:123456789012:env-pager-payments"},
            {"kind": "email", "address": "ann@example.org"},
        ],
        "defaults": {"lease_s": 60, "retry_policy": {"max_attempts": 3}},
        "weight": 3,
        "quotas": {"creates_per_s": 100, "jobs": 50},
        "shared": [{"resource": "reporting-db", "teams": ["shop"]}],
    }
    world = World()
    shown = world.create(**content)
    untested = {"state": "untested", "tested_at": None, "detail": None}
    bounds = dict.fromkeys(("creates_per_s", "pending_timers", "jobs", "payload_bytes", "keys"))
    assert {name: shown[name] for name in content} == content | {"quotas": bounds | content["quotas"]}  # type: ignore[operator]
    routes = [one | untested for one in shown["routes"]]
    assert world.api.call("GET", "/teams/payments") == (
        200,
        shown | {"routes": routes, "used": bounds | {"creates_per_s": 0}},
    )
    assert world.api.call("GET", "/teams")[1]["teams"] == [shown]


def test_the_same_content_again_changes_nothing_and_other_content_names_the_version_it_replaces() -> None:
    world = World()
    first = world.create()
    assert world.create() == first
    assert slug(world.api.call("PUT", "/teams/payments", {"contact": "bob"})) == (409, "already-exists")
    assert world.create(contact="bob", version=1)["version"] == 2
    assert slug(world.api.call("PUT", "/teams/payments", {"contact": "cyd", "version": 1})) == (412, "version-conflict")
    assert slug(world.api.call("PUT", "/teams/shop", {"contact": "cyd", "version": 1})) == (404, "not-found")


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"routes": [{"kind": "webhook", "address": "http://10.0.0.1/x"}]}, "routes.0.address"),
        ({"routes": [{"kind": "topic", "address": "arn:aws:sqs:eu-west-1:123456789012:q"}]}, "routes.0.address"),
        (
            {"routes": [{"kind": "topic", "address": "arn:aws:sns:eu-west-1:123456789012:env-pager-shop"}]},
            "routes.0.address",
        ),
        ({"routes": [{"kind": "email", "address": "ann"}]}, "routes.0.address"),
        ({"shared": [{"resource": "a b", "teams": ["shop"]}]}, "shared.0"),
        ({"weight": 0}, "weight"),
        ({"quotas": {"jobs": 0}}, "quotas.jobs"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_field(content: dict[str, Any], field: str) -> None:
    status, problem = World().api.call("PUT", "/teams/payments", {"contact": "ann"} | content)
    assert (status, problem["errors"][0]["field"]) == (422, field)


def test_an_owner_says_all_of_his_team_but_what_it_may_use() -> None:
    world = World()
    owner = world.as_role("owner")
    assert slug(owner.call("PUT", "/teams/payments", {"contact": "ann"})) == (403, "forbidden")
    world.create(quotas={"jobs": 5}, weight=2)
    kept = {"quotas": {"jobs": 5}, "weight": 2}
    status, changed = owner.call("PUT", "/teams/payments", {"contact": "bob", "runbook": "r", "version": 1} | kept)
    assert (status, changed["contact"], changed["changed_by"][:4]) == (200, "bob", "key:")
    for told in ({"weight": 2}, {"quotas": {"jobs": 6}, "weight": 2}, {"quotas": {"jobs": 5}, "weight": 3}):
        answer = owner.call("PUT", "/teams/payments", {"contact": "bob", "runbook": "r", "version": 2} | told)
        assert slug(answer) == (403, "forbidden"), told


def test_a_team_lists_itself_alone() -> None:
    world = World()
    for team in ("payments", "shop", "web"):
        world.create(team)
    assert [one["team"] for one in world.as_role("viewer").call("GET", "/teams")[1]["teams"]] == ["payments"]
    first = world.api.call("GET", "/teams", limit="2")[1]
    rest = world.api.call("GET", "/teams", limit="2", cursor=first["cursor"])[1]
    assert [one["team"] for one in (*first["teams"], *rest["teams"])] == ["payments", "shop", "web"]
    assert slug(world.api.call("GET", "/teams", cursor="bnVsbA")) == (422, "invalid-field")


def test_what_a_newer_version_has_stored_of_a_team_stays() -> None:
    world = World()
    world.create()
    (item,) = world.tables.query(TEAMS, records.REGISTERED, "!", "~", limit=9).items
    newer = item | {"region": "eu", "quotas": {"dispatches_per_s": 7}}
    world.tables.commit([Put(TEAMS, newer, Anyway("a newer version's"))])
    world.create(contact="bob", version=1)
    (item,) = world.tables.query(TEAMS, records.REGISTERED, "!", "~", limit=9).items
    assert (item["region"], item["quotas"], item["contact"]) == ("eu", {"dispatches_per_s": 7}, "bob")


# --- unknown teams ----------------------------------------------------------------------------------------------

CREATIONS = (
    ("POST", "/jobs", JOB),
    ("POST", "/timers", {"team": "payments", "delay_s": 60, "target": TARGET}),
    ("POST", "/timers:batch", {"timers": [{"team": "payments", "delay_s": 60, "target": TARGET}]}),
    ("PUT", "/calendars/payments:days", {"dates": ["2026-12-25"]}),
    ("POST", "/keys", {"team": "payments", "role": "viewer"}),
)


@pytest.mark.parametrize(("method", "path", "body"), CREATIONS)
def test_a_team_that_is_not_registered_creates_until_the_platform_turns_the_rule_on(
    method: str, path: str, body: dict[str, Any]
) -> None:
    world = World()
    assert world.api.call(method, path, body)[0] < 300
    world = World()
    world.refuse_unknown()
    status, problem = world.api.call(method, path, body)
    assert (status, problem["type"]) == (422, "urn:tickwork:problem:unknown-team")
    assert "tickwork teams create payments" in problem["errors"][0]["remedy"]
    world.create()
    assert world.api.call(method, path, body)[0] < 300


def test_what_is_stored_goes_on_and_a_repeated_request_gets_its_first_answer_whatever_the_rule_says() -> None:
    world = World()
    assert world.api.call("POST", "/jobs", JOB)[0] == 201
    timer = {"team": "payments", "delay_s": 60, "target": TARGET, "client_key": "k"}
    assert world.api.call("POST", "/timers", timer)[0] == 201
    world.refuse_unknown()
    world.api.call("DELETE", "/teams/payments")
    assert world.api.call("POST", "/jobs", JOB)[0] == 200
    assert world.api.call("POST", "/timers", timer)[0] == 200
    assert world.api.call("PATCH", "/jobs/payments:nightly", {"version": 1, "lease_s": 90})[0] == 200
    assert world.api.call("POST", "/jobs/payments:nightly/pause", {"reason": "r"})[0] == 200


def test_a_team_that_was_registered_elsewhere_a_moment_ago_is_known_here() -> None:
    world = World()
    world.refuse_unknown()
    assert world.api.call("POST", "/jobs", JOB)[0] == 422
    other = world.another_process()
    teams.put_team(other, "payments", TeamContent(contact="ann"), None, LOCAL)
    assert world.api.call("POST", "/jobs", JOB)[0] == 201


def test_the_rule_holds_in_every_process_within_half_a_minute_and_is_off_at_once() -> None:
    world = World()
    other = ApiUnderTest(world.another_process())
    assert other.call("POST", "/jobs", JOB)[0] == 201
    world.refuse_unknown()
    forget(world)
    world.ports.clock.sleep_ms(registry.TRUSTED_MS)
    assert other.call("POST", "/jobs", JOB | {"name": "b"})[0] == 422
    world.api.call("POST", "/teams:adopt", {"contact": "x", "dry_run": False, "refuse_unknown": False})
    forget(world)
    assert other.call("POST", "/jobs", JOB | {"name": "b"})[0] == 201


class Busy:
    """A table of teams that answers nobody."""

    def __init__(self, tables: MemoryStore) -> None:
        self._tables = tables

    def __getattr__(self, verb: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if arguments and arguments[0] is TEAMS:
                raise Throttled("busy")
            return getattr(self._tables, verb)(*arguments, **named)

        return call


def test_a_busy_table_of_teams_keeps_no_job_from_being_registered() -> None:
    world = World()
    world.refuse_unknown()
    world.ports.clock.sleep_ms(registry.TRUSTED_MS)
    api = ApiUnderTest(replace(world.another_process(), store=Busy(world.tables)))  # type: ignore[arg-type]
    assert api.call("POST", "/jobs", JOB)[0] == 201


def test_creations_cost_one_read_of_the_teams_in_half_a_minute() -> None:
    world = World()
    world.create()
    reads: list[int] = []
    counted = world.tables.get_many
    world.tables.get_many = lambda table, keys: (  # type: ignore[method-assign]
        reads.append(1) if table is TEAMS else None,
        counted(table, keys),
    )[1]
    ports = world.another_process()
    api = ApiUnderTest(ports)
    for name in "abc":
        assert api.call("POST", "/jobs", JOB | {"name": name})[0] == 201
        assert api.call("POST", "/timers", {"team": "payments", "delay_s": 1, "target": TARGET})[0] == 201
    assert len(reads) == 1


# --- adopting ---------------------------------------------------------------------------------------------------


def adopt(world: World, **body: Any) -> Any:
    status, answer = world.api.call("POST", "/teams:adopt", {"contact": "the platform"} | body)
    assert status == 200, answer
    return answer


def test_adopting_registers_who_was_seen_and_a_dry_run_registers_nobody() -> None:
    world = World()
    world.create("web")
    for team in ("payments", "shop", "web"):
        assert world.api.call("POST", "/jobs", JOB | {"team": team})[0] == 201
    told = adopt(world, refuse_unknown=True)
    assert (told["teams"], told["unknown_refused"]) == (["payments", "shop"], False)
    assert [one["team"] for one in world.api.call("GET", "/teams")[1]["teams"]] == ["web"]
    done = adopt(world, dry_run=False, refuse_unknown=True)
    assert (done["teams"], done["unknown_refused"]) == (["payments", "shop"], True)
    assert world.api.call("GET", "/teams/shop")[1]["contact"] == "the platform"
    assert world.api.call("GET", "/teams/web")[1]["contact"] == "ann"
    again = adopt(world, dry_run=False, refuse_unknown=True)
    assert (again["teams"], again["unknown_refused"]) == ([], True)


def test_the_rule_is_not_turned_on_before_all_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teams, "ADOPTED_MAX", 1)
    world = World()
    for team in ("payments", "shop"):
        world.api.call("POST", "/jobs", JOB | {"team": team})
    first = adopt(world, dry_run=False, refuse_unknown=True)
    assert (first["teams"], first["more"], first["unknown_refused"]) == (["payments"], True, False)
    second = adopt(world, dry_run=False, refuse_unknown=True)
    assert (second["teams"], second["more"], second["unknown_refused"]) == (["shop"], False, True)


def test_the_walk_over_the_definitions_notes_the_teams_of_jobs_that_an_older_version_has_registered() -> None:
    world = World()
    world.api.call("POST", "/jobs", JOB)
    world.tables.commit([Delete(TEAMS, records.seen_key("payments"), Anyway("an older version notes nobody"))])
    ports = world.another_process()
    check_jobs(ports, Repairs(), Deadline(ports, 60_000))
    assert adopt(world)["teams"] == ["payments"]


# --- deleting ---------------------------------------------------------------------------------------------------


def test_a_team_is_deleted_when_nothing_of_it_lives() -> None:
    world = World()
    world.create()
    world.api.call("POST", "/jobs", JOB)
    deletion = ("DELETE", "/teams/payments")
    assert "jobs" in world.api.call(*deletion)[1]["detail"]
    world.api.call("DELETE", "/jobs/payments:nightly")
    _, key = world.api.call("POST", "/keys", {"team": "payments", "role": "viewer"})
    assert "API keys" in world.api.call(*deletion)[1]["detail"]
    world.api.call("DELETE", f"/keys/{key['key_id']}")
    assert "just created" in world.api.call(*deletion)[1]["detail"]
    world.ports.clock.sleep_ms(2 * registry.CALL_MS_MAX)
    assert world.api.call(*deletion) == (200, {"team": "payments", "deleted": True})
    assert world.api.call("GET", "/teams/payments")[0] == 404
    assert slug(world.api.call(*deletion)) == (404, "not-found")
    assert adopt(world)["teams"] == []


@pytest.mark.parametrize("scope", [{"team": "payments"}, {"pool": "default"}, {"cell": "*"}])
def test_a_team_for_which_timers_may_wait_under_a_pause_is_not_deleted(scope: dict[str, str]) -> None:
    world = World()
    world.create()
    world.api.call("POST", "/pauses", scope | {"reason": "a freeze"})
    world.ports.clock.sleep_ms(2 * registry.CALL_MS_MAX)
    status, problem = world.api.call("DELETE", "/teams/payments")
    assert (status, "a pause" in problem["detail"]) == (409, True)
    world.api.call("POST", "/pauses:resume", scope)
    assert world.api.call("DELETE", "/teams/payments")[0] == 200


def test_another_teams_pause_keeps_no_team_from_being_deleted() -> None:
    world = World()
    for name in ("payments", "shop"):
        world.create(name)
    world.api.call("POST", "/pauses", {"team": "shop", "reason": "a freeze"})
    assert world.api.call("DELETE", "/teams/payments")[0] == 200


def test_a_team_that_was_adopted_and_deleted_is_not_adopted_again() -> None:
    world = World()
    world.api.call("POST", "/jobs", JOB)
    assert adopt(world, dry_run=False)["teams"] == ["payments"]
    world.api.call("DELETE", "/jobs/payments:nightly")
    assert world.api.call("DELETE", "/teams/payments")[0] == 200
    assert adopt(world)["teams"] == []


def test_a_team_with_a_calendar_is_not_deleted() -> None:
    world = World()
    world.create()
    world.api.call("PUT", "/calendars/payments:days", {"dates": ["2026-12-25"]})
    assert slug(world.api.call("DELETE", "/teams/payments")) == (409, "in-use")


def test_no_timer_of_a_registered_team_lies_behind_its_mark() -> None:
    world = World()
    world.create()
    fires: list[int] = []
    for process in (world.ports, world.another_process(), world.another_process()):
        for delay_s in (1, 3_600, 40, 86_400, 5):
            answer = ApiUnderTest(process).call(
                "POST", "/timers", {"team": "payments", "delay_s": delay_s, "target": TARGET}
            )
            fires.append(process.clock.now_ms() + delay_s * SECOND_MS)
            assert answer[0] == 201
            assert mark(world) >= max(fires)
    status, problem = world.api.call("DELETE", "/teams/payments")
    assert (status, iso(mark(world)) in problem["detail"]) == (409, True)
    world.ports.clock.sleep_ms(mark(world) - world.ports.clock.now_ms())
    assert world.api.call("DELETE", "/teams/payments")[0] == 200


def mark(world: World) -> int:
    return teams.get_team(world.ports, "payments").pending_until_ms


def test_the_mark_is_moved_so_far_that_the_next_ones_need_not() -> None:
    world = World()
    world.create()
    moved = 0
    for _ in range(600):
        before = mark(world)
        world.api.call("POST", "/timers", {"team": "payments", "delay_s": 86_400, "target": TARGET})
        moved += mark(world) != before
        world.ports.clock.sleep_ms(6 * SECOND_MS)
    assert moved == 1
    assert mark(world) - world.ports.clock.now_ms() < DAY_MS + 2 * HOUR_MS


def test_a_mark_that_moves_while_a_team_is_replaced_is_not_put_back() -> None:
    world = World()
    world.create()
    stale = replace(teams.get_team(world.ports, "payments"), contact="bob", version=2)
    world.api.call("POST", "/timers", {"team": "payments", "delay_s": 60, "target": TARGET})
    before = mark(world)
    assert not isinstance(world.tables.commit([records.put_team(stale)]), Committed)
    world.create(contact="bob", version=1)
    assert mark(world) == before


# --- lost replies -----------------------------------------------------------------------------------------------


class LosesReplies:
    """The first commit takes effect, and says that nobody knows."""

    def __init__(self, tables: MemoryStore) -> None:
        self._tables, self._lost = tables, False

    def commit(self, writes: Any) -> Any:
        done = self._tables.commit(writes)
        if not self._lost:
            self._lost = True
            raise OutcomeUnknown("lost")
        return done

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._tables, verb)


def test_a_lost_reply_makes_no_second_version_and_no_conflict() -> None:
    world = World()
    ports = replace(world.another_process(), store=LosesReplies(world.tables))  # type: ignore[arg-type]
    assert teams.put_team(ports, "payments", TeamContent(contact="ann"), None, LOCAL).version == 1
    ports = replace(world.another_process(), store=LosesReplies(world.tables))  # type: ignore[arg-type]
    assert teams.put_team(ports, "payments", TeamContent(contact="bob"), 1, LOCAL).version == 2


def test_who_registers_a_team_is_the_platform() -> None:
    owner = Actor("key:payments:1", "payments", "owner")
    with pytest.raises(Exception, match="the platform's to say"):
        records.registration("payments", TeamContent(contact="ann"), owner, 1)
