"""What a crash, a lost answer or a late repeat between two calls of a worker leaves: nothing that costs an attempt."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.http import ApiUnderTest
from tests.support.queues import WorldQueue
from tests.support.runs_world import Crash, World

from tickwork.core.errors import Throttled
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.tables import PAYLOADS, Table
from tickwork.core.ledger.work import RetryPolicy
from tickwork.core.ledger.writes import Anyway, Item, Put
from tickwork.core.runs.attempts import Declined
from tickwork.flows.jobs import registering
from tickwork.flows.ledger.payloads import PAYLOAD_INLINE_BYTES_MAX
from tickwork.flows.runs import worker_calls
from tickwork.flows.runs.finishing import Ended
from tickwork.flows.runs.worker_calls import PAYLOAD_LOST
from tickwork.ports import Ports

LONG = json.dumps("x" * (PAYLOAD_INLINE_BYTES_MAX + 1))


# --- a claim that comes late --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stops_in_s", [0, 5])
def test_an_early_try_to_start_that_comes_after_the_hand_back_starts_nothing(world: World, stops_in_s: int) -> None:
    """The API stood still in it, another try of the same start was granted, and its worker has gone since."""
    key = world.timer()
    run = world.must_start(key, claim="claim-of-the-first")
    worker_calls.hand_back(world.ports, key, run.token, stops_in_s)
    world.after(10)
    late = world.start(key, "claim-of-the-first")
    assert isinstance(late, Declined)
    assert (late.reason, late.discard) == ("handed_back", False)
    assert world.must_start(key).attempt == 2


# --- payloads that cannot be had ----------------------------------------------------------------------------------


class Busy:
    """Lets no payload be read."""

    def __init__(self, world: World) -> None:
        self._get = world.store.get

    def __call__(self, table: Table, key: Item) -> Item | None:
        if table is PAYLOADS:
            raise Throttled("slow down")
        return self._get(table, key)


def test_while_its_payload_cannot_be_read_nothing_is_decided_of_a_run(world: World) -> None:
    key = world.timer(payload=LONG)
    world.after(1)
    world.scan()
    body = world.message(key)
    api = ApiUnderTest(world.ports)
    entry = {name: body[name] for name in ("ref", "attempt", "payload_id")} | {"claim": "claim-one", "lease_s": 60}
    usual, world.store.get = world.store.get, Busy(world)  # type: ignore[method-assign]
    _, answer = api.call("POST", "/runs:start", {"worker": "w", "runs": [entry]})
    assert answer["runs"][0]["reason"] == "busy"
    world.store.get = usual  # type: ignore[method-assign]
    assert world.run(key).status == lifecycle.PENDING
    _, answer = api.call("POST", "/runs:start", {"worker": "w", "runs": [entry | {"claim": "claim-two"}]})
    assert (answer["runs"][0]["granted"], answer["runs"][0]["attempt"]) == (True, 1)
    assert answer["runs"][0]["payload"] == json.loads(LONG)


@pytest.mark.parametrize("text", ["", "{", "nothing", "[" * 100_000])
def test_a_payload_that_is_none_any_more_ends_its_run_as_an_error_that_says_so(world: World, text: str) -> None:
    key = world.timer(payload=LONG)
    (kept,) = world.store.items(PAYLOADS)
    world.store.commit([Put(PAYLOADS, kept | {"payload": text}, Anyway("by hand"))])
    world.scan()
    started = world.start(key)
    assert isinstance(started, Declined)
    assert (started.reason, started.discard) == (worker_calls.NO_PAYLOAD, True)
    run = world.run(key)
    assert (run.status, run.attempts[0]["error_class"]) == (lifecycle.DEAD, PAYLOAD_LOST)
    assert str(kept["payload_id"]) in run.attempts[0]["error"]


def test_the_ledger_says_which_payload_a_timer_has_and_not_its_message(world: World) -> None:
    key = world.timer(payload=LONG)
    started = world.start(key)
    assert not isinstance(started, Declined)
    assert started.payload == LONG


# --- a crash after the end was written ----------------------------------------------------------------------------


def last_of(world: World, job_id: str) -> Any:
    return registering.get_job(world.ports, job_id).last


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda world, key, token: world.complete(key, token), lifecycle.SUCCEEDED),
        (lambda world, key, token: world.fail(key, token, permanent=True), lifecycle.DEAD),
    ],
)
def test_an_end_whose_answer_was_lost_is_noted_on_the_job_by_its_repeat(
    world: World, end: Callable[[World, Any, int], Ended | Declined], status: str
) -> None:
    job_id = world.job(retry=RetryPolicy(max_attempts=1))
    key = world.until_due(job_id)
    run = world.must_start(key)
    world.store.crash_after_commits = 1
    with pytest.raises(Crash):
        end(world, key, run.token)
    assert not last_of(world, job_id)
    world.after(3)
    assert end(world, key, run.token) == Ended(status)
    last = last_of(world, job_id)
    assert (last["status"], last["scheduled_at_ms"]) == (status, key.scheduled_at_ms)
    assert last["ended_at_ms"] == world.run(key).ended_at_ms


# --- a release while a heartbeat is under way ---------------------------------------------------------------------


@pytest.fixture
def queue(world: World) -> WorldQueue:
    queue = WorldQueue(world)
    p = world.ports
    world.ports = Ports(p.clock, p.store, p.sender, p.signals, p.ids, p.layout, queue)
    return queue


def leased(api: ApiUnderTest) -> list[dict[str, Any]]:
    _, answer = api.call("POST", "/pools/default:lease", {"worker": "w", "max": 5, "lease_s": 900})
    return list(answer["runs"])


def at_call(number: int, act: Callable[[], object], then: Callable[..., Any]) -> Callable[..., Any]:
    """A port's method before whose n-th call something else happens."""
    left = [number]

    def call(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            act()
        return then(*arguments, **named)

    return call


@pytest.mark.parametrize(
    ("where", "number", "work"),
    [
        ("hide", 1, {}),
        ("commit", 1, {}),
        ("hide", 1, {"max_duration_s": 600}),
        ("commit", 1, {"max_duration_s": 600}),
    ],
)
def test_a_run_released_while_its_heartbeat_is_under_way_is_another_s_at_once(
    world: World, queue: WorldQueue, where: str, number: int, work: dict[str, Any]
) -> None:
    api = ApiUnderTest(world.ports)
    world.timer(**work)
    world.scan()
    (run,) = leased(api)
    world.after(100)
    entry = {name: run[name] for name in ("ref", "token", "receipt")}

    def release() -> None:
        assert api.call("POST", "/runs:release", {"runs": [entry]})[1]["runs"][0]["accepted"]

    told = queue if where == "hide" else world.store
    usual = getattr(told, where)
    setattr(told, where, at_call(number, release, usual))
    api.call("POST", "/runs:heartbeat", {"runs": [entry | {"lease_s": 900}]})
    setattr(told, where, usual)
    assert world.run(parse_ref(run["ref"])).is_handed_back
    assert [one["attempt"] for one in leased(api)] == [2]


# --- what becomes of the message ----------------------------------------------------------------------------------


def entry_of(run: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {name: run[name] for name in ("ref", "token", "receipt")} | more


def test_a_late_completion_leaves_the_message_to_the_attempt_that_has_the_run(world: World, queue: WorldQueue) -> None:
    """It is what brings the run again when that one's worker dies."""
    api = ApiUnderTest(world.ports)
    world.timer()
    world.scan()
    (late,) = leased(api)
    world.after(902)
    (second,) = leased(api)
    _, answer = api.call("POST", "/runs:complete", {"runs": [entry_of(late, outcome="succeeded")]})
    assert (answer["runs"][0]["reason"], answer["runs"][0]["discard"]) == ("stale_token", False)
    world.after(902)
    assert [run["token"] for run in leased(api)] == [second["token"] + 1]


def test_nobody_is_shown_the_message_of_a_job_that_may_go_on_before_it_cannot(world: World, queue: WorldQueue) -> None:
    api = ApiUnderTest(world.ports)
    world.timer()
    world.scan()
    (run,) = leased(api)
    api.call("POST", "/runs:release", {"runs": [entry_of(run, stops_in_s=5)]})
    (handle,) = queue.receives
    for _ in range(4):
        world.after(1)
        assert leased(api) == []
    assert queue.receives[handle] == 1, "whoever was shown it would hide it, and count a receive"
    world.after(1)
    assert [one["attempt"] for one in leased(api)] == [2]


@pytest.mark.parametrize("days", [0, 30, 800])
def test_the_payload_of_a_timer_is_kept_until_its_run_is_forgotten_however_far_ahead_that_is(
    world: World, days: int
) -> None:
    key = world.timer(days * 86_400, payload=LONG)
    (kept,) = world.store.items(PAYLOADS)
    assert kept["expires_at_s"] >= key.fire_second + world.ports.layout.retention_s


# --- heartbeats that cross others -----------------------------------------------------------------------------------


def test_a_heartbeat_that_comes_late_takes_nothing_off_the_lease_that_a_later_one_has_given(world: World) -> None:
    """The worker trusts the answer to the later one (W14)."""
    key = world.timer()
    token = world.must_start(key).token
    given = worker_calls.heartbeat(world.ports, key, token, 300)
    assert worker_calls.heartbeat(world.ports, key, token, 60) == given
    assert world.run(key).lease_until_ms == world.clock.at_ms + 300_000


def test_a_start_that_has_read_a_lapsed_lease_takes_no_run_whose_heartbeat_comes_before_its_write(world: World) -> None:
    key = world.timer()
    token = world.must_start(key, lease_s=60).token
    world.after(63)

    def beat_before_the_next_write() -> None:
        world.store.before_commit = lambda: worker_calls.heartbeat(world.ports, key, token, 60)

    world.store.before_commit = beat_before_the_next_write  # the first write is tried without reading
    declined = world.start(key)
    assert isinstance(declined, Declined)
    assert not declined.discard
    assert (world.run(key).token, world.outcomes(key)) == (token, [])


@pytest.mark.parametrize("ends", [False, True])
def test_the_chain_of_a_run_that_was_started_before_its_window_goes_on_behind_it(world: World, *, ends: bool) -> None:
    """Clocks differ by up to two seconds: a chain is stepped whatever the state of its due item (F15)."""
    key = world.next_key(world.job())
    world.clock.at_ms = key.fire_at_ms - 1_000
    run = world.must_start(key)
    if ends:
        world.complete(key, run.token)
    world.after(1)
    world.scan()
    assert world.next_key(key.job_id).scheduled_at_ms == key.scheduled_at_ms + 3_600_000
    assert world.messages(key) == [], "it has had its message"
