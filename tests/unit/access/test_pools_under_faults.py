"""Pools of teams while tables are busy, items are garbled or of a newer version, and calls race each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.access.test_pools import DELETION, AimsMeanwhile, World, why_not
from tickwork.core.access import pools
from tickwork.core.errors import Throttled
from tickwork.core.instants import HOUR_MS, MINUTE_MS
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.queues import READY_VISIBILITY_S
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, SET_ASIDE, TEAMS, TIMERS
from tickwork.core.ledger.writes import Anyway, Delete, Put
from tickwork.flows.access import registry
from tickwork.flows.dispatch.fired import Fenced, Fired, Firing
from tickwork.flows.dispatch.keeping_out import keep_out
from tickwork.flows.dispatch.stepping import message_of
from tickwork.flows.runs.dead_letters import Order, replay_runs


def garble(world: World, table: Any, key: Any, **fields: Any) -> None:
    item = world.tables.get(table, key)
    assert item is not None
    world.tables.commit([Put(table, item | fields, Anyway("as a newer version may write it"))])


def fail(world: World, message: Any, outcome: str = "failed") -> Any:
    start = {"worker": "w", "runs": [{"ref": message["ref"], "claim": "12345678"}]}
    token = world.api.call("POST", "/runs:start", start)[1]["runs"][0]["token"]
    failed = {"ref": message["ref"], "token": token, "outcome": outcome, "error": "no"}
    status, answer = world.api.call("POST", "/runs:complete", {"runs": [failed]})
    assert status == 200, answer
    return answer["runs"][0]


# --- deleting ---------------------------------------------------------------------------------------------------


def test_a_job_that_this_version_cannot_read_keeps_the_pool_and_its_team() -> None:
    world = World()
    world.pool()
    world.job("fast")
    world.pass_time(300)
    garble(world, JOBS, {"job_id": "payments:nightly"}, schedule_of_tomorrow=1, work="of a newer version")
    assert "payments:nightly" in why_not(world)
    assert "jobs" in world.api.call("DELETE", "/teams/payments")[1]["detail"]


def test_a_pool_that_this_version_cannot_read_keeps_its_team() -> None:
    world = World()
    world.pool()
    garble(world, TEAMS, pools.pool_key("payments", "payments_fast"), shared_with=7)
    assert "pools" in world.api.call("DELETE", "/teams/payments")[1]["detail"]


def test_a_replay_that_is_due_later_keeps_the_pool() -> None:
    world = World()
    world.pool()
    world.timer("fast", delay_s=1)
    world.pass_time(2)
    (message,) = world.sent("payments_fast")
    assert fail(world, message, "failed_permanent")["status"] == "dead"
    now_ms = world.ports.clock.now_ms()
    order = Order("ann", "mended", 1, now_ms, before=3_600)
    (outcome,) = replay_runs(world.ports, [parse_ref(message["ref"])], order)
    assert outcome.due_ms == now_ms + HOUR_MS
    world.pass_time(1_200)
    assert "may be pending until" in why_not(world)


def test_a_retry_of_whom_the_pool_was_shared_with_keeps_it_too() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    world.timer("payments:fast", "shop", 1, retry_policy={"base_s": 3_600})
    world.pool(version=1)
    world.pass_time(300)
    (message,) = world.sent("payments_fast")
    assert fail(world, message)["status"] == "waiting"
    world.pass_time(1_200)
    assert "may be pending until" in why_not(world)


def test_what_those_aim_it_is_shared_with_while_it_is_being_deleted_keeps_it() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    aims = AimsMeanwhile(world, {"team": "shop", "target": {"pool": "payments:fast", "handler": "h"}})
    ports = replace(world.another_process(), store=aims)  # type: ignore[arg-type]
    status, problem = ApiUnderTest(ports).call(*DELETION)
    assert (status, "may be pending until" in problem["detail"]) == (409, True)
    assert "ready-payments_fast" in world.queues.made


def test_a_call_that_trusts_what_it_remembers_is_over_before_the_pool_can_go() -> None:
    """However often it has been aimed at: the mark that is found good enough lies a minute ahead, too."""
    world = World()
    world.pool()
    for _ in range(40):
        assert world.timer("fast", delay_s=0)[0] == 201
        item = world.tables.get(TEAMS, pools.pool_key("payments", "payments_fast"))
        assert item is not None
        assert item["pending_until_ms"] >= world.ports.clock.now_ms() + registry.CALL_MS_MAX
        world.ports.clock.sleep_ms(7_000)


def test_who_makes_a_pool_of_another_kind_at_the_same_time_leaves_the_queue_of_who_was_first() -> None:
    world = World()
    made = world.queues.make

    def another_is_faster(queue: Any) -> None:
        world.queues.make = made  # type: ignore[method-assign]
        ApiUnderTest(world.another_process()).call("PUT", "/teams/payments/pools/fast", {})
        made(queue)

    world.queues.make = another_is_faster  # type: ignore[method-assign]
    asked = {"worker": "lambda", "timeout_s": 300}
    assert world.api.call("PUT", "/teams/payments/pools/fast", asked)[0] == 409
    assert world.queues.made["ready-payments_fast"].visibility_s == READY_VISIBILITY_S


def test_whom_a_pool_was_ever_shared_with_is_remembered_over_later_changes() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    world.pool(version=1, shared_with=["web"])
    assert world.pool(version=2)["shared_before"] == ["shop", "web"]


def test_a_functions_time_limit_is_what_its_queue_was_made_for() -> None:
    world = World()
    world.pool(worker="lambda", timeout_s=60)
    changed = {"worker": "lambda", "timeout_s": 300, "version": 1}
    assert world.api.call("PUT", "/teams/payments/pools/fast", changed)[0] == 422


def test_a_deletion_that_comes_late_deletes_no_pool_that_was_made_since() -> None:
    world = World()
    world.pool()
    removed = world.queues.remove

    def another_is_faster(queue: Any) -> None:
        removed(queue)
        world.queues.remove = removed  # type: ignore[method-assign]
        assert world.api.call(*DELETION)[0] == 200
        world.ports.clock.sleep_ms(MINUTE_MS)
        world.pool()

    world.queues.remove = another_is_faster  # type: ignore[method-assign]
    world.api.call(*DELETION)
    assert world.api.call("GET", "/teams/payments/pools/fast")[0] == 200
    assert world.timer("fast")[0] == 201


# --- dispatch ---------------------------------------------------------------------------------------------------


class SharesUnread:
    """A store whose shares cannot be read."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def get_many(self, table: Any, keys: Any) -> Any:
        if table is TEAMS and any(key["cell"] == pools.SHARES for key in keys):
            raise Throttled("busy")
        return self._store.get_many(table, keys)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)


def test_shares_that_cannot_be_read_hold_up_what_needs_them_alone_and_lose_nothing() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    for delay_s in (1, 3, 5, 7):
        assert world.timer("payments:fast", "shop", delay_s)[0] == 201
        assert world.timer("fast", delay_s=delay_s)[0] == 201
    real = world.ports
    world.ports = replace(real, store=SharesUnread(world.tables))  # type: ignore[arg-type]
    own = []
    for _ in range(4):
        world.pass_time(2)
        own.append(len([one for one in world.sent("payments_fast") if one["ref"].split("#")[3] == "payments"]))
    assert own == [1, 2, 3, 4]
    assert len(world.sent("payments_fast")) == 4
    world.ports = real
    for _ in range(4):
        world.pass_time(10)
    assert len({one["ref"] for one in world.sent("payments_fast")}) == 8


def test_a_creator_does_not_answer_for_what_is_due_and_whose_share_cannot_be_read() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    assert world.timer("payments:fast", "shop", 600)[0] == 201
    world.pass_time(5)
    unread = ApiUnderTest(replace(world.ports, store=SharesUnread(world.tables)))  # type: ignore[arg-type]
    body = {"team": "shop", "delay_s": 0, "target": {"pool": "payments:fast", "handler": "h"}}
    assert unread.call("POST", "/timers", body)[0] == 503
    assert world.sent("payments_fast") == []


def test_a_retry_that_is_kept_out_ends_with_the_reason_and_holds_up_nothing_of_the_pools_owner() -> None:
    world = World()
    world.pool(shared_with=["shop"])
    world.timer("payments:fast", "shop", 1, retry_policy={"base_s": 30})
    world.pass_time(2)
    (message,) = world.sent("payments_fast")
    assert fail(world, message)["status"] == "waiting"
    world.tables.commit([Delete(TEAMS, pools.share_key("shop", "payments_fast"), Anyway("as if it had never been"))])
    for delay_s in (60, 70, 80):
        assert world.timer("fast", delay_s=delay_s)[0] == 201
    world.pass_time(58)
    own = []
    for _ in range(3):
        world.pass_time(10)
        own.append(len(world.sent("payments_fast")) - 1)
    assert own == [1, 2, 3]
    (run,) = world.api.call("GET", "/runs", team="shop", status="cancelled")[1]["runs"]
    assert "payments_fast is another team's" in run["reason"]
    assert not world.tables.query(SET_ASIDE, "main#0000", "!", "~", limit=9).items


# --- marks ------------------------------------------------------------------------------------------------------


def test_who_may_not_trust_his_lease_any_more_keeps_nothing_out() -> None:
    """Before each write it is asked, as before each send."""
    world = World()
    world.pool(shared_with=["shop"])
    _, timer = world.timer("payments:fast", "shop", 30)
    world.tables.commit([Delete(TEAMS, pools.share_key("shop", "payments_fast"), Anyway("as if it had never been"))])
    (item,) = world.tables.items(TIMERS)
    run = Run.from_item(item)
    assert run.work is not None
    lost = Firing("slice", keep=lambda: False)
    with pytest.raises(Fenced):
        keep_out(world.ports, [message_of(world.ports, run, run.work, lost)], {}, lost, Fired())
    assert world.api.call("GET", f"/timers/{timer['timer_id']}")[1]["status"] == "pending"


def test_a_pools_mark_that_cannot_be_read_keeps_no_failure_from_being_recorded() -> None:
    world = World()
    world.pool()
    world.timer("fast", delay_s=1, retry_policy={"base_s": 3_600})
    world.pass_time(2)
    (message,) = world.sent("payments_fast")
    world.ports.registry.clear()
    garble(world, TEAMS, pools.pool_key("payments", "payments_fast"), pending_until_ms="soon")
    assert fail(world, message)["status"] == "waiting"


def test_a_busy_table_of_teams_keeps_no_timer_for_a_pool_of_the_deployment_from_being_created() -> None:
    world = World()

    class Busy(SharesUnread):
        def get_many(self, table: Any, keys: Any) -> Any:
            if table is TEAMS:
                raise Throttled("busy")
            return self._store.get_many(table, keys)

    api = ApiUnderTest(replace(world.another_process(), store=Busy(world.tables)))  # type: ignore[arg-type]
    body = {"team": "payments", "delay_s": 60, "target": {"pool": "default", "handler": "h"}}
    assert api.call("POST", "/timers", body)[0] == 201


def test_a_busy_table_of_teams_is_asked_once_by_the_walk_over_the_definitions() -> None:
    world = World()
    asked: list[object] = []

    class Busy(SharesUnread):
        def get_many(self, table: Any, keys: Any) -> Any:
            if table is TEAMS:
                asked.append(keys)
                raise Throttled("busy")
            return self._store.get_many(table, keys)

    ports = replace(world.another_process(), store=Busy(world.tables))  # type: ignore[arg-type]
    registry.note_unregistered(ports, [f"t{number}" for number in range(200)])
    assert len(asked) == 1
