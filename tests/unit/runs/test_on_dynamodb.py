"""The protocol of this folder on the DynamoDB store over moto, one life of each kind: what DynamoDB would refuse (an
expression, a transaction, the key of an index) is refused here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws
from tests.support.runs_world import World

from tickwork.aws.provision import create_all
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.tables import RESOURCES, TIMERS
from tickwork.core.ledger.work import UNSAFE, Resource, RetryPolicy
from tickwork.flows.ledger.merging import Shown
from tickwork.flows.runs import cancelling, dead_letters, worker_calls
from tickwork.flows.runs.dead_letters import Order, Wanted
from tickwork.settings import Settings
from tickwork.store.dynamodb import DynamoStore

_PREFIX = "tickwork-test"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        dynamodb = boto3.client("dynamodb", region_name="us-east-1")
        create_all(dynamodb, boto3.client("sqs", region_name="us-east-1"), Settings(prefix=_PREFIX))
        numbers = itertools.count()
        yield World(DynamoStore(dynamodb, _PREFIX, lambda: f"token-{next(numbers)}"))


def test_a_run_with_a_tag_is_started_lost_recovered_and_completed(world: World) -> None:
    tag = (Resource("printer", 1),)
    first, second = world.timer(resources=tag, max_duration_s=600), world.timer(resources=tag)
    world.must_start(first)
    assert world.start(second).reason == "no_slot"
    world.after(61)
    other = world.must_start(second)
    assert (world.run(first).status, world.outcomes(first)) == (lifecycle.WAITING, ["lost"])
    assert world.complete(second, other.token).status == lifecycle.SUCCEEDED
    assert world.store.items(RESOURCES) == []
    again = world.must_start(first, message=world.until_retry(first))
    world.after(30)
    assert worker_calls.heartbeat(world.ports, first, again.token, 60).lease_until_ms == world.clock.at_ms + 60_000
    world.after(570)
    assert worker_calls.heartbeat(world.ports, first, again.token, 60).reason == "timed_out"
    assert world.store.items(RESOURCES) == []


def test_the_oldest_waiter_is_woken_and_its_row_goes_with_its_start(world: World) -> None:
    tag = (Resource("printer", 1),)
    holder, old, young = (world.timer(resources=tag) for _ in range(3))
    run = world.must_start(holder)
    for key in (old, young):
        assert world.start(key).reason == "no_slot"
    world.complete(holder, run.token)
    woken = [body["ref"] for body in world.outbox.bodies("ready-default") if body["dispatched_by"] == "slot"]
    assert len(woken) == 1
    first, second = (old, young) if woken == [old.ref] else (young, old)  # both were due in one second
    assert world.start(second).reason == "no_slot"
    world.must_start(first, message=world.message(first))
    assert [item["ref"] for item in world.store.items(RESOURCES) if "ref" in item] == [second.ref]


def test_runs_are_cancelled_wherever_they_stand(world: World) -> None:
    waiting, running = world.timer(), world.timer()
    world.fail(waiting, world.must_start(waiting).token, error_class="KeyError", retry_after_s=600)
    run = world.must_start(running)
    pending = world.next_key(world.job())
    for key in (pending, waiting, running):
        cancelling.cancel_run(world.ports, key, "r")
    assert worker_calls.heartbeat(world.ports, running, run.token, 60).cancel
    assert worker_calls.acknowledge_cancel(world.ports, running, run.token).status == lifecycle.CANCELLED
    assert [world.run(key).status for key in (pending, waiting, running)] == [lifecycle.CANCELLED] * 3
    (job_id,) = {item["job_id"] for item in world.store.items(TIMERS) if item.get("job_id")}
    assert world.run(world.next_key(job_id)).status == lifecycle.PENDING


def test_dead_letters_are_found_page_by_page_and_replayed(world: World) -> None:
    keys = []
    for _ in range(5):
        key = world.timer(retry=RetryPolicy(max_attempts=1, retry_on=("OSError",)))
        world.fail(key, world.must_start(key).token, error_class="KeyError")
        keys.append(key)
    found, position = [], None
    for _ in range(10):
        page = dead_letters.list_dead(world.ports, "shop", Wanted(), limit=2, after=position)
        found, position = found + [run.key.ref for run in page.found], page.after
        if position is None:
            break
    assert sorted(found) == sorted(key.ref for key in keys)
    order = Order("ann", "why", 10, world.clock.at_ms)
    assert not any(one.refusal for one in dead_letters.replay_runs(world.ports, keys, order))
    assert dead_letters.list_dead(world.ports, "shop", Wanted(), limit=9, after=None) == Shown([])
    assert world.must_start(keys[0], message=world.until_retry(keys[0])).attempt == 2


def test_an_unsafe_run_is_lost_for_good(world: World) -> None:
    key = world.timer(idempotency_class=UNSAFE, sign_off={"who": "ann", "why": "a fax"})
    world.must_start(key)
    world.after(61)
    assert world.start(key).reason == lifecycle.DEAD
