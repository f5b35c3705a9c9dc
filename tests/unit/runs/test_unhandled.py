"""A worker that lacks a handler leaves the run to others (W12): nothing is written, and nothing goes in circles."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.http import ApiUnderTest
from tests.support.queues import WorldQueue
from tests.support.runs_world import World

from tickwork.core.audit import passes
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.queues import unhandled_wait_s
from tickwork.core.ledger.work import Work
from tickwork.flows.audit import mending
from tickwork.flows.audit.repairs import Repairs
from tickwork.flows.runs import timers
from tickwork.flows.runs.pulling import Asking, lease_runs
from tickwork.ports import OutMessage, Ports, ready_queue


@pytest.fixture
def queue(world: World) -> WorldQueue:
    return WorldQueue(world)


@pytest.fixture
def api(world: World, queue: WorldQueue) -> ApiUnderTest:
    p = world.ports
    world.ports = Ports(p.clock, p.store, p.sender, p.signals, p.ids, p.layout, queue)
    return ApiUnderTest(world.ports)


def lease(api: ApiUnderTest, *handlers: str, **more: Any) -> dict[str, Any]:
    body = {"worker": "w1", "max": 5, "handlers": list(handlers)} | more
    status, answer = api.call("POST", "/pools/default:lease", body)
    assert status == 200, answer
    return dict(answer)


def test_a_message_is_hidden_for_five_seconds_growing_to_five_minutes() -> None:
    assert [unhandled_wait_s(n) for n in range(1, 10)] == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert (unhandled_wait_s(0), unhandled_wait_s(10**6)) == (5, 300)


def test_a_run_is_left_to_a_worker_that_has_its_handler_untouched(world: World, api: ApiUnderTest) -> None:
    key = world.timer()
    world.scan()
    before = world.item(key)
    assert lease(api, "other")["runs"] == []
    assert world.item(key) == before
    assert lease(api, "job")["runs"] == []
    world.after(5)
    (run,) = lease(api, "other", "job")["runs"]
    assert (run["attempt"], run["token"]) == (1, 1)


def test_another_teams_run_is_not_hidden_from_that_teams_workers(
    world: World, api: ApiUnderTest, queue: WorldQueue
) -> None:
    world.timer()
    world.scan()
    asking = Asking("w1", 5, None, 0, frozenset({"other"}), lambda team: team == "somebody-else")
    lease_runs(world.ports, "default", asking)
    assert "runs.unhandled_total" not in world.signals.counts


def test_old_workers_do_not_pass_it_round(world: World, api: ApiUnderTest, queue: WorldQueue) -> None:
    world.timer()
    world.scan()
    for _ in range(3_600):
        lease(api, "other")
        world.after(1)
    (receives,) = queue.receives.values()
    assert receives == 6 + (3_600 - 315) // 300 + 1


def test_it_is_counted_and_told(world: World, api: ApiUnderTest) -> None:
    key = world.timer()
    world.scan()
    lease(api, "other")
    assert world.signals.counts["runs.unhandled_total"] == 1
    told = {"ref": key.ref, "handler": "job", "worker": "w1"}
    assert ("run_unhandled", told) in world.signals.lines


def test_a_worker_with_its_own_queue_tells_it_and_nothing_is_written(world: World, api: ApiUnderTest) -> None:
    key = world.timer()
    before = world.item(key)
    runs = [{"ref": key.ref, "handler": "settle\ud800"}, {"ref": key.ref, "handler": "x" * 300}]
    status, answer = api.call("POST", "/runs:unhandled", {"worker": "w1", "runs": runs})
    assert (status, [one["accepted"] for one in answer["runs"]]) == (200, [True, True])
    assert world.signals.counts["runs.unhandled_total"] == 2
    assert world.item(key) == before


def test_what_stands_behind_it_is_not_kept_waiting(world: World, api: ApiUnderTest) -> None:
    new = timers.NewTimer("shop", world.clock.at_ms, Work("default", "new"))
    timers.create_timers(world.ports, [new] * 3)
    world.timer()
    world.scan()
    answer = lease(api, "job", max=2, wait_s=5)
    while not answer["runs"]:
        assert "retry_after_s" not in answer, "ask again at once"
        answer = lease(api, "job", max=2, wait_s=5)
    assert [run["handler"] for run in answer["runs"]] == ["job"]


def test_a_worker_that_does_not_say_what_it_has_gets_whatever_comes(world: World, api: ApiUnderTest) -> None:
    world.timer()
    world.scan()
    status, answer = api.call("POST", "/pools/default:lease", {"worker": "w1"})
    assert (status, len(answer["runs"])) == (200, 1)


def test_a_worker_with_no_handler_gets_none(world: World, api: ApiUnderTest) -> None:
    world.timer()
    world.scan()
    assert lease(api)["runs"] == []


def test_a_message_that_is_none_is_told_as_ever(world: World, api: ApiUnderTest, queue: WorldQueue) -> None:
    world.outbox.send(ready_queue("default"), [OutMessage("{}")])
    assert lease(api, "job")["runs"] == []
    assert world.signals.counts["runs.bad_messages_total"] == 1


def test_what_nobody_ever_has_the_handler_for_ends_as_expired_and_says_which(world: World, api: ApiUnderTest) -> None:
    key = world.timer()
    run = world.run(key)
    world.after(passes.EXPIRES_AFTER_MS // 1000)
    left = mending.expire_unstarted(world.ports, [world.item(key)], 0, Repairs())
    assert left == []
    ended = world.run(key)
    assert ended.status == lifecycle.EXPIRED
    assert (
        ended.reason == "no worker of pool default that has the handler job has started it within 13 days of its time"
    )
    assert run.status == lifecycle.PENDING
