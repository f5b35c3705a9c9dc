"""Leasing runs over HTTP (W8): the platform receives, starts, and keeps the messages for the worker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.http import ApiUnderTest
from tests.support.queues import WorldQueue
from tests.support.runs_world import World

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.tables import PAYLOADS, TIMERS
from tickwork.core.ledger.work import RetryPolicy
from tickwork.core.ledger.writes import Anyway, Delete
from tickwork.flows.ledger import payloads
from tickwork.flows.runs import timers
from tickwork.flows.runs.worker_calls import PAYLOAD_LOST
from tickwork.ports import Ports


@pytest.fixture
def queue(world: World) -> WorldQueue:
    queue = WorldQueue(world)
    p = world.ports
    world.ports = Ports(p.clock, p.store, p.sender, p.signals, p.ids, p.layout, queue)
    return queue


@pytest.fixture
def api(world: World, queue: WorldQueue) -> ApiUnderTest:
    return ApiUnderTest(world.ports)


def due(world: World, count: int, **work: Any) -> None:
    for _ in range(count):
        world.timer(**work)
    world.after(1)
    world.scan()


def lease(api: ApiUnderTest, **more: Any) -> list[dict[str, Any]]:
    status, answer = api.call("POST", "/pools/default:lease", {"worker": "w1", "max": 5, "lease_s": 60, **more})
    assert status == 200, answer
    return answer["runs"]


def call(api: ApiUnderTest, path: str, run: dict[str, Any], **more: Any) -> dict[str, Any]:
    entry = {"ref": run["ref"], "token": run["token"], "receipt": run["receipt"], **more}
    return api.call("POST", path, {"runs": [entry]})[1]["runs"][0]


def test_leased_runs_are_started_and_come_with_all_that_a_message_has(world: World, api: ApiUnderTest) -> None:
    due(world, 3, payload=json.dumps({"order": 7}))
    runs = lease(api, max=2)
    assert len(runs) == 2
    for run in runs:
        assert run["payload"] == {"order": 7}
        assert (run["token"], run["attempt"], run["handler"]) == (1, 1, "job")
        assert {"run_id", "job_id", "scheduled_at", "fire_at", "lease_until", "receipt"} <= set(run)


def test_more_than_ten_come_in_several_receives(world: World, api: ApiUnderTest) -> None:
    due(world, 14)
    assert len(lease(api, max=12)) == 12
    assert len(lease(api, max=12)) == 2
    assert lease(api) == []


def test_a_payload_kept_apart_is_brought(world: World, api: ApiUnderTest) -> None:
    work_payload = json.dumps("x" * (payloads.PAYLOAD_INLINE_BYTES_MAX + 1))
    due(world, 1, payload=work_payload)
    (run,) = lease(api)
    assert run["payload"] == json.loads(work_payload)


def test_a_run_whose_payload_is_gone_is_not_leased_and_holds_up_no_other(
    world: World, queue: WorldQueue, api: ApiUnderTest
) -> None:
    due(world, 1, payload=json.dumps("x" * (payloads.PAYLOAD_INLINE_BYTES_MAX + 1)))
    (kept,) = world.store.items(PAYLOADS)
    world.store.commit([Delete(PAYLOADS, {"payload_id": kept["payload_id"]}, Anyway("lost"))])
    due(world, 1)
    (run,) = lease(api)
    assert "payload_id" not in run
    assert len(queue.gone) == 1, "nobody gets its message again"
    (dead,) = [item for item in world.store.items(TIMERS) if item["status"] == lifecycle.DEAD]
    assert dead["attempts"][0]["error_class"] == PAYLOAD_LOST


def test_a_completion_deletes_the_message_that_its_receipt_names(
    world: World, api: ApiUnderTest, queue: WorldQueue
) -> None:
    due(world, 1)
    (run,) = lease(api)
    world.after(50)
    assert call(api, "/runs:heartbeat", run)["accepted"]
    world.after(50)
    assert lease(api) == [], "the heartbeat has kept its message hidden"
    assert call(api, "/runs:complete", run, outcome="succeeded")["status"] == lifecycle.SUCCEEDED
    assert len(queue.gone) == 1


def test_without_receipts_the_message_dies_at_the_next_start(
    world: World, api: ApiUnderTest, queue: WorldQueue
) -> None:
    due(world, 1)
    (run,) = lease(api)
    run["receipt"] = None
    call(api, "/runs:complete", run, outcome="succeeded")
    world.after(62)
    assert lease(api) == []
    assert len(queue.gone) == 1


def test_a_worker_that_never_got_the_answer_loses_the_attempt_and_not_the_run(world: World, api: ApiUnderTest) -> None:
    due(world, 1)
    (lost,) = lease(api)
    assert lease(api) == []
    world.after(61)
    (run,) = lease(api)
    assert (run["run_id"], run["attempt"], run["token"]) == (lost["run_id"], 2, 2)
    assert call(api, "/runs:complete", lost, outcome="succeeded")["reason"] == "stale_token"


def test_a_failure_is_retried_by_a_new_message(world: World, api: ApiUnderTest, queue: WorldQueue) -> None:
    due(world, 1, retry=RetryPolicy(base_s=1, jitter_percent=0))
    (run,) = lease(api)
    assert call(api, "/runs:complete", run, outcome="failed", error="boom")["status"] == lifecycle.WAITING
    assert len(queue.gone) == 1
    world.after(2)
    world.scan()
    assert lease(api)[0]["attempt"] == 2


def test_a_message_that_no_run_has_use_for_is_deleted_and_one_that_is_none_is_left(
    world: World, api: ApiUnderTest, queue: WorldQueue
) -> None:
    key = world.timer(delay_s=1)
    world.after(1)
    world.scan()
    timers.cancel_timer(world.ports, key.job_id)
    world.outbox.send("ready-default", [type(world.outbox.sent[0][1])(body='{"v": 1}')])
    assert lease(api) == []
    assert len(queue.gone) == 1
    assert world.signals.counts["runs.bad_messages_total"] == 1


def test_a_busy_queue_costs_no_run(world: World, api: ApiUnderTest, queue: WorldQueue) -> None:
    due(world, 1)
    (run,) = lease(api)
    queue.busy = True
    assert call(api, "/runs:heartbeat", run)["accepted"]
    assert call(api, "/runs:complete", run, outcome="succeeded")["accepted"]


def test_an_unknown_pool_is_named_and_a_forged_receipt_refused(world: World, api: ApiUnderTest) -> None:
    assert api.call("POST", "/pools/nosuch:lease", {"worker": "w"})[0] == 404
    due(world, 1)
    (run,) = lease(api)
    assert api.call("POST", "/runs:heartbeat", {"runs": [{"ref": run["ref"], "token": 1, "receipt": "../x"}]})[0] == 422


def test_answers_say_how_long_the_lease_lasts_not_how_long_it_was_asked_for(world: World, api: ApiUnderTest) -> None:
    due(world, 1, max_duration_s=90)
    status, answer = api.call("POST", "/pools/default:lease", {"worker": "w1", "lease_s": 300})
    assert (status, answer["waited_ms"]) == (200, 0)
    (run,) = answer["runs"]
    assert run["lease_ms"] == 90_000
    world.after(50)
    assert call(api, "/runs:heartbeat", run, lease_s=300)["lease_ms"] == 40_000


def test_a_start_asked_again_says_what_is_left(world: World, api: ApiUnderTest) -> None:
    key = world.timer()
    entry = {"ref": key.ref, "claim": "claim-of-one", "lease_s": 60}
    for left_ms in (60_000, 50_000):
        (answer,) = api.call("POST", "/runs:start", {"worker": "w1", "runs": [entry]})[1]["runs"]
        assert answer["lease_ms"] == left_ms
        world.after(10)


def test_a_long_poll_says_how_long_it_has_waited(world: World, api: ApiUnderTest, queue: WorldQueue) -> None:
    due(world, 1)
    right = queue.receive

    def receive(*arguments: Any, **named: Any) -> Any:
        world.after(7)
        return right(*arguments, **named)

    queue.receive = receive  # type: ignore[method-assign]
    _, answer = api.call("POST", "/pools/default:lease", {"worker": "w1", "lease_s": 60, "wait_s": 20})
    assert (answer["waited_ms"], answer["runs"][0]["lease_ms"]) == (7_000, 60_000)
