"""Pushing runs (W9): signed, idempotent, capped, and gentle with a target that is down."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tests.support.queues import WorldQueue
from tests.support.runs_world import Crash, World

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import PAYLOADS
from tickwork.core.ledger.work import Resource, RetryPolicy, Work
from tickwork.core.ledger.writes import Anyway, Delete
from tickwork.core.runs import breaker
from tickwork.core.runs.push_targets import Target, parse_target
from tickwork.core.runs.pushes import Answer, Outcome, judge, team_secret
from tickwork.flows.runs import timers
from tickwork.flows.runs.pushing import Pusher, push_some
from tickwork.ports import Layout, Ports

URL = "https://hooks.example.com/orders"
MASTERS = ("the newest master secret of thirty-two or more", "the one before it, which some still verify with")
OK = Answer(204)


class FakePoster:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answer: Answer = OK
        self.crash = False
        self.posts: list[tuple[Target, bytes, Mapping[str, str]]] = []
        self.timeouts_ms: list[int] = []

    def post(self, target: Target, body: bytes, headers: Mapping[str, str], *, timeout_ms: int) -> Answer:
        self.posts.append((target, body, headers))
        self.timeouts_ms.append(timeout_ms)
        if self.crash:
            self.crash = False
            raise Crash
        return self.answer


class PushWorld(World):
    def __init__(self) -> None:
        super().__init__()
        self.queue, self.poster = WorldQueue(self), FakePoster()
        p = self.ports
        layout = Layout(shards=2, slices=1, pools=("default", "push"))
        self.ports = Ports(p.clock, p.store, p.sender, p.signals, p.ids, layout, self.queue)
        self.pusher = Pusher(self.poster, MASTERS)

    def push_timer(self, cap: int = 10, url: str = URL, **more: Any) -> LedgerKey:
        tag = Resource(parse_target(url, allow_private=True).resource, cap)
        work = Work("push", "push", url=url, resources=(tag,), **more)
        (created,) = timers.create_timers(self.ports, [timers.NewTimer("shop", self.clock.at_ms, work)])
        return created.run.key

    def push(self, times: int = 1) -> None:
        self.scan()
        for _ in range(times):
            push_some(self.ports, self.pusher, "push", wait_s=0)


@pytest.fixture
def world() -> PushWorld:
    return PushWorld()


def test_a_push_carries_the_run_and_its_key_and_succeeds_with_2xx(world: PushWorld) -> None:
    key = world.push_timer(payload='{"order": 7}')
    world.push()
    target, body, headers = world.poster.posts[0]
    assert target == parse_target(URL)
    sent = json.loads(body)
    assert (sent["run_id"], sent["attempt"], sent["token"], sent["payload"]) == (key.run_id, 1, 1, {"order": 7})
    assert headers["Idempotency-Key"] == key.run_id
    assert world.run(key).status == lifecycle.SUCCEEDED
    assert len(world.queue.gone) == 1


def test_a_run_whose_payload_is_gone_is_not_pushed(world: PushWorld) -> None:
    key = world.push_timer(payload=json.dumps("x" * 1_000))
    (kept,) = world.store.items(PAYLOADS)
    world.store.commit([Delete(PAYLOADS, {"payload_id": kept["payload_id"]}, Anyway("lost"))])
    world.push()
    run = world.run(key)
    assert (world.poster.posts, run.status, run.slots) == ([], lifecycle.DEAD, ())
    assert kept["payload_id"] in run.attempts[0]["error"]
    assert len(world.queue.gone) == 1


def test_a_receiver_verifies_with_its_team_s_secret_old_or_new(world: PushWorld) -> None:
    key = world.push_timer()
    world.push()
    _, body, headers = world.poster.posts[0]
    at, *marks = headers["Tickwork-Signature"].split(",")
    signed = f"{at.removeprefix('t=')}.{key.run_id}.".encode() + body
    for master, mark in zip(MASTERS, marks, strict=True):
        secret = team_secret(master, "shop")
        assert mark == "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    assert team_secret(MASTERS[0], "bank") != team_secret(MASTERS[0], "shop")


def test_a_push_that_failed_is_retried_no_sooner_than_asked(world: PushWorld) -> None:
    key = world.push_timer(retry=RetryPolicy(base_s=1, jitter_percent=0))
    world.poster.answer = Answer(503, retry_after="120", detail="later")
    world.push()
    run = world.run(key)
    assert (run.status, run.retry_at_ms) == (lifecycle.WAITING, world.clock.at_ms + 120_000)
    assert run.attempts[0]["error"] == "HTTP 503: later"
    world.clock.at_ms = run.retry_at_ms
    world.poster.answer = OK
    world.push()
    assert world.run(key).status == lifecycle.SUCCEEDED
    assert [json.loads(body)["attempt"] for _, body, _ in world.poster.posts] == [1, 2]
    assert {headers["Idempotency-Key"] for _, _, headers in world.poster.posts} == {key.run_id}


def test_a_request_that_is_wrong_is_not_repeated(world: PushWorld) -> None:
    key = world.push_timer()
    world.poster.answer = Answer(400, detail="no such order")
    world.push()
    assert world.run(key).status == lifecycle.DEAD
    assert world.run(key).attempts[0]["error_class"] == "Http400"


def test_a_pusher_that_dies_after_the_post_repeats_it_with_the_same_key(world: PushWorld) -> None:
    key = world.push_timer()
    world.poster.crash = True
    with pytest.raises(Crash):
        world.push()
    world.after(61)
    world.push()
    assert world.outcomes(key) == ["lost"]
    assert world.run(key).status == lifecycle.SUCCEEDED
    assert [h["Idempotency-Key"] for _, _, h in world.poster.posts] == [key.run_id] * 2


def test_a_target_that_is_down_is_left_alone_and_costs_its_runs_no_attempts(world: PushWorld) -> None:
    world.poster.answer = Answer(0, error_class="Unreachable", detail="refused")
    keys = [world.push_timer() for _ in range(breaker.TRIP_AFTER + 3)]
    world.push(times=len(keys))
    assert len(world.poster.posts) == breaker.TRIP_AFTER
    assert world.signals.counts["push.breaker_opened_total"] == 1
    held = [key for key in keys if world.run(key).status == lifecycle.PENDING]
    assert len(held) == 3
    assert all(world.run(key).attempt == 0 for key in held)


def test_after_a_while_one_tries_it_and_heals_it_for_all(world: PushWorld) -> None:
    world.poster.answer = Answer(502)
    for _ in range(breaker.TRIP_AFTER):
        world.push_timer(retry=RetryPolicy(base_s=3_600))
    world.push(times=breaker.TRIP_AFTER)
    held = [world.push_timer(), world.push_timer()]
    world.push(times=2)
    assert len(world.poster.posts) == breaker.TRIP_AFTER
    world.after(breaker.OPEN_S_FIRST + 1)
    world.poster.answer = OK
    world.push()
    world.push()
    assert [world.run(key).status for key in held] == [lifecycle.SUCCEEDED] * 2


def test_a_probe_that_fails_leaves_it_open_for_longer(world: PushWorld) -> None:
    world.poster.answer = Answer(502)
    for _ in range(breaker.TRIP_AFTER):
        world.push_timer(retry=RetryPolicy(base_s=3_600))
    world.push(times=breaker.TRIP_AFTER)
    for _ in range(3):
        world.push_timer(retry=RetryPolicy(base_s=3_600))
    world.push(times=3)
    world.after(breaker.OPEN_S_FIRST + 1)
    world.push(times=3)
    assert len(world.poster.posts) == breaker.TRIP_AFTER + 1
    read = breaker.Breaker.from_item(
        world.store.get(breaker.RESOURCES, breaker.breaker_key("shop", parse_target(URL).resource))
    )
    assert read.open_until_ms - world.clock.at_ms == 2 * breaker.OPEN_S_FIRST * 1_000


def test_no_more_pushes_than_the_cap_are_under_way_to_one_origin(world: PushWorld) -> None:
    first, second = world.push_timer(cap=1), world.push_timer(cap=1)
    world.poster.crash = True
    with pytest.raises(Crash):
        world.push()
    world.push()
    assert len(world.poster.posts) == 1
    assert sorted([world.run(first).status, world.run(second).status]) == [lifecycle.PENDING, lifecycle.RUNNING]


def test_a_target_that_is_not_pushed_to_any_more_ends_its_runs(world: PushWorld) -> None:
    key = world.push_timer(url="https://10.0.0.1/x")
    world.push()
    assert world.poster.posts == []
    assert (world.run(key).status, world.run(key).attempts[0]["error_class"]) == (lifecycle.DEAD, "AddressRefused")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer(200), Outcome(True)),
        (Answer(301), Outcome(False, True, False, "HTTP 301: ", "Http301")),
        (Answer(404), Outcome(False, True, False, "HTTP 404: ", "Http404")),
        (Answer(429, "30"), Outcome(False, False, False, "HTTP 429: ", "Http429", 30)),
        (Answer(500, "x"), Outcome(False, False, True, "HTTP 500: ", "Http500")),
        (Answer(503, "Fri, 30 Oct 2026 00:01:00 GMT"), Outcome(False, False, True, "HTTP 503: ", "Http503", 60)),
        (Answer(503, "Fri, 30 Oct 1996 00:01:00 GMT"), Outcome(False, False, True, "HTTP 503: ", "Http503")),
        (Answer(0, error_class="TimedOut"), Outcome(False, False, True, "", "TimedOut")),
        (Answer(0, error_class="AddressRefused"), Outcome(False, True, False, "", "AddressRefused")),
    ],
)
def test_what_an_answer_means(answer: Answer, outcome: Outcome) -> None:
    assert judge(answer, 1_793_318_400_000) == outcome


def test_a_url_is_a_target_where_the_environment_pushes() -> None:
    body = {"team": "shop", "delay_s": 60, "target": {"url": URL, "max_concurrency": 3}}
    api = ApiUnderTest(fake_ports(layout=Layout(pools=("default", "push"))))
    status, timer = api.call("POST", "/timers", body)
    assert (status, timer["target"]) == (201, {"url": URL, "max_concurrency": 3})
    assert "resources" not in timer
    for wrong in (
        {"url": URL, "pool": "default"},
        {"url": "http://169.254.169.254/"},
        {"pool": "push", "handler": "x"},
        {"url": URL, "handler": "x"},
        {"pool": "default", "handler": "x", "max_concurrency": 3},
        {},
    ):
        assert api.call("POST", "/timers", body | {"target": wrong})[0] == 422
    assert api.call("POST", "/pools/push:lease", {})[0] == 404
    other = ApiUnderTest(fake_ports())
    assert other.call("POST", "/timers", body)[0] == 422


def test_an_exchange_lasts_no_longer_than_the_attempt_may(world: PushWorld) -> None:
    world.push_timer()
    world.push_timer(max_duration_s=4)
    world.push(2)
    assert sorted(world.poster.timeouts_ms) == [3_600, 10_000]


def test_a_start_that_was_answered_too_late_is_not_pushed(world: PushWorld) -> None:
    key = world.push_timer(max_duration_s=4)
    world.scan()
    right = world.store.commit

    def slow(writes: Any) -> Any:
        result = right(writes)
        world.after(5)
        return result

    world.store.commit = slow  # type: ignore[method-assign]
    push_some(world.ports, world.pusher, "push", wait_s=0)
    assert world.poster.posts == []
    assert world.run(key).status == lifecycle.RUNNING
    assert not world.queue.gone, "its message brings the next attempt"


def test_an_exchange_is_bounded_by_the_monotonic_clock_whatever_the_wall_clock_does(world: PushWorld) -> None:
    world.push_timer(max_duration_s=10)
    world.scan()
    right, clock = world.store.commit, world.clock
    passed_ms = 0
    clock.monotonic_ms = lambda: passed_ms  # type: ignore[method-assign]

    def slow(writes: Any) -> Any:
        nonlocal passed_ms
        passed_ms = 4_000
        clock.at_ms -= 60_000  # set back meanwhile
        return right(writes)

    world.store.commit = slow  # type: ignore[method-assign]
    push_some(world.ports, world.pusher, "push", wait_s=0)
    assert world.poster.timeouts_ms == [5_400], "what is left of ten seconds, less a tenth"
