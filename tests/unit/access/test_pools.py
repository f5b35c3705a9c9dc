"""Pools that teams make: what they are called, who may aim at them, what keeps them from being deleted."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import FakeQueues, fake_ports
from tests.support.http import ApiUnderTest
from tickwork.api.gate import KeyGate
from tickwork.core.access import pools
from tickwork.core.access.actors import LOCAL, Role
from tickwork.core.access.teams import TeamContent
from tickwork.core.errors import Throttled
from tickwork.core.instants import DAY_MS, MINUTE_MS, SECOND_MS
from tickwork.core.ledger.queues import AFTER_FUNCTION_S, ready_queue
from tickwork.core.ledger.tables import JOBS, TEAMS
from tickwork.core.ledger.writes import Anyway, Delete, Update
from tickwork.flows.access import keys, registry, teams
from tickwork.flows.access.keys import Wanted
from tickwork.flows.dispatch.windows import run_window
from tickwork.ports import Layout, Ports
from tickwork.settings import Settings
from tickwork.testing.memory import MemoryStore

SCHEDULE = {"cron": "* * * * *"}


class World:
    """Three registered teams, and the API."""

    def __init__(self) -> None:
        self.tables, self.queues = MemoryStore(), FakeQueues()
        self.ports = replace(fake_ports(self.tables, Layout(shards=1, slices=1)), queues=self.queues)
        for team in ("payments", "shop", "web"):
            teams.put_team(self.ports, team, TeamContent(contact="ann"), None, LOCAL)
        self.api = ApiUnderTest(self.ports)

    def another_process(self) -> Ports:
        ports = fake_ports(self.tables, self.ports.layout)
        return replace(ports, clock=self.ports.clock, queues=self.queues, sender=self.ports.sender)

    def as_role(self, role: Role, team: str, *own: str) -> ApiUnderTest:
        wanted = Wanted(team, role, self.ports.clock.now_ms() + DAY_MS, "", own)
        api = ApiUnderTest(self.ports, KeyGate())
        api.headers = {"authorization": f"Bearer {keys.create_key(self.ports, wanted, LOCAL)[1]}"}
        return api

    def pool(self, name: str = "fast", team: str = "payments", **body: Any) -> Any:
        status, answer = self.api.call("PUT", f"/teams/{team}/pools/{name}", body)
        assert status == 200, answer
        return answer

    def job(self, pool: str, team: str = "payments", name: str = "nightly", **more: Any) -> tuple[int, Any]:
        body = {"team": team, "name": name, "schedule": SCHEDULE, "target": {"pool": pool, "handler": "h"}}
        return self.api.call("POST", "/jobs", body | more)

    def timer(self, pool: str, team: str = "payments", delay_s: int = 60, **more: Any) -> tuple[int, Any]:
        body = {"team": team, "delay_s": delay_s, "target": {"pool": pool, "handler": "h"}}
        return self.api.call("POST", "/timers", body | more)

    def pass_time(self, seconds: int) -> None:
        self.ports.clock.sleep_ms(seconds * SECOND_MS)
        run_window(self.ports, 0, self.ports.clock.now_ms() // SECOND_MS)

    def sent(self, pool: str) -> list[Any]:
        return [json.loads(one.body) for name, one in self.ports.sender.sent if name == ready_queue(pool)]  # type: ignore[attr-defined]


def refused(answer: tuple[int, Any]) -> str:
    status, problem = answer
    assert status == 422, problem
    return str(problem["errors"][0]["detail"])


# --- names ------------------------------------------------------------------------------------------------------


def test_names_of_queues_fit_and_no_two_pools_have_the_same() -> None:
    rng = random.Random(5)
    prefix = "p" * 40
    Settings(prefix=prefix)
    drawn = {"".join(rng.choices("ab.-_9", k=9)) for _ in range(200)}
    owners = ["a", "a-b", "a_b", "a.b", "h0123456789ab", "x" * 63, *drawn]
    drawn = {"".join(rng.choices("ab9", k=rng.randint(1, 30))) for _ in range(50)}
    names = ["a", "b-dl", "y" * 40, "h0123456789ab", *drawn]
    found: dict[str, tuple[str, str]] = {}
    for team in owners:
        for name in names:
            pool = pools.pool_id(team, name)
            assert found.setdefault(pool, (team, name)) == (team, name)
            assert pools.is_pool_id(pool)
            assert pools.is_owned(pool, team)
            assert len(f"{prefix}-{ready_queue(pool)}-dlq") <= 80
    for pool, (team, _) in list(found.items())[:500]:
        assert [other for other in owners if pools.is_owned(pool, other)] == [team]


def test_a_pool_may_not_be_called_like_a_dead_letter_queue_nor_like_one_of_the_deployment() -> None:
    world = World()
    for name in ("fast-dlq", "default"):
        assert world.api.call("PUT", f"/teams/payments/pools/{name}", {})[0] == 422


def test_a_pools_queue_is_found_by_a_version_that_knows_no_such_pools() -> None:
    """It sends to `ready-` and what stands in the work."""
    assert World().pool()["queue"] == f"ready-{pools.pool_id('payments', 'fast')}" == "ready-payments_fast"


@pytest.mark.parametrize("named", ["fast", "payments:fast", "payments_fast"])
def test_a_team_names_its_own_pool_in_three_ways_that_are_one(named: str) -> None:
    world = World()
    world.pool()
    status, job = world.job(named)
    assert (status, job["target"]["pool"]) == (201, "payments_fast")
    keyed = {"client_key": "k"}
    status, timer = world.timer(named, **keyed)
    assert status == 201
    for other in ("fast", "payments:fast", "payments_fast"):
        assert world.job(other)[0] == 200
        assert world.timer(other, **keyed)[1]["timer_id"] == timer["timer_id"]


# --- making -----------------------------------------------------------------------------------------------------


def test_a_pool_that_was_made_a_second_ago_works_and_its_queue_is_what_its_worker_needs() -> None:
    world = World()
    assert "no pool" in refused(world.timer("fast", delay_s=1))
    world.pool()
    assert world.timer("fast", delay_s=1)[0] == 201
    world.pass_time(2)
    assert [body["handler"] for body in world.sent("payments_fast")] == ["h"]
    world.pool("slow", worker="lambda", timeout_s=300)
    assert world.queues.made["ready-payments_fast"].visibility_s == 30
    assert world.queues.made["ready-payments_slow"].visibility_s == 300 + AFTER_FUNCTION_S


@pytest.mark.parametrize(
    "body", [{"worker": "lambda"}, {"worker": "lease", "timeout_s": 5}, {"timeout_s": 901, "worker": "lambda"}]
)
def test_a_time_limit_goes_with_a_function(body: dict[str, Any]) -> None:
    assert World().api.call("PUT", "/teams/payments/pools/fast", body)[0] == 422


def test_a_pool_of_a_team_that_is_not_registered_is_not_made() -> None:
    world = World()
    assert world.api.call("PUT", "/teams/nobody/pools/fast", {})[0] == 404
    assert world.queues.made == {}


def test_making_it_again_changes_nothing_and_its_worker_stays_of_its_kind() -> None:
    world = World()
    first = world.pool()
    assert world.pool() == first
    assert world.api.call("PUT", "/teams/payments/pools/fast", {"worker": "lease"})[0] == 409
    assert world.api.call("PUT", "/teams/payments/pools/fast", {"worker": "lease", "version": 1})[0] == 422
    assert world.api.call("PUT", "/teams/payments/pools/fast", {"shared_with": ["web"], "version": 2})[0] == 412


def test_a_pool_whose_queue_cannot_be_made_is_not_there() -> None:
    world = World()

    def busy(_: object) -> None:
        raise Throttled("slow down")

    world.queues.make = busy  # type: ignore[method-assign]
    assert world.api.call("PUT", "/teams/payments/pools/fast", {})[0] == 503
    assert "no pool" in refused(world.job("fast"))


# --- aiming -----------------------------------------------------------------------------------------------------


def test_nobody_aims_at_another_teams_pool_by_any_name_and_hears_what_he_would_of_none() -> None:
    """X1"""
    world = World()
    world.pool()
    for named in ("payments:fast", "payments_fast"):
        none = named.replace("fast", "none")
        for do in (world.job, world.timer):
            assert refused(do(named, "shop")).replace("fast", "none") == refused(do(none, "shop"))
    batch = {"timers": [{"team": "shop", "delay_s": 5, "target": {"pool": "payments:fast", "handler": "h"}}]}
    assert "no pool" in refused(world.api.call("POST", "/timers:batch", batch))
    assert world.job("default", "shop")[0] == 201
    change = {"version": 1, "target": {"pool": "payments_fast", "handler": "h"}}
    assert "no pool" in refused(world.api.call("PATCH", "/jobs/shop:nightly", change))


def test_an_owner_sees_and_shares_his_own_pools_alone() -> None:
    world = World()
    world.pool()
    shop = world.as_role("owner", "shop")
    for method in ("GET", "PUT", "DELETE"):
        assert shop.call(method, "/teams/payments/pools/fast", {} if method == "PUT" else None)[0] == 404
    assert shop.call("GET", "/teams/payments/pools")[0] == 404
    owner = world.as_role("owner", "payments")
    assert owner.call("PUT", "/teams/payments/pools/fast", {"version": 1, "shared_with": ["shop"]})[0] == 200
    seen = shop.call("GET", "/teams/shop/pools")[1]
    assert (seen["pools"], seen["shared"]) == ([], [{"pool": "payments_fast", "owner": "payments", "name": "fast"}])


def test_whom_a_pool_is_shared_with_aims_at_it_through_the_wall_and_is_fired_there() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    body = {"team": "shop", "delay_s": 1, "target": {"pool": "payments:fast", "handler": "theirs"}}
    assert world.as_role("owner", "shop").call("POST", "/timers", body)[0] == 201
    assert "no pool" in refused(world.timer("payments:fast", "web"))
    world.pass_time(2)
    assert [one["handler"] for one in world.sent("payments_fast")] == ["theirs"]


def test_a_share_that_is_taken_back_ends_what_is_new_and_what_was_registered_goes_on() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    assert world.job("payments:fast", "shop")[0] == 201
    assert world.timer("payments:fast", "shop", 30)[0] == 201
    world.pool(version=1)
    assert "no pool" in refused(world.timer("payments:fast", "shop"))
    assert world.api.call("PATCH", "/jobs/shop:nightly", {"version": 1, "lease_s": 90})[0] == 200
    world.pass_time(400)
    assert len(world.sent("payments_fast")) >= 2
    assert world.pool(version=2, shared_with=["shop"])["shared_before"] == []
    assert world.timer("payments:fast", "shop")[0] == 201


def test_what_aims_at_another_team_all_the_same_is_kept_out_at_dispatch_and_its_owner_sees_why() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    world.job("payments:fast", "shop")
    _, timer = world.timer("payments:fast", "shop", 30)
    world.tables.commit([Delete(TEAMS, pools.share_key("shop", "payments_fast"), Anyway("as if it had never been"))])
    world.pass_time(400)
    assert world.sent("payments_fast") == []
    runs = world.api.call("GET", "/runs", team="shop", status="skipped")[1]["runs"]
    assert {run["job_id"] for run in runs} >= {"shop:nightly", timer["timer_id"]}
    assert {run["reason"] for run in runs if "pool" in run["reason"]} == {
        "the pool payments_fast is another team's, and is not shared with shop"
    }
    item = world.tables.get(JOBS, {"job_id": "shop:nightly"})
    assert item is not None
    assert item["next_fire_at_ms"] > world.ports.clock.now_ms() - MINUTE_MS, "its chain goes on"


def test_own_pools_and_those_of_the_deployment_cost_dispatch_no_read() -> None:
    world = World()
    world.pool()
    world.timer("fast", delay_s=1)
    world.timer("default", "shop", 1)
    reads: list[object] = []
    real = world.tables.get_many
    world.tables.get_many = lambda table, keys: (reads.append(table), real(table, keys))[1]  # type: ignore[method-assign]
    world.pass_time(2)
    assert TEAMS not in reads
    assert len(world.ports.sender.sent) >= 2  # type: ignore[attr-defined]


def test_a_dead_run_is_not_replayed_onto_a_pool_that_is_not_shared_any_more() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    world.timer("payments:fast", "shop", 1)
    world.pass_time(2)
    (message,) = world.sent("payments_fast")
    start = {"worker": "w", "runs": [{"ref": message["ref"], "claim": "12345678"}]}
    token = world.api.call("POST", "/runs:start", start)[1]["runs"][0]["token"]
    failed = {"ref": message["ref"], "token": token, "outcome": "failed_permanent", "error": "no"}
    assert world.api.call("POST", "/runs:complete", {"runs": [failed]})[1]["runs"][0]["status"] == "dead"
    world.pool(version=1)
    order = {"team": "shop", "runs": [message["ref"]], "reason": "mended"}
    told = world.api.call("POST", "/dead-letters:replay", order)[1]
    assert "no_pool" in json.dumps(told)
    world.pool(version=2, shared_with=["shop"])
    assert "no_pool" not in json.dumps(world.api.call("POST", "/dead-letters:replay", order)[1])


# --- workers' keys ----------------------------------------------------------------------------------------------


def test_an_owner_makes_workers_keys_for_his_own_pools_and_no_others() -> None:
    world = World()
    world.pool()
    world.pool("fast", "shop")
    owner = world.as_role("owner", "payments")
    status, key = owner.call("POST", "/keys", {"team": "payments", "role": "worker", "pools": ["fast"]})
    assert (status, key["pools"]) == (201, ["payments_fast"])
    for pool, status in (("default", 403), ("shop:fast", 403), ("none", 422)):
        assert owner.call("POST", "/keys", {"team": "payments", "role": "worker", "pools": [pool]})[0] == status, pool


# --- deleting ---------------------------------------------------------------------------------------------------

DELETION = ("DELETE", "/teams/payments/pools/fast")


def why_not(world: World) -> str:
    status, problem = world.api.call(*DELETION)
    assert (status, problem["type"]) == (409, "urn:tickwork:problem:in-use")
    return str(problem["detail"])


def test_a_pool_is_deleted_when_nothing_is_pending_for_it() -> None:
    world = World()
    world.pool()
    world.timer("fast", delay_s=7_200)
    assert "may be pending until" in why_not(world)
    world.pass_time(2 * 7_200)
    world.job("fast")
    world.pass_time(300)
    assert "the job payments:nightly" in why_not(world)
    world.api.call("DELETE", "/jobs/payments:nightly")
    world.queues.messages["ready-payments_fast"] = 3
    assert "about 3 messages" in why_not(world)
    world.queues.messages.clear()
    assert world.api.call(*DELETION) == (200, {"pool": "payments_fast", "deleted": True})
    assert world.queues.made == {}
    assert world.api.call("GET", "/teams/payments/pools/fast")[0] == 404
    assert "no pool" in refused(world.timer("fast"))
    world.pool()
    assert world.timer("fast")[0] == 201


def test_a_pool_is_kept_by_what_those_have_it_is_or_was_shared_with() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    world.job("payments:fast", "shop")
    world.pool(version=1)
    world.pass_time(300)
    assert "a job of shop" in why_not(world)
    world.api.call("DELETE", "/jobs/shop:nightly")
    assert world.api.call(*DELETION)[0] == 200


def test_a_retry_keeps_the_pool() -> None:
    world = World()
    world.pool()
    world.timer("fast", delay_s=1, retry_policy={"base_s": 3_600})
    world.pass_time(300)
    (message,) = world.sent("payments_fast")
    start = {"worker": "w", "runs": [{"ref": message["ref"], "claim": "12345678"}]}
    token = world.api.call("POST", "/runs:start", start)[1]["runs"][0]["token"]
    failed = {"ref": message["ref"], "token": token, "outcome": "failed", "error": "no"}
    assert world.api.call("POST", "/runs:complete", {"runs": [failed]})[1]["runs"][0]["status"] == "waiting"
    world.pass_time(1_200)
    assert "may be pending until" in why_not(world)


class AimsMeanwhile:
    """Tables on which another process aims a timer at the pool just before it is closed."""

    def __init__(self, world: World, aim: Any = None) -> None:
        self._world, self._done = world, False
        self._aim = aim or {"team": "payments", "target": {"pool": "fast", "handler": "h"}}

    def commit(self, writes: Any) -> Any:
        is_closing = any(isinstance(one, Update) and "closed_at_ms" in one.set for one in writes)
        if is_closing and not self._done:
            self._done = True
            other = ApiUnderTest(self._world.another_process())
            assert other.call("POST", "/timers", self._aim | {"delay_s": 3_600})[0] == 201
        return self._world.tables.commit(writes)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._world.tables, verb)


def test_what_is_aimed_at_a_pool_while_it_is_being_deleted_keeps_it() -> None:
    world = World()
    world.pool()
    ports = replace(world.another_process(), store=AimsMeanwhile(world))  # type: ignore[arg-type]
    status, problem = ApiUnderTest(ports).call(*DELETION)
    assert (status, "may be pending until" in problem["detail"]) == (409, True)
    assert "ready-payments_fast" in world.queues.made


def test_a_process_that_remembers_a_pool_creates_nothing_for_one_that_is_being_deleted() -> None:
    """It trusts what it has read for half a minute; a pool is deleted a minute after the last thing was aimed at it."""
    world = World()
    world.pool()
    other = ApiUnderTest(world.another_process())
    body = {"team": "payments", "delay_s": 0, "target": {"pool": "fast", "handler": "h"}}
    assert other.call("POST", "/timers", body)[0] == 201
    assert "may be pending until" in why_not(world)
    for _ in range(20):
        world.ports.clock.sleep_ms(10 * SECOND_MS)
        if world.api.call(*DELETION)[0] == 200:
            break
    assert registry.TRUSTED_MS < registry.CALL_MS_MAX
    assert other.call("POST", "/timers", body)[0] == 422


def test_a_deletion_that_died_after_the_pool_was_closed_is_gone_on_with() -> None:
    world = World()
    world.pool()

    def dies(_: object) -> None:
        raise Throttled("slow down")

    real, world.queues.remove = world.queues.remove, dies  # type: ignore[method-assign]
    assert world.api.call(*DELETION)[0] == 503
    assert "no pool" in refused(world.timer("fast"))
    assert world.api.call("PUT", "/teams/payments/pools/fast", {})[0] == 409
    world.queues.remove = real  # type: ignore[method-assign]
    assert world.api.call(*DELETION)[0] == 200


def test_a_team_with_a_pool_is_not_deleted() -> None:
    world = World()
    world.pool()
    assert "pools" in world.api.call("DELETE", "/teams/payments")[1]["detail"]


def test_the_mark_costs_a_busy_pool_a_write_a_minute_at_most() -> None:
    world = World()
    world.pool()
    moves: list[object] = []
    real = world.tables.commit

    def commit(writes: Any) -> Any:
        moves.extend(one for one in writes if isinstance(one, Update) and one.key.get("cell") == pools.POOLS)
        return real(writes)

    world.tables.commit = commit  # type: ignore[method-assign]
    for _ in range(100):
        assert world.timer("fast", delay_s=30)[0] == 201
        world.ports.clock.sleep_ms(3 * SECOND_MS)
    assert 1 <= len(moves) <= 300 // 60 + 1
